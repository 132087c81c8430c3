"""Single-flight build in a machine's folder: an environment, a tool or an image is built once for all runs.

The result is `<path>/`. Beside it: `.lock` (flock, held by the process that builds), `.log` (output of the build),
`.json` (written last: the build is complete), `.failed` (error of the last build, for the processes that waited for
it), `.aside/` (scratch files of the build). One process builds; every process that waits copies the log to its run.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..system import kernel, process_tree
from ..workdir.machine_folder import remove
from ..workdir.run_folder import append, read_json, write_json
from .build_progress import BuildProgress, Stage

_CHUNK = 1 << 20
_MAX_LOG_BYTES = 64 << 20  # every waiting run gets a copy


class EnvironmentFailed(Exception):
    """The environment could not be built. The message is the error output of the build."""


class BuildHooks(NamedTuple):
    """Functions of the supervisor that a build uses. `run` and `pause` raise when the run is to stop."""

    # Arguments: argv, variables, path of the log, function to call while the tool runs. Returns the exit code.
    run: Callable[[List[str], Dict[str, str], str, Callable[[], None]], int]
    pause: Callable[[float], None]
    stage: Stage


def completed(path: str) -> Optional[Dict[str, Any]]:
    """The record (`.json`) of a complete build; None if it is missing, or its interpreter was removed since."""
    try:
        os.utime(f"{path}.json")  # mark it as used first: idle ones are evicted (cache.py)
    except OSError:
        return None
    return read_json(f"{path}.json") if os.path.exists(f"{path}/bin/python") else None


class BuildOnce:
    """One build at `path`: waits for the process that builds it, or builds it."""

    def __init__(self, path: str, own_log: str, hooks: BuildHooks, outer: Optional[BuildOnce] = None) -> None:
        """`own_log` is the build log of the run, to which the shared log is copied. `outer` is the build that
        needs this one (a tool for an environment): it copies the log on.
        """
        self.path = path
        self.log = f"{path}.log"
        self.scratch = f"{path}.aside"
        self.hooks = hooks
        self._own_log = own_log
        self._outer = outer
        self._copied = 0
        self._progress = BuildProgress(path)

    @property
    def mark(self) -> str:
        """Variable set in every build process, to find orphans of a killed build.

        It has the whole path: another machine folder on the same host may build the same environment.
        """
        return f"WINDLASS_BUILD={self.path}"

    def completed(self) -> Optional[Dict[str, Any]]:
        return completed(self.path)

    def get_or_build(self, build: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """Build it, or wait for the process that builds it. What `build` returns is stored in the record (`.json`)."""
        since = time.monotonic()
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not try_lock(lock):
                self.copy_log()
                self.hooks.pause(0.1)
            found = self.completed()
            if found is None:
                self._raise_shared_failure(since)
                found = self._build(build)
        finally:
            self.copy_log()
            os.close(lock)
        return found

    def log_line(self, text: str) -> None:
        append(self.log, text.encode("utf-8", "replace") + b"\n")

    def logged_failure(self, message: str) -> EnvironmentFailed:
        """The exception to raise; its message is written to the build log too."""
        self.log_line(message)
        return EnvironmentFailed(message)

    def copy_log_within_limit(self) -> None:
        """Copy the log of a build of our own, and fail it when its output exceeds the limit."""
        self.copy_log()
        if self._copied > _MAX_LOG_BYTES:
            raise self.logged_failure(
                f"The build printed more than {_MAX_LOG_BYTES >> 20} MB, and seems to go on without end."
            )

    def copy_log(self) -> None:
        """Copy the new part of the build log to the run, and report the progress of the build."""
        self._copy()
        if self._outer is not None:
            self._outer.copy_log()
        else:
            self.hooks.stage.report(self._progress.summary)

    def _copy(self) -> None:
        try:
            fd = os.open(self.log, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            size = os.fstat(fd).st_size  # copy up to here only: the file may grow as fast as it is read
            if size < self._copied:
                self._copied = 0  # another process has started the build again
                self._progress.restart()
            while self._copied < size:
                data = os.pread(fd, _CHUNK, self._copied)
                if not data:
                    return
                append(self._own_log, data)
                self._progress.feed(data)
                self._copied += len(data)
        finally:
            os.close(fd)

    def _raise_shared_failure(self, since: float) -> None:
        failed = read_json(f"{self.path}.failed")
        if failed and failed.get("boot_id") == process_tree.boot_id() and failed.get("monotonic", 0) >= since:
            raise EnvironmentFailed(str(failed.get("message")))

    def _build(self, build: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        self._start_clean()
        try:
            known = build()
            remove(self.scratch)
            # Sync the files before writing the .json that marks the build complete.
            kernel.sync_file_system(os.path.dirname(self.path))
            record = {**known, "bytes": size_of(self.path), "built_at": time.time()}
            write_json(f"{self.path}.json", record, durable=True)
        except BaseException as e:  # also if the run is stopped: a partial build is useless
            remove(self.path)  # first, since the disk may be full
            remove(self.scratch)
            if isinstance(e, EnvironmentFailed):
                failed = {"message": str(e), "monotonic": time.monotonic(), "boot_id": process_tree.boot_id()}
                write_json(f"{self.path}.failed", failed)
            raise
        return known

    def _start_clean(self) -> None:
        """Remove the files of a killed build, and end its processes that still run."""
        remove(f"{self.path}.json")
        remove(f"{self.path}.going")  # see cache.py: an eviction that was under way is void
        remove(f"{self.path}.failed")
        process_tree.Tree(self.mark).end(0, _do_nothing)
        remove(self.path)
        remove(self.scratch)
        os.mkdir(self.scratch, 0o700)
        os.close(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        self._copied = 0
        self._progress.restart()


def size_of(folder: str) -> int:
    """Bytes on the disk. Hard links to the package cache count in full."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{where}/{name}").st_size
            except OSError:
                pass  # removed meanwhile; the size is an estimate
    return total


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _do_nothing() -> None:
    return None
