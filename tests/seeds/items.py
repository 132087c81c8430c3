"""The items of the five documents, as items.toml lists them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("items.toml")


class State(StrEnum):
    """What becomes of an item once everything that it waits for is there."""

    WORKS = "works"
    DIFFERS = "differs"
    MEANINGLESS = "meaningless"
    ABSENT = "absent"


@dataclass(frozen=True)
class Document:
    number: int
    title: str
    about: str
    year: str = ""


@dataclass(frozen=True)
class Repair:
    """What must change in a text before it can work. Without `old`, `new` is put in front."""

    new: str
    why: str
    old: str = ""

    def apply(self, text: str) -> str:
        if not self.old:
            return f"{self.new}\n{text}"
        assert self.old in text, f"there is no {self.old!r} to repair"
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Item:
    at: str
    what: str
    state: State
    tests: tuple[str, ...]
    note: str = ""
    kind: str = ""
    error: str = ""
    waits: str = ""
    snippet: str = ""
    command: str = ""
    file: str = ""
    unexecuted: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    repairs: tuple[Repair, ...] = ()

    @property
    def document(self) -> int:
        return int(self.at.partition(":")[0])

    @property
    def line(self) -> int:
        return int(self.at.partition(":")[2].rstrip("abc"))

    @property
    def shown(self) -> str:
        """What the document shows, if it shows anything."""
        return self.snippet or self.command or self.file

    def text(self, **facts: str) -> str:
        """What is executed: repaired, with values for its placeholders. Facts are what only the test knows."""
        text = self.shown
        for repair in self.repairs:
            text = repair.apply(text)
        for placeholder, value in self.values.items():
            assert placeholder in text, f"there is no {placeholder!r} in {self.at}"
            text = text.replace(placeholder, facts[value[1:-1]] if value.startswith("{") else value)
        return text


def _item(row: Mapping[str, Any]) -> Item:
    changed = {
        "state": State(row["state"]),
        "tests": tuple(row["tests"]),
        "repairs": tuple(Repair(**repair) for repair in row.get("repairs", ())),
    }
    return Item(**{**row, **changed})


_READ = tomllib.loads(TABLE.read_text("utf-8"))
DOCUMENTS = [Document(**row) for row in _READ["document"]]
ITEMS = {row["at"]: _item(row) for row in _READ["item"]}
