"""Report what has grown large: functions over 60 lines, files over 800, folders over 16 entries.

A size is a place to look at, not an error: this always succeeds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
FUNCTION_LINES = 60
FILE_LINES = 800
FOLDER_ENTRIES = 16
_COMPAT = SOURCE / "windlass" / "compat"  # its modules are import paths of Azure's SDK


def main() -> None:
    for line in sorted(outliers()):
        print(f"large: {line}")


def outliers() -> Iterator[str]:
    for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
        entries = [path for path in folder.iterdir() if _counts(path)]
        if len(entries) > FOLDER_ENTRIES and not folder.is_relative_to(_COMPAT):
            yield f"{_name(folder)}/ has {len(entries)} entries"
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        if (lines := text.count("\n")) > FILE_LINES:
            yield f"{_name(path)} has {lines} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES:
                    yield f"{_name(path)}:{node.lineno} {node.name} has {size} lines"


def _counts(path: Path) -> bool:
    is_package = path.is_dir() and (path / "__init__.py").exists()
    return is_package or (path.suffix == ".py" and path.name != "__init__.py")


def _name(path: Path) -> str:
    return path.relative_to(SOURCE / "windlass").as_posix()


if __name__ == "__main__":
    main()
