"""Calls that a script queued for its run (tags, properties, name, uploads). A call that fails becomes a warning
event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from windlass.core import names
from windlass.core.entities import Artifact, Run
from windlass.core.errors import InvalidRequest
from windlass.store.files import artifacts
from windlass.store.runs import events, labels, writer_offsets
from windlass.store.runs.rows import find_run

# The limits of the HTTP API.
_LONGEST_NAME = 1000
_LONGEST_DESCRIPTION = 10_000
_MOST_WARNINGS = 10  # of one batch
_LONGEST_WARNING = 1000


def apply(
    connection: Connection,
    id: str,
    writer: str,
    offset: int,
    next_offset: int,
    calls: Sequence[Mapping[str, Any]],
    uploads: Sequence[Artifact],
    refused: Sequence[str] = (),
) -> bool:
    """Apply a batch of calls; False if `offset` is not the writer's. `refused` are warnings about refused uploads."""
    pk, run = find_run(connection, id, lock=True)
    if not writer_offsets.move(connection, pk, writer_offsets.CALLS, writer, offset, next_offset):
        return False
    changed, warnings = _apply_all(run, calls)
    labels.rewrite(connection, pk, run, changed)
    kept_before, not_kept = artifacts.add_new(connection, pk, uploads, run.attempt)
    warnings += [f"{path} was uploaded again with other content; the first one is kept" for path in kept_before]
    warnings += [f"{path} is not kept: a name cannot be a file and a folder" for path in not_kept]
    warnings += refused
    for warning in warnings[:_MOST_WARNINGS]:
        events.append(connection, id, "warning", warning[:_LONGEST_WARNING], {})
    if len(warnings) > _MOST_WARNINGS:
        more = f"{len(warnings) - _MOST_WARNINGS} more calls of the script could not be done"
        events.append(connection, id, "warning", more, {})
    return True


def _apply_all(run: Run, calls: Sequence[Mapping[str, Any]]) -> tuple[Run, list[str]]:
    warnings = []
    for call in calls:
        try:
            run = _apply_one(run, call)
        except InvalidRequest as error:
            warnings.append(error.message)
    return run, warnings


def _apply_one(run: Run, call: Mapping[str, Any]) -> Run:
    match call:
        case {"do": "tag", "key": str(key)}:
            value = call.get("value")
            text = None if value is None else names.tag_value(str(value))
            return labels.with_changes(run, tags={names.tag_key(key): text})
        case {"do": "untag", "keys": list(keys)}:
            return labels.with_changes(run, remove_tags=[str(key) for key in keys])
        case {"do": "properties", "values": dict(values)}:
            fixed = {names.tag_key(str(key)): names.tag_value(str(value)) for key, value in values.items()}
            return labels.with_changes(run, properties=fixed)
        case {"do": "set"}:
            name = _text("A run's name", call.get("name"), _LONGEST_NAME)
            description = _text("A run's description", call.get("description"), _LONGEST_DESCRIPTION)
            return labels.with_changes(run, name, description)
        case {"do": "upload"}:  # its file is among the uploads
            return run
    raise InvalidRequest(f"The script asked for something that is not known: {str(call.get('do'))[:60]!a}")


def _text(what: str, value: Any, longest: int) -> str | None:
    if value is None:
        return None
    text = names.printable(what, str(value))
    if len(text) > longest:
        raise InvalidRequest(f"{what} has at most {longest} characters; this one has {len(text)}.")
    return text
