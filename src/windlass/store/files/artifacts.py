"""Files of runs: names for blobs. A name is written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, or_, select

from windlass.core.entities import Artifact
from windlass.core.errors import Conflict, NotFound
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import starts_with
from windlass.store.db.schema import artifacts, attempts, runs
from windlass.store.files import attempt_files
from windlass.store.runs.rows import ARTIFACT, find_run

_ADD = insert_or(artifacts).on_conflict_do_nothing()
_LIST = (
    select(*ARTIFACT)
    .join(runs, runs.c.pk == artifacts.c.run)
    .where(runs.c.id == bindparam("of"))
    .order_by(artifacts.c.path)
)
_GET = _LIST.where(artifacts.c.path == bindparam("named"))
_THERE = select(artifacts.c.path, artifacts.c.digest).where(
    artifacts.c.run == bindparam("of"), artifacts.c.path.in_(bindparam("paths", expanding=True))
)
_attempt_start = (
    select(attempts.c.started_at)
    .where(attempts.c.run == artifacts.c.run, attempts.c.number == bindparam("attempt"))
    .scalar_subquery()
)
_CURRENT = _LIST.join(
    attempts, (attempts.c.run == runs.c.pk) & (attempts.c.number == runs.c.attempt), isouter=True
).where(or_(runs.c.attempt == 1, artifacts.c.created_at >= attempts.c.started_at))
_REPLACE = delete(artifacts).where(
    artifacts.c.run == bindparam("of"),
    artifacts.c.path.in_(bindparam("paths", expanding=True)),
    artifacts.c.created_at < _attempt_start,
)
_PATHS = select(artifacts.c.path).where(artifacts.c.run == bindparam("of"))
_FIRST_PATHS = _PATHS.limit(bindparam("most"))
_MANY = 100  # from so many names on, one query for all is cheaper than one for each
_AT_ONCE = 5000  # names in one query; databases bound the number of parameters


class Artifacts:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, run_id: str, path: str) -> Artifact:
        found = self._read(_GET, {"of": run_id, "named": path})
        if not found:
            raise NotFound(
                f"Run {run_id} has no file {path}.", hint=f"`windlass files {run_id}` lists those that it has."
            )
        return found[0]

    def add(self, run_id: str, artifact: Artifact) -> None:
        def transaction(connection: Connection) -> None:
            pk, run = find_run(connection, run_id, lock=True)
            if not run.is_final:
                _replace_earlier(connection, pk, [artifact], run.attempt)
            if other := _find_clash(connection, pk, artifact.path):
                raise Conflict(
                    f"Run {run_id} has a file {other}, and a name cannot be a file and a folder.",
                    hint="Choose another name.",
                )
            if _insert(connection, pk, [artifact]):
                raise Conflict(
                    f"Run {run_id} has another file {artifact.path}.",
                    hint="A run's files do not change; choose another name.",
                )

        self._database.write(transaction)

    def _read(self, statement: Select[Any], values: dict[str, str]) -> list[Artifact]:
        return self._database.read(lambda connection: [Artifact(*row) for row in connection.execute(statement, values)])

    def list_current(self, run_id: str) -> Sequence[Artifact]:
        """The files that the current attempt of a run has uploaded."""
        return self._read(_CURRENT, {"of": run_id})

    def earlier(self, run_id: str) -> Sequence[Artifact]:
        """The files of the earlier attempts of a run that goes on, below attempts/N."""
        found = self._database.read(lambda c: attempt_files.read(c, find_run(c, run_id)[0]))
        return [
            replace(file, path=attempt_files.path_of(attempt, file.path))
            for attempt, files in found.items()
            for file in files
        ]

    def outputs_to_resume(self, run_id: str) -> Sequence[Artifact]:
        """The outputs that the next attempt of a run starts with: those of the last attempt, replaced by files of the
        same name that were uploaded explicitly.
        """

        def query(connection: Connection) -> dict[str, Artifact]:
            earlier = attempt_files.read(connection, find_run(connection, run_id)[0])
            uploaded = [Artifact(*row) for row in connection.execute(_LIST, {"of": run_id})]
            found = [*attempt_files.latest_outputs(earlier), *filter(attempt_files.is_output, uploaded)]
            return {file.path: file for file in found}

        return list(self._database.read(query).values())

    def list(self, run_id: str) -> list[Artifact]:
        return self._read(_LIST, {"of": run_id})


def _find_clash(connection: Connection, pk: int, path: str) -> str | None:
    """A file that this path needs as a folder, or that needs this path as one: both could not be downloaded."""
    parts = path.split("/")
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    is_near = artifacts.c.path.in_(above) | starts_with(artifacts.c.path, f"{path}/")
    return connection.execute(select(artifacts.c.path).where(artifacts.c.run == pk, is_near).limit(1)).scalar()


class PathSet:
    """Paths of files, and the folders that they need."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()
        for path in paths:
            self.add(path)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def add(self, path: str) -> None:
        self._files.add(path)
        above = path.rpartition("/")[0]
        while above and above not in self._folders:
            self._folders.add(above)
            above = above.rpartition("/")[0]

    def clashes(self, path: str) -> bool:
        """Whether the path is a folder of this set, or needs a folder that is a file of this set."""
        if path in self._folders:
            return True
        above = path.rpartition("/")[0]
        while above and above not in self._folders:
            if above in self._files:
                return True
            above = above.rpartition("/")[0]
        return False


def add_new(connection: Connection, pk: int, new: Sequence[Artifact], attempt: int = 1) -> tuple[list[str], list[str]]:
    """Add files of new names, and replace those that an earlier attempt uploaded. Returns the paths that keep other
    bytes, and the paths that are not added because a name cannot be a file and a folder.
    """
    _replace_earlier(connection, pk, new, attempt)
    there = list(connection.execute(_FIRST_PATHS, {"of": pk, "most": _MANY}).scalars()) if new else []
    is_all = len(there) < _MANY
    if not is_all and len(new) > _MANY:
        there, is_all = list(connection.execute(_PATHS, {"of": pk}).scalars()), True
    taken = PathSet(there)
    fits: list[Artifact] = []
    clashes: list[Artifact] = []
    for artifact in new:
        is_clash = taken.clashes(artifact.path) or (
            not is_all and _find_clash(connection, pk, artifact.path) is not None
        )
        (clashes if is_clash else fits).append(artifact)
        if not is_clash:
            taken.add(artifact.path)
    return _insert(connection, pk, fits), [artifact.path for artifact in clashes]


def _replace_earlier(connection: Connection, pk: int, new: Sequence[Artifact], attempt: int) -> None:
    """Remove files of these names that were uploaded before the attempt began."""
    for start in range(0, len(new) if attempt > 1 else 0, _AT_ONCE):
        paths = [artifact.path for artifact in new[start : start + _AT_ONCE]]
        connection.execute(_REPLACE, {"of": pk, "paths": paths, "attempt": attempt})


def _insert(connection: Connection, pk: int, new: Sequence[Artifact]) -> list[str]:
    conflicts: list[str] = []
    for start in range(0, len(new), _AT_ONCE):
        piece = new[start : start + _AT_ONCE]
        added = connection.execute(_ADD, [{"run": pk, **vars(artifact)} for artifact in piece])
        if added.rowcount == len(piece):
            continue  # all were new, the usual case
        there = {
            row.path: row.digest for row in connection.execute(_THERE, {"of": pk, "paths": [a.path for a in piece]})
        }
        conflicts += [
            artifact.path for artifact in piece if there.get(artifact.path, artifact.digest) != artifact.digest
        ]
    return conflicts
