"""What gathers on machines: built environments that nobody uses; on this one, folders of runs that ended long ago.

Both can be made again or are in the record already; what an active run needs is never touched.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from windlass.core.digests import environment_digest
from windlass.core.entities import Run
from windlass.core.errors import WindlassError
from windlass.drivers.base import Keeper, Kept
from windlass.server.settings import Tunable
from windlass.store import Item, RunQuery, Store

log = logging.getLogger(__name__)

ENVIRONMENT = "environment"
RUN_FOLDER = "run_folder"
KINDS = (ENVIRONMENT, RUN_FOLDER)
_DAY = 86400.0
_AT_ONCE = 16


class Leftovers:
    def __init__(self, store: Store, root: Path, keepers: Sequence[tuple[str, str, Keeper]] = ()) -> None:
        """`root` is the folder of this machine, `keepers` are targets on others, by workspace and name."""
        self._store = store
        self._environments = root / "environments"
        self._runs = root / "runs"
        self._keepers = {f"{workspace}/{target}": keeper for workspace, target, keeper in keepers}

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
        for item in items:
            if item.kind == RUN_FOLDER:
                is_gone = self._drop_folder(item.id)
            elif "/" in item.id:
                is_gone = self._drop_elsewhere(item.id, kept.keep_environments_days)
            else:
                is_gone = self._drop_environment(item.id)
            removed += item.bytes if is_gone else 0
        return removed

    def _old_environments(self, days: float | None) -> Iterator[Item]:
        if days is None or not self._environments.is_dir():
            return
        needed = self._needed_environments()
        for whole in sorted(self._environments.glob("*.json")):
            idle = (time.time() - _last_used(whole)) / _DAY
            if idle > days and whole.stem not in needed:
                yield Item(ENVIRONMENT, whole.stem, _size(whole.with_suffix("")), f"not used for {idle:.0f} days")

    def _old_environments_elsewhere(self, days: float | None) -> Iterator[Item]:
        """Machines are asked side by side: one that does not answer keeps what it has, and nobody waiting."""
        if days is None or not self._keepers:
            return
        needed = self._needed_environments()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = list(pool.map(_kept_by, self._keepers.values()))
        for where, kept in zip(self._keepers, answers, strict=True):
            for one in kept:
                idle = one.idle.total_seconds() / _DAY
                if idle > days and one.digest not in needed:
                    why = f"not used for {idle:.0f} days"
                    yield Item(ENVIRONMENT, f"{where}/{one.digest}", one.size, why)

    def _drop_elsewhere(self, id: str, days: float | None) -> bool:
        where, _, digest = id.rpartition("/")
        if days is None or digest in self._needed_environments():
            return False
        try:
            return self._keepers[where].forget(digest, timedelta(days=days))
        except WindlassError as e:
            log.warning("the environment %s stays: %s", id, e.message)
            return False

    def _old_folders(self, days: float | None) -> Iterator[Item]:
        if days is None or not self._runs.is_dir():
            return
        active = {run.id for run in self._active()}
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
        """First nobody can take it up any more. Whoever did before is in the store by now: then it is given back."""
        prefix = self._environments / digest
        whole = prefix.with_suffix(".json")
        with _locked(prefix.with_suffix(".lock")) as is_ours:
            if not is_ours or not whole.exists():
                return False
            aside = prefix.with_suffix(".going")
            whole.rename(aside)
            if digest in self._needed_environments():
                aside.rename(whole)
                return False
            shutil.rmtree(prefix, ignore_errors=True)
            shutil.rmtree(prefix.with_suffix(".aside"), ignore_errors=True)
            for suffix in (".going", ".log", ".failed"):
                prefix.with_suffix(suffix).unlink(missing_ok=True)
        return True

    def _drop_folder(self, job: str) -> bool:
        folder = self._runs / job
        if any(run.id == _run_of(job) for run in self._active()):
            return False
        with _locked(folder / "claim" / "lock", create=False) as is_ours:
            if is_ours:
                shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    def _needed_environments(self) -> set[str]:
        specs = [self._store.runs.spec(run.id) for run in self._active() if run.target]
        return {environment_digest(spec.environment) for spec in specs if spec.environment.is_built}

    def _active(self) -> Iterator[Run]:
        for workspace in self._store.workspaces.list():
            cursor: str | None = None
            while True:
                page = self._store.runs.find(RunQuery(workspace.name, states=("active",), limit=1000, cursor=cursor))
                yield from page.runs
                cursor = page.next
                if cursor is None:
                    break


@contextmanager
def _locked(path: Path, create: bool = True) -> Iterator[bool]:
    """Whether nobody else holds the lock; where there is no lock file, nobody does."""
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


def _kept_by(keeper: Keeper) -> list[Kept]:
    try:
        return keeper.kept()
    except WindlassError as e:
        log.info("a machine is left out: %s", e.message)
        return []


def _last_used(whole: Path) -> float:
    """Every run that takes it up touches its file; an interpreter reads its pyvenv.cfg whenever it starts."""
    try:
        read_at = (whole.with_suffix("") / "pyvenv.cfg").stat().st_atime
    except OSError:
        read_at = 0.0
    return max(read_at, whole.stat().st_mtime)


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
