"""`make demo`: train a small scikit-learn model on this computer and look at its record. Harmless to repeat."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".cache" / "demo"
EXAMPLE = ROOT / "examples" / "sklearn-digits"
COMMAND = Path(sys.executable).with_name("windlass")

NEXT = """
That was a run. Its record is kept in {home}, apart from your own.

Try next:
  export WINDLASS_HOME="{home}"
  {command} runs                     # run `make demo` again and compare
  {command} logs @last
  {command} download @last
  {command} server stop              # the private server that keeps the record

The script is {example}/train.py; the docs begin at docs/quickstart.md.
"""


def main() -> int:
    HOME.mkdir(parents=True, exist_ok=True)
    os.environ["WINDLASS_HOME"] = str(HOME)
    ours(["python", "examples/sklearn-digits/submit.py"], [sys.executable, str(EXAMPLE / "submit.py")])
    for words in (["metrics", "@last"], ["files", "@last"], ["show", "@last"]):
        ours(["windlass", *words], [str(COMMAND), *words])
    print(NEXT.format(home=shown(HOME), command=shown(COMMAND), example=shown(EXAMPLE)))
    return 0


def ours(shown_as: list[str], arguments: list[str]) -> None:
    """Show the command as one would type it, then run it."""
    print(f"\n$ {' '.join(shown_as)}", flush=True)
    done = subprocess.run(arguments, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
