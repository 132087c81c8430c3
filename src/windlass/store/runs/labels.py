"""Name, description, tags and properties of runs, and whether they are archived.

Tags and properties are JSON in the run's row, and once more one row each in a table for filters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

from sqlalchemy import Connection, bindparam, delete, insert, update

from windlass.core.entities import Run
from windlass.core.errors import Conflict, TooLarge
from windlass.store.db import search_texts
from windlass.store.db.column_types import clean, now
from windlass.store.db.schema import labels, runs
from windlass.store.runs.rows import CHANGED, RUN, run_of

V = TypeVar("V")

TAG = "tag"
PROPERTY = "property"
MOST = 1000

_ADD = insert(labels)
_REMOVE = delete(labels).where(
    labels.c.run == bindparam("of"), labels.c.kind == TAG, labels.c.key == bindparam("named")
)
_REWRITE = (
    update(runs)
    .where(runs.c.pk == bindparam("of"))
    .values(
        name=bindparam("new_name"),
        description=bindparam("new_description"),
        tags=bindparam("new_tags"),
        properties=bindparam("new_properties"),
        searched=bindparam("new_searched"),
        archived_at=bindparam("new_archived_at"),
        **CHANGED,
    )
    .returning(*RUN)
)


def with_changes(
    run: Run,
    name: str | None = None,
    description: str | None = None,
    tags: Mapping[str, str | None] | None = None,
    remove_tags: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    archived: bool | None = None,
) -> Run:
    """The run with these changes. A property is written once: the same value again is accepted, another is a
    Conflict. So is archiving a run that has not ended: lists would hide it.
    """
    if archived and not run.is_final:
        raise Conflict(
            f"Run {run.id} is {run.status}: only a run that has ended can be archived.", "Cancel it, or wait."
        )
    fixed = {clean(key): clean(value) for key, value in (properties or {}).items()}
    for key, value in fixed.items():
        if run.properties.get(key, value) != value:
            raise Conflict(
                f"The property {key!r} of run {run.id} is {run.properties[key]!r} and cannot be changed.",
                hint="Properties are written once; use a tag for what changes.",
            )
    gone = set(remove_tags)
    kept = {key: value for key, value in run.tags.items() if key not in gone}
    return dataclasses.replace(
        run,
        name=run.name if name is None else clean(name),
        description=run.description if description is None else clean(description),
        tags=_bounded(run, "tags", kept | cleaned(tags or {})),
        properties=_bounded(run, "properties", run.properties | fixed),
        archived_at=run.archived_at if archived is None else (run.archived_at or now()) if archived else None,
    )


def rewrite(connection: Connection, pk: int, old: Run, new: Run) -> Run:
    """Write the differences between `old` and `new`."""
    if new == old:
        return old
    gone, tags = _changes(old.tags, new.tags)
    _, properties = _changes(old.properties, new.properties)
    if gone:
        connection.execute(_REMOVE, [{"of": pk, "named": key} for key in gone])
    add(connection, pk, tags, properties)
    values = {
        "of": pk,
        "new_name": new.name,
        "new_description": new.description,
        "new_tags": new.tags,
        "new_properties": new.properties,
        "new_searched": search_texts.of_run(new.id, new.name, new.experiment, new.tags),
        "new_archived_at": new.archived_at,
    }
    return run_of(connection.execute(_REWRITE, values).one())


def add(connection: Connection, pk: int, tags: Mapping[str, str | None], properties: Mapping[str, str]) -> None:
    pairs = [*((TAG, *pair) for pair in tags.items()), *((PROPERTY, *pair) for pair in properties.items())]
    if pairs:
        connection.execute(_ADD, [{"run": pk, "kind": kind, "key": key, "value": value} for kind, key, value in pairs])


def cleaned(values: Mapping[str, str | None]) -> dict[str, str | None]:
    return {clean(key): None if value is None else clean(value) for key, value in values.items()}


def _changes(old: Mapping[str, V], new: Mapping[str, V]) -> tuple[list[str], dict[str, V]]:
    """The keys whose rows are deleted, and the pairs that are inserted."""
    gone = [key for key, value in old.items() if key not in new or new[key] != value]
    return gone, {key: value for key, value in new.items() if key not in old or key in gone}


def _bounded(run: Run, what: str, values: dict[str, V]) -> dict[str, V]:
    if len(values) > MOST:
        raise TooLarge(f"Run {run.id} would have {len(values)} {what}; {MOST} is the limit.")
    return values
