"""The Markdown pages of the repository, as the tests of the docs read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: ```python run, ```bash run, ```python file=train.py, or only to be read."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), None)

    @property
    def is_run(self) -> bool:
        return "run" in self.words


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[Block]:
    text = path.read_text("utf-8")
    return [
        Block(*_split(found["info"]), found["text"], text.count("\n", 0, found.start()) + 2)
        for found in _FENCE.finditer(text)
    ]


def _split(info: str) -> tuple[str, tuple[str, ...]]:
    language, *words = info.split() or [""]
    return language, tuple(words)


def links(path: Path) -> Iterator[str]:
    """What the page links to, outside of code."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", path.read_text("utf-8")))
    yield from _LINK.findall(prose)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, made as forges make them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
