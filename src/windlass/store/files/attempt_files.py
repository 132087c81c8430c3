"""Files of earlier attempts of a run that was queued again. When the run ends, some of them become files of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from sqlalchemy import Connection, bindparam, delete, insert, select

from windlass.core.entities import Artifact
from windlass.store.db.schema import attempt_files

OUTPUTS = "outputs/"
FOLDER = "attempts"

_FILE = tuple(attempt_files.c[name] for name in Artifact.__dataclass_fields__)
_LIST = (
    select(attempt_files.c.attempt, *_FILE)
    .where(attempt_files.c.run == bindparam("of"))
    .order_by(attempt_files.c.attempt, attempt_files.c.path)
)
_ADD = insert(attempt_files)
_DROP = delete(attempt_files).where(attempt_files.c.run == bindparam("of"))


def path_of(attempt: int, path: str) -> str:
    """The path of a file of an earlier attempt among the files of its run."""
    return f"{FOLDER}/{attempt}/{path}"


def keep(connection: Connection, pk: int, attempt: int, files: Sequence[Artifact]) -> None:
    """Insert the files of an attempt that has ended."""
    if files:
        connection.execute(_ADD, [{"run": pk, "attempt": attempt, **vars(file)} for file in files])


def read(connection: Connection, pk: int) -> dict[int, list[Artifact]]:
    """The files of all earlier attempts of an active run, by attempt."""
    rows = connection.execute(_LIST, {"of": pk})
    return {attempt: [Artifact(*row[1:]) for row in files] for attempt, files in groupby(rows, lambda row: row[0])}


def settle(connection: Connection, pk: int, last: Sequence[Artifact]) -> list[Artifact]:
    """The files of a run that ends, given those of its `last` attempt. If that has none, since it was never started,
    the attempt before it is taken for the last one. Logs of earlier attempts are kept below attempts/N; outputs are
    those of the last attempt that has any, since each one hands its outputs to the next.
    """
    earlier = read(connection, pk)
    if not earlier:
        return list(last)
    connection.execute(_DROP, {"of": pk})
    files = list(last) or earlier.pop(max(earlier))
    if not any(is_output(file) for file in files):
        files += latest_outputs(earlier)
    logs = [(attempt, file) for attempt, these in earlier.items() for file in these if not is_output(file)]
    return files + [replace(file, path=path_of(attempt, file.path)) for attempt, file in logs]


def latest_outputs(earlier: dict[int, list[Artifact]]) -> list[Artifact]:
    """The outputs of the last attempt that left some."""
    for attempt in sorted(earlier, reverse=True):
        if found := [file for file in earlier[attempt] if is_output(file)]:
            return found
    return []


def is_output(file: Artifact) -> bool:
    return file.path.startswith(OUTPUTS)
