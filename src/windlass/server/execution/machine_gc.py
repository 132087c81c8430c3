"""Garbage collection of machines: built environments that are not used any more; on the server's own, run folders.

Both can be made again or are in the record already; what an active run needs is never touched.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from windlass.core.digests import environment_digest
from windlass.core.errors import TargetUnreachable, WindlassError
from windlass.drivers.base import EnvironmentCache
from windlass.server.settings import Tunable
from windlass.store import Item, Store

log = logging.getLogger(__name__)
T = TypeVar("T")

ENVIRONMENT = "environment"
RUN_FOLDER = "run_folder"
KINDS = (ENVIRONMENT, RUN_FOLDER)
ASK_SECONDS = 30.0  # for all machines together: a request waits
OWN = "local"  # the server's own machine, whose environments are items without a target in their ids
_DAY = 86400.0
_AT_ONCE = 64


class MachineGc:
    """For one request: the answers of machines are cached."""

    def __init__(
        self,
        store: Store,
        root: Path,
        own: EnvironmentCache,
        caches: Sequence[tuple[str, str, EnvironmentCache]] = (),
        ask_seconds: float = ASK_SECONDS,
    ) -> None:
        """`root` and `own` are folder and environments of this machine, `caches` are those of targets on others, by
        workspace and name.
        """
        self.unanswered: set[str] = set()  # machines that did not answer in time, or not all
        self._deadline = time.monotonic() + ask_seconds
        self._needed = _Needed(store)
        self._store = store
        self._runs = root / "runs"
        self._caches = {f"{workspace}/{target}": cache for workspace, target, cache in caches}
        if (root / "environments").is_dir():  # else no host need be started
            self._caches = {OWN: own, **self._caches}

    def candidates(self, kept: Tunable) -> list[Item]:
        return [*self._old_environments(kept.keep_environments_days), *self._old_folders(kept.keep_run_folders_days)]

    def apply(self, items: Sequence[Item], kept: Tunable) -> int:
        """Remove those that still may go; returns how many bytes went."""
        removed = 0
        environments: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            if item.kind == RUN_FOLDER:
                removed += item.bytes if self._drop_folder(item.id) else 0
            else:
                environments[item.id.rpartition("/")[0] or OWN].append(item)
        return removed + self._drop_environments(environments, kept.keep_environments_days)

    def _old_environments(self, days: float | None) -> Iterator[Item]:
        """Nothing of a machine that does not answer."""
        if days is None or not self._caches:
            return
        needed = self._needed.environments()
        answers = self._ask({where: cache.environments for where, cache in self._caches.items()})
        for where, kept in answers.items():
            for one in kept:
                idle = one.idle.total_seconds() / _DAY
                if idle > days and one.digest not in needed:
                    id = one.digest if where == OWN else f"{where}/{one.digest}"
                    yield Item(ENVIRONMENT, id, one.size, f"not used for {idle:.0f} days")

    def _drop_environments(self, items: Mapping[str, Sequence[Item]], days: float | None) -> int:
        if days is None:
            return 0
        removed: list[int] = []  # also by threads that have not finished in time
        self._ask({where: partial(self._drop_there, where, there, days, removed) for where, there in items.items()})
        return sum(removed)

    def _drop_there(self, where: str, items: Sequence[Item], days: float, removed: list[int]) -> None:
        for item in items:
            digest = item.id.rpartition("/")[2]
            if digest in self._needed.environments():
                continue
            if time.monotonic() >= self._deadline:
                raise TargetUnreachable(f"There was no time left to remove all that may go at {where}.")
            if self._caches[where].evict(digest, timedelta(days=days)):
                removed.append(item.bytes)

    def _ask(self, questions: Mapping[str, Callable[[], T]]) -> dict[str, T]:
        """Ask machines side by side, until the deadline: one that hangs does not block the others."""
        pool = ThreadPoolExecutor(_AT_ONCE)
        asked = {where: pool.submit(question) for where, question in questions.items()}
        wait(asked.values(), max(0.0, self._deadline - time.monotonic()))
        pool.shutdown(wait=False, cancel_futures=True)
        answers = {}
        for where, answer in asked.items():
            if (error := _error_of(answer)) is None:
                answers[where] = answer.result()
            else:
                log.info("environments of %s are skipped: %s", where, error)
                self.unanswered.add(where)
        return answers

    def _old_folders(self, days: float | None) -> Iterator[Item]:
        if days is None or not self._runs.is_dir():
            return
        active = self._store.runs.active()
        for folder in sorted(self._runs.iterdir()):
            try:
                age = (time.time() - folder.stat().st_mtime) / _DAY
            except FileNotFoundError:
                continue  # cleaned up in this moment
            if age > days and _run_of(folder.name) not in active:
                yield Item(
                    RUN_FOLDER, folder.name, _size(folder), f"its run ended, and nothing happened for {age:.0f} days"
                )

    def _drop_folder(self, job: str) -> bool:
        folder = self._runs / job
        if _run_of(job) in self._store.runs.active():
            return False
        with _locked(folder / "claim" / "lock") as is_ours:
            if is_ours:
                shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()


class _Needed:
    """Which environments active runs need."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._runs: set[str] = set()
        self._environments: set[str] = set()

    def environments(self) -> frozenset[str]:
        """As of now. Only runs that were submitted since the last call are read; environments of runs that have ended
        since are still counted, which is harmless.
        """
        with self._lock:
            new = self._store.runs.active() - self._runs
            needed = [spec.environment for spec in self._store.runs.specs(new)]
            self._environments |= {environment_digest(each) for each in needed if each.is_built}
            self._runs |= new
            return frozenset(self._environments)


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether the lock is ours: no other process holds it, or there is no lock file."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        yield True
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(fd)


def _error_of(answer: Future[T]) -> str | None:
    """Why there is no answer. Unexpected errors are raised."""
    if not answer.done() or answer.cancelled():
        return "timeout"
    error = answer.exception()
    if error is None or isinstance(error, WindlassError):
        return None if error is None else error.message
    raise error


def _run_of(job: str) -> str:
    return job.rpartition(".")[0]


def _size(folder: Path) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except OSError:
                continue
    return total
