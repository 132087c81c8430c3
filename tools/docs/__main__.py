"""`python -m tools.docs` writes the pages; with --check it only says whether they are what the code says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools.docs import api, cli, errors, sdk, settings

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli.page,
    "api.md": api.page,
    "sdk.md": sdk.page,
    "settings.md": settings.page,
    "errors.md": errors.page,
}


def outdated() -> list[str]:
    """The pages that are not what the code says."""
    return [name for name, page in PAGES.items() if _read(REFERENCE / name) != page()]


def write() -> None:
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), "utf-8")


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def main(arguments: list[str]) -> int:
    if arguments != ["--check"]:
        write()
        return 0
    late = outdated()
    if late:
        print(f"Not what the code says: docs/reference/{', docs/reference/'.join(late)}. Type: make docs")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
