"""The texts of a run that a search looks through, case folded. They are bounded, since a search may read them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.store.db.column_types import clean

LONGEST_TAGS = 2000  # characters
LONGEST_WORDS = 4000


def of_run(id: str, name: str, experiment: str, tags: Mapping[str, str | None]) -> str:
    """Id, name, experiment, and the beginning of the tags as `key:value`."""
    labels = "\n".join(key if value is None else f"{key}:{value}" for key, value in tags.items())
    return f"{id}\n{name}\n{experiment}\n{labels[:LONGEST_TAGS]}".casefold()


def of_words(words: Iterable[str]) -> str:
    """The beginning of a command line: script or command, and arguments."""
    return clean(" ".join(words)[:LONGEST_WORDS]).casefold()
