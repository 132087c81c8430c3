"""The house rules that a reader would otherwise have to remember."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import windlass

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "windlass"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked() -> list[Path]:
    """The files of the repository: what git knows, or what is there where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [path for folder in ("src", "tests", "docs", "tools", "examples") for path in (ROOT / folder).rglob("*.*")]


UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + r"ME|XX" + r"X)\b")
# Paths of one machine do not belong into a repository; the root of somebody's home least of all.
MACHINE_PATH = re.compile(r"(?<![\w./~])/(?:work|root|home)/[\w.]")


def test_nothing_is_left_for_later_and_nothing_names_one_machine() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if UNFINISHED.search(line) or (MACHINE_PATH.search(line) and "tests" not in path.parts):
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_scripts_can_be_run() -> None:
    for name in (".ci/run", "tools/setup"):
        assert os.access(ROOT / name, os.X_OK), name


def test_the_change_log_tells_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## {re.escape(windlass.__version__)}\b", text, re.MULTILINE)


def test_every_kind_of_compute_is_held_to_the_laws() -> None:
    harnesses = (ROOT / "tests" / "contract" / "harnesses.py").read_text("utf-8")
    kinds = [path.stem for path in sorted((PACKAGE / "drivers" / "kinds").glob("[a-z]*.py"))]
    assert kinds and not [kind for kind in kinds if f'"{kind}"' not in harnesses]
