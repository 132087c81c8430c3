"""Resolve RUN arguments: an id, its first characters, the first characters of its last part, or @last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.cli.context import CommandContext

_WHOLE = re.compile(r".+_\d{9,}_[0-9a-f]{8}\Z")
_LAST = re.compile(r"@last(?:~(\d{1,3}))?\Z")
_NAMED_IN_ERROR = 3


def find(context: CommandContext, text: str) -> str:
    """The id of the run that a reference names. Raises for none and for several."""
    if _WHOLE.match(text):
        return names.run_id(text)
    if text.startswith("@"):
        return _find_recent(context, text)
    return _find_by_prefix(context, names.run_id(text))


def find_all(context: CommandContext, texts: Sequence[str]) -> list[str]:
    """Resolve several references: ids without duplicates, in the given order."""
    return list(dict.fromkeys(find(context, text) for text in texts))


def _find_recent(context: CommandContext, text: str) -> str:
    found = _LAST.match(text)
    if found is None:
        raise InvalidRequest(f"{escape(text)} is not a run.", "Say @last, or @last~1 for the run before the last.")
    back = int(found.group(1) or 0)
    runs = context.get("/runs", {"limit": back + 1, "parent": "none"})["runs"]
    if len(runs) <= back:
        raise NotFound(f"There is no {escape(text)}: {_how_many(len(runs))}.", "Start one: windlass submit train.py")
    return names.run_id(str(runs[back]["id"]))


def _how_many(count: int) -> str:
    return (
        "there are no runs yet" if count == 0 else f"there are only {count} runs" if count > 1 else "there is one run"
    )


def _find_by_prefix(context: CommandContext, text: str) -> str:
    found: list[str] = []
    query: dict[str, Any] = {"search": text, "archived": "all", "limit": 1000}
    while True:
        page = context.get("/runs", query)
        for run in page["runs"]:
            if run["id"] == text:
                return text
            if run["id"].startswith(text) or run["id"].rpartition("_")[2].startswith(text):
                found.append(run["id"])
        if len(found) > 1 or not page.get("next"):
            break
        query["cursor"] = page["next"]
    if not found:
        raise NotFound(f"There is no run {text}.", "windlass runs lists the runs.")
    if len(found) > 1:
        some = ", ".join(found[:_NAMED_IN_ERROR]) + (" ..." if len(found) > _NAMED_IN_ERROR else "")
        raise InvalidRequest(f"{text} could be any of {some}", "Type more of it.")
    return names.run_id(found[0])
