"""What may go, and its going. Nothing that a kept run needs is ever a candidate.

Rows go first, bytes after them: bytes go only when no row is left that names them, and when nobody asked for them of
late, since a request under way has its bytes before its rows. A crash in between leaves bytes for the next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func, or_, select
from sqlalchemy.exc import IntegrityError

from windlass.store.catalog.environments import named_by_environments
from windlass.store.catalog.models import named_by_models
from windlass.store.db.base import Database
from windlass.store.db.column_types import begins
from windlass.store.db.column_types import now as clock
from windlass.store.db.schema import artifacts, attempt_files, runs, snapshots
from windlass.store.files.blobs import Blobs
from windlass.store.files.live_logs import Logs
from windlass.store.runs import events

_YOUNG = timedelta(hours=1)  # bytes that somebody asked for within this time stay, whatever the policy
_LOG_FOLDERS = ("user_logs/", "azureml-logs/", "logs/")
_is_log = or_(
    *(begins(artifacts.c.path, folder) for folder in _LOG_FOLDERS),
    *(artifacts.c.path.like(f"attempts/%/{folder}%") for folder in _LOG_FOLDERS),
)
_has_ended = runs.c.place.is_(None)
_has_run = select(runs.c.pk).where(runs.c.snapshot == snapshots.c.digest).exists()


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things are kept after they were last needed; None keeps them for ever."""

    runs: timedelta | None = None  # after their end, with all that is theirs
    logs: timedelta | None = None  # after their run's end
    snapshots: timedelta | None = timedelta(days=7)  # that no run has
    uploads: timedelta = timedelta(days=1)  # bytes that nothing names: younger ones may belong to a submit under way


@dataclass(frozen=True, slots=True)
class Item:
    """Something that may go. `bytes` is what it may free at most: bytes that others have too stay."""

    kind: str  # "run", "log", "snapshot", "leftover" or "blob"
    id: str
    bytes: int
    why: str


class Retention:
    def __init__(self, database: Database, blobs: Blobs, logs: Logs) -> None:
        self._database = database
        self._blobs = blobs
        self._logs = logs

    def candidates(self, policy: Policy, now: datetime) -> list[Item]:
        items = [item for find in (_old_runs, _old_logs, _unused_snapshots) for item in self._read(find, policy, now)]
        oldest = (now - max(policy.uploads, _YOUNG)).timestamp()
        return [*items, *self._leftovers(), *self._unnamed(oldest)]

    def apply(self, items: Sequence[Item]) -> int:
        """Remove those of `items` that still may go; returns how many bytes went."""
        freed = {item.id for item in items if item.kind == "blob"}
        for item in sorted(items, key=lambda item: _ORDER.index(item.kind)):
            if item.kind in _REMOVE:
                freed |= self._remove(_REMOVE[item.kind], item.id)
            if item.kind in ("run", "leftover") and self._has_ended(item.id):
                self._logs.drop_all(item.id)
        return self._sweep(freed)

    def _read(self, find: Find, policy: Policy, now: datetime) -> list[Item]:
        return self._database.read(lambda c: find(c, policy, now))

    def _remove(self, remove: Callable[[Connection, str], set[str]], id: str) -> set[str]:
        try:
            return self._database.write(lambda c: remove(c, id))
        except IntegrityError:  # a run came in that refers to it
            return set()

    def _sweep(self, digests: Iterable[str]) -> int:
        """Remove the bytes that no row names, unless somebody asked for them of late."""
        named = self._database.read(_named)
        moment = time.time() - _YOUNG.total_seconds()
        return sum(self._blobs.remove_older(digest, moment) for digest in digests if digest not in named)

    def _unnamed(self, oldest: float) -> Iterator[Item]:
        named = self._database.read(_named)
        for name, seen in self._blobs.all():
            if name not in named and seen.st_mtime < oldest:
                yield Item("blob", name, seen.st_size, "nothing refers to it")

    def _leftovers(self) -> Iterator[Item]:
        for id, size in self._logs.sealed():
            if self._has_ended(id):
                yield Item("leftover", id, size, "the run has ended, and these logs are among its files")

    def _has_ended(self, id: str) -> bool:
        goes_on = select(runs.c.pk).where(runs.c.id == id, ~_has_ended)
        return self._database.read(lambda c: c.execute(goes_on).one_or_none()) is None


Find = Callable[[Connection, Policy, datetime], list[Item]]


def _old_runs(connection: Connection, policy: Policy, now: datetime) -> list[Item]:
    """Whole trees of runs: while one of a family is young or goes on, all of them stay."""
    if policy.runs is None:
        return []
    cut = now - policy.runs
    young = select(runs.c.root).where(or_(~_has_ended, runs.c.ended_at >= cut))
    size = select(func.coalesce(func.sum(artifacts.c.size), 0)).where(artifacts.c.run == runs.c.pk).scalar_subquery()
    asked = (
        select(runs.c.id, size.label("size")).where(_has_ended, runs.c.root.not_in(young)).order_by(runs.c.pk.desc())
    )
    return [Item("run", row.id, row.size, f"it ended before {cut:%Y-%m-%d}") for row in connection.execute(asked)]


def _old_logs(connection: Connection, policy: Policy, now: datetime) -> list[Item]:
    if policy.logs is None:
        return []
    cut = now - policy.logs
    asked = (
        select(runs.c.id, func.sum(artifacts.c.size).label("size"))
        .join(artifacts, artifacts.c.run == runs.c.pk)
        .where(_has_ended, runs.c.ended_at < cut, _is_log)
        .group_by(runs.c.id)
    )
    return [Item("log", row.id, row.size, f"the run ended before {cut:%Y-%m-%d}") for row in connection.execute(asked)]


def _unused_snapshots(connection: Connection, policy: Policy, now: datetime) -> list[Item]:
    if policy.snapshots is None:
        return []
    cut = now - max(policy.snapshots, _YOUNG)
    asked = select(snapshots.c.digest, snapshots.c.size).where(~_has_run, snapshots.c.used_at < cut)
    return [Item("snapshot", row.digest, row.size, "no run has it") for row in connection.execute(asked)]


def _remove_run(connection: Connection, id: str) -> set[str]:
    pk = connection.execute(select(runs.c.pk).where(runs.c.id == id, _has_ended)).scalar_one_or_none()
    child = select(runs.c.pk).where(runs.c.parent == id).limit(1)
    if pk is None or connection.execute(child).first() is not None:
        return set()
    digests = set(connection.execute(select(artifacts.c.digest).where(artifacts.c.run == pk)).scalars())
    connection.execute(delete(runs).where(runs.c.pk == pk))
    return digests


def _remove_logs(connection: Connection, id: str) -> set[str]:
    pk = connection.execute(select(runs.c.pk).where(runs.c.id == id, _has_ended)).scalar_one_or_none()
    gone = delete(artifacts).where(artifacts.c.run == pk, _is_log).returning(artifacts.c.path, artifacts.c.digest)
    rows = connection.execute(gone).all() if pk is not None else []
    if rows:
        paths = sorted(row.path for row in rows)
        events.append(connection, id, "retention", "its logs were removed", {"paths": paths[:100], "count": len(paths)})
    return {row.digest for row in rows}


def _remove_snapshot(connection: Connection, digest: str) -> set[str]:
    cut = clock() - _YOUNG
    gone = delete(snapshots).where(snapshots.c.digest == digest, ~_has_run, snapshots.c.used_at < cut)
    files = connection.execute(gone.returning(snapshots.c.files)).scalar_one_or_none()
    return {file[1] for file in files or []}


_REMOVE = {"run": _remove_run, "log": _remove_logs, "snapshot": _remove_snapshot}
_ORDER = ("run", "log", "snapshot", "leftover", "blob")


def _named(connection: Connection) -> set[str]:
    """Every digest that some row refers to."""
    named = set(connection.execute(select(artifacts.c.digest).distinct()).scalars())
    named.update(connection.execute(select(attempt_files.c.digest).distinct()).scalars())
    for files in connection.execute(select(snapshots.c.files)).scalars():
        named.update(file[1] for file in files)
    return named | named_by_environments(connection) | named_by_models(connection)
