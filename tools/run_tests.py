"""Run pytest; run the tests that failed once more, alone, and report those that pass then as flaky.

`make test` uses it: a flaky test does not fail it, but is listed at the end and in .cache/flaky.txt. Laws, crash matrix
and store tests must pass the first time. Usage: python -m tools.run_tests PYTEST-ARGUMENT...
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAKY = ROOT / ".cache" / "flaky.txt"
# Not run a second time: a race in them is a bug of the product.
FIRST_TIME = ("tests/contract/", "tests/faults/", "tests/chaos/", "tests/store/")
# More failures than this are not caused by timing.
MOST = 10
TESTS_FAILED = 1  # pytest's exit code


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="windlass-tests-") as folder:
        cache = ["-o", f"cache_dir={folder}"]
        code = _pytest([*arguments, *cache])
        failed = _failed(Path(folder))
        if code != TESTS_FAILED or not failed:
            return code
        strict = [test for test in failed if test.startswith(FIRST_TIME)]
        if strict or len(failed) > MOST:
            return code
        print(f"\nRunning {len(failed)} failed tests once more, alone.", flush=True)
        again = _pytest([*cache, *failed])
        if again != 0:
            return again
    _report(failed)
    return 0


def _pytest(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


def _failed(cache: Path) -> list[str]:
    """The tests that failed, as pytest's cache has them. Empty if it has none, for example after a crash."""
    try:
        found: dict[str, bool] = json.loads((cache / "v" / "cache" / "lastfailed").read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return sorted(found)


def _report(flaky: Sequence[str]) -> None:
    FLAKY.parent.mkdir(exist_ok=True)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with FLAKY.open("a", encoding="utf-8") as file:
        file.writelines(f"{now} {test}\n" for test in flaky)
    print(f"\n{len(flaky)} flaky: failed among the others, passed alone ({os.path.relpath(FLAKY)})")
    for test in flaky:
        print(f"  FLAKY {test}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
