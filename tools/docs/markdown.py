"""Markdown elements of the generated pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `make docs` from the code. Change it there. -->"


def document(title: str, introduction: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", GENERATED, introduction, *(part for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Empty columns are left out."""
    cells = [[_cell(text) for text in row] for row in rows]
    kept = [i for i in range(len(head)) if any(row[i] for row in cells)]
    lines = [list(head), ["---"] * len(head), *cells]
    return "\n".join("| " + " | ".join(line[i] for i in kept) + " |" for line in lines) if cells else ""


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def text_of(thing: object) -> str:
    """A docstring as Markdown: examples in fences, everything else as it stands."""
    paragraphs = (inspect.getdoc(thing) or "").strip().split("\n\n")
    return "\n\n".join(_paragraph(paragraph) for paragraph in paragraphs if paragraph.strip())


def _paragraph(text: str) -> str:
    if text.lstrip().startswith(">>>") or all(line.startswith("    ") for line in text.splitlines()):
        return block(re.sub(r" +# doctest:.*", "", inspect.cleandoc(text)), "python")
    return text


def _cell(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text).replace("|", "\\|")
