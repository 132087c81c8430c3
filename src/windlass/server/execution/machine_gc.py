"""Garbage collection of machines: built environments that are not used any more; on the server's own, run folders.

Both can be made again or are in the record already; what an active run needs is never touched.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
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
_DAY = 86400.0
_NAME = re.compile(r"[0-9a-f]{64}(\..+)?\Z")  # of an environment, and of what is beside it
_AT_ONCE = 64


class MachineGc:
    """For one request: the answers of machines are cached."""

    def __init__(
        self,
        store: Store,
        root: Path,
        caches: Sequence[tuple[str, str, EnvironmentCache]] = (),
        ask_seconds: float = ASK_SECONDS,
    ) -> None:
        """`root` is the folder of this machine, `caches` are targets on others, by workspace and name."""
        self.unanswered: set[str] = set()  # machines that did not answer in time, or not all
        self._deadline = time.monotonic() + ask_seconds
        self._needed = _Needed(store)
        self._store = store
        self._environments = root / "environments"
        self._runs = root / "runs"
        self._caches = {f"{workspace}/{target}": cache for workspace, target, cache in caches}

    def candidates(self, kept: Tunable) -> list[Item]:
        days = kept.keep_environments_days
        return [
            *self._old_environments(days),
            *self._old_environments_elsewhere(days),
            *self._old_folders(kept.keep_run_folders_days),
        ]

    def apply(self, items: Sequence[Item], kept: Tunable) -> int:
        """Remove those that still may go; returns how many bytes went."""
        removed = 0
        elsewhere: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            if item.kind == RUN_FOLDER:
                removed += item.bytes if self._drop_folder(item.id) else 0
            elif "/" in item.id:
                elsewhere[item.id.rpartition("/")[0]].append(item)
            else:
                removed += item.bytes if self._drop_environment(item.id) else 0
        return removed + self._drop_elsewhere(elsewhere, kept.keep_environments_days)

    def _old_environments(self, days: float | None) -> Iterator[Item]:
        if days is None or not self._environments.is_dir():
            return
        needed = self._needed.environments()
        there = self._there()
        for digest in sorted(there.keys() - needed):
            idle = (time.time() - _last_used(self._environments / digest, there[digest])) / _DAY
            if idle > days and not self._is_being_built(digest):
                yield Item(ENVIRONMENT, digest, _size(self._environments / digest), f"not used for {idle:.0f} days")

    def _there(self) -> dict[str, list[Path]]:
        """All files of each environment but its lock, which another process may be about to take. Files with other
        names are not ours.
        """
        found: dict[str, list[Path]] = defaultdict(list)
        for path in self._environments.iterdir():
            if _NAME.match(path.name) and path.suffix != ".lock":
                found[path.name[:64]].append(path)
        return found

    def _is_being_built(self, digest: str) -> bool:
        with _locked(self._environments / f"{digest}.lock", create=False) as is_ours:
            return not is_ours

    def _old_environments_elsewhere(self, days: float | None) -> Iterator[Item]:
        """One that does not answer keeps what it has."""
        if days is None or not self._caches:
            return
        needed = self._needed.environments()
        answers = self._ask({where: cache.environments for where, cache in self._caches.items()})
        for where, kept in answers.items():
            for one in kept:
                idle = one.idle.total_seconds() / _DAY
                if idle > days and one.digest not in needed:
                    why = f"not used for {idle:.0f} days"
                    yield Item(ENVIRONMENT, f"{where}/{one.digest}", one.size, why)

    def _drop_elsewhere(self, items: Mapping[str, Sequence[Item]], days: float | None) -> int:
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
            if (trouble := _trouble(answer)) is None:
                answers[where] = answer.result()
            else:
                log.info("%s is left out: %s", where, trouble)
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

    def _drop_environment(self, digest: str) -> bool:
        """Rename its .json first, so that no run can start to use it. If one did before, it is in the store by now, and
        the .json is renamed back.
        """
        prefix = self._environments / digest
        whole = prefix.with_suffix(".json")
        with _locked(prefix.with_suffix(".lock")) as is_ours:
            if not is_ours:
                return False
            aside = prefix.with_suffix(".going")
            if is_whole := whole.exists():
                whole.rename(aside)
            if digest in self._needed.environments():
                if is_whole:
                    aside.rename(whole)
                return False
            for path in self._there()[digest]:
                _remove(path)
        return True

    def _drop_folder(self, job: str) -> bool:
        folder = self._runs / job
        if _run_of(job) in self._store.runs.active():
            return False
        with _locked(folder / "claim" / "lock", create=False) as is_ours:
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
def _locked(path: Path, create: bool = True) -> Iterator[bool]:
    """Whether the lock is ours: no other process holds it, or there is no lock file."""
    try:
        fd = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
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


def _trouble(answer: Future[T]) -> str | None:
    """Why there is no answer; what is no refusal is raised."""
    if not answer.done() or answer.cancelled():
        return "it has not answered in time"
    error = answer.exception()
    if error is None or isinstance(error, WindlassError):
        return None if error is None else error.message
    raise error


def _last_used(prefix: Path, there: Sequence[Path]) -> float:
    """Every run that takes it up touches its file; an interpreter reads its pyvenv.cfg whenever it starts.

    Of one that is not whole: when its building left it.
    """
    try:
        read_at = (prefix / "pyvenv.cfg").stat().st_atime
    except OSError:
        read_at = 0.0
    whole = _changed_at(prefix.with_suffix(".json"))
    return max(read_at, whole) if whole else max(map(_changed_at, there))


def _changed_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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
