"""Retention: finds and removes what is no longer needed. Nothing that a kept run needs is a candidate.

Rows are removed before bytes. A blob is removed only if no row refers to it and it was not requested recently, since a
request stores its blobs before its rows. A crash in between leaves blobs for the next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func, or_, select
from sqlalchemy.exc import IntegrityError

from windlass.store.catalog.environments import digests_of_environments
from windlass.store.catalog.models import digests_of_models
from windlass.store.db.base import Database
from windlass.store.db.column_types import now as clock
from windlass.store.db.column_types import starts_with
from windlass.store.db.schema import artifacts, attempt_files, runs, snapshots
from windlass.store.files.blobs import Blobs
from windlass.store.files.live_logs import LiveLogs
from windlass.store.runs import deletion, events

_RECENT = timedelta(hours=1)  # blobs that were requested within this time stay, whatever the policy
_LOG_FOLDERS = ("user_logs/", "azureml-logs/", "logs/")
_is_log = or_(
    *(starts_with(artifacts.c.path, folder) for folder in _LOG_FOLDERS),
    *(artifacts.c.path.like(f"attempts/%/{folder}%") for folder in _LOG_FOLDERS),
)
_has_ended = runs.c.queue_state.is_(None)
_has_run = select(runs.c.pk).where(runs.c.snapshot == snapshots.c.digest).exists()


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things are kept after they were last needed; None: for ever."""

    runs: timedelta | None = None  # after their end, with all their data
    logs: timedelta | None = None  # after their run's end
    snapshots: timedelta | None = timedelta(days=7)  # without a run
    uploads: timedelta = timedelta(days=1)  # blobs without a reference; newer ones may belong to a submit under way


@dataclass(frozen=True, slots=True)
class Item:
    """Something that may be removed. `bytes` is what that frees at most: bytes that others refer to stay."""

    kind: str  # "run", "log", "snapshot", "leftover" or "blob"
    id: str
    bytes: int
    why: str


class Retention:
    def __init__(self, database: Database, blobs: Blobs, logs: LiveLogs) -> None:
        self._database = database
        self._blobs = blobs
        self._logs = logs

    def candidates(self, policy: Policy, now: datetime) -> list[Item]:
        items = [item for find in (_old_runs, _old_logs, _unused_snapshots) for item in self._read(find, policy, now)]
        oldest = (now - max(policy.uploads, _RECENT)).timestamp()
        return [*items, *self._leftovers(), *self._unreferenced(oldest)]

    def apply(self, items: Sequence[Item]) -> int:
        """Remove those of `items` that still may be removed; returns the bytes that were freed."""
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
        except IntegrityError:  # a new run refers to it
            return set()

    def _sweep(self, digests: Iterable[str]) -> int:
        """Remove blobs that no row refers to, unless they were requested recently."""
        referenced = self._database.read(_referenced)
        moment = time.time() - _RECENT.total_seconds()
        return sum(self._blobs.remove_older(digest, moment) for digest in digests if digest not in referenced)

    def _unreferenced(self, oldest: float) -> Iterator[Item]:
        referenced = self._database.read(_referenced)
        for name, seen in self._blobs.all():
            if name not in referenced and seen.st_mtime < oldest:
                yield Item("blob", name, seen.st_size, "nothing refers to it")

    def _leftovers(self) -> Iterator[Item]:
        for id, size in self._logs.sealed():
            if self._has_ended(id):
                yield Item("leftover", id, size, "the run has ended, and these logs are among its files")

    def _has_ended(self, id: str) -> bool:
        active = select(runs.c.pk).where(runs.c.id == id, ~_has_ended)
        return self._database.read(lambda c: c.execute(active).one_or_none()) is None


Find = Callable[[Connection, Policy, datetime], list[Item]]


def _old_runs(connection: Connection, policy: Policy, now: datetime) -> list[Item]:
    """Whole trees of runs: while one run of a tree is young or active, all of them stay."""
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
    cut = now - max(policy.snapshots, _RECENT)
    asked = select(snapshots.c.digest, snapshots.c.size).where(~_has_run, snapshots.c.used_at < cut)
    return [Item("snapshot", row.digest, row.size, "no run has it") for row in connection.execute(asked)]


def _remove_run(connection: Connection, id: str) -> set[str]:
    pk = connection.execute(select(runs.c.pk).where(runs.c.id == id, _has_ended)).scalar_one_or_none()
    child = select(runs.c.pk).where(runs.c.parent == id).limit(1)
    if pk is None or connection.execute(child).first() is not None:
        return set()
    digests = set(connection.execute(select(artifacts.c.digest).where(artifacts.c.run == pk)).scalars())
    deletion.remove(connection, pk)
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
    cut = clock() - _RECENT
    gone = delete(snapshots).where(snapshots.c.digest == digest, ~_has_run, snapshots.c.used_at < cut)
    files = connection.execute(gone.returning(snapshots.c.files)).scalar_one_or_none()
    return {file[1] for file in files or []}


_REMOVE = {"run": _remove_run, "log": _remove_logs, "snapshot": _remove_snapshot}
_ORDER = ("run", "log", "snapshot", "leftover", "blob")


def _referenced(connection: Connection) -> set[str]:
    """The digests that some row refers to."""
    digests = set(connection.execute(select(artifacts.c.digest).distinct()).scalars())
    digests.update(connection.execute(select(attempt_files.c.digest).distinct()).scalars())
    for files in connection.execute(select(snapshots.c.files)).scalars():
        digests.update(file[1] for file in files)
    return digests | digests_of_environments(connection) | digests_of_models(connection)
