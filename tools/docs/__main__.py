"""`python -m tools.docs` writes the pages; --check only reports the pages that are out of date."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools.docs import api, az, azureml, cli, errors, sdk, seeds, settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli.page,
    "reference/az.md": az.page,
    "reference/api.md": api.page,
    "reference/sdk.md": sdk.page,
    "reference/settings.md": settings.page,
    "reference/errors.md": errors.page,
    "azureml.md": azureml.page,
    "seeds.md": seeds.page,
}


def outdated() -> list[str]:
    """The pages that differ from what the code generates."""
    return [name for name, page in PAGES.items() if _read(DOCS / name) != page()]


def write() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def main(arguments: list[str]) -> int:
    if arguments != ["--check"]:
        write()
        return 0
    late = outdated()
    if late:
        print(f"Not what the code says: docs/{', docs/'.join(late)}. Type: make docs")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
