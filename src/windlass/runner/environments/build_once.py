"""Something that is made once in a machine's folder, however many runs want it: an environment, a tool.

It lives in `<path>/`. Beside it: `.lock` (held by flock while somebody makes it), `.log` (what the making says),
`.json` (written last: it is whole), `.failed` (how the last making failed, for those who waited for it), `.aside/`
(what only its making needs). One makes it, and all who wait see its log.
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

_PIECE = 1 << 20
_MOST_SAID = 64 << 20  # everybody who waits gets a copy


class EnvironmentFailed(Exception):
    """The environment could not be built; the message is what the building said."""


class Tools(NamedTuple):
    """What the supervisor lends: the first two raise when the run is to stop."""

    run: Callable[[List[str], Dict[str, str], str, Callable[[], None]], int]  # argv, variables, log, meanwhile
    pause: Callable[[float], None]
    stage: Stage


def whole(path: str) -> Optional[Dict[str, Any]]:
    """What is known of it, if it can be used as it is: its interpreter may have been removed since."""
    try:
        os.utime(f"{path}.json")  # who uses it says so first: old ones are removed (cache.py)
    except OSError:
        return None
    return read_json(f"{path}.json") if os.path.exists(f"{path}/bin/python") else None


class Once:
    def __init__(self, path: str, own_log: str, tools: Tools, outer: Optional[Once] = None) -> None:
        """`own_log` is the log of the run that wants it: the log of the build is copied to it. A tool is built for
        the build of something else, `outer`, which copies it on.
        """
        self.path = path
        self.log = f"{path}.log"
        self.aside = f"{path}.aside"
        self.tools = tools
        self._own_log = own_log
        self._outer = outer
        self._copied = 0
        self._progress = BuildProgress(path)

    @property
    def mark(self) -> str:
        """A variable of every process that makes it, by which those that a killed maker left are found.

        With the whole path: another machine's folder may be on the same machine, and make the same there.
        """
        return f"WINDLASS_BUILD={self.path}"

    def whole(self) -> Optional[Dict[str, Any]]:
        return whole(self.path)

    def get(self, make: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """Make it, or wait for whoever does. What `make` returns is known of it from then on."""
        since = time.monotonic()
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not try_lock(lock):
                self.follow()
                self.tools.pause(0.1)
            found = self.whole()
            if found is None:
                self._share_failure(since)
                found = self._make(make)
        finally:
            self.follow()
            os.close(lock)
        return found

    def say(self, text: str) -> None:
        append(self.log, text.encode("utf-8", "replace") + b"\n")

    def refusal(self, message: str) -> EnvironmentFailed:
        """To be raised; it is in the log too."""
        self.say(message)
        return EnvironmentFailed(message)

    def listen(self) -> None:
        """Hand on what our own making says, which must not go on without end."""
        self.follow()
        if self._copied > _MOST_SAID:
            raise self.refusal(f"Its building says more than {_MOST_SAID >> 20} MB, and seems to go on without end.")

    def follow(self) -> None:
        """Copy what is new in the log of the build, and report how far the build is."""
        self._copy()
        if self._outer is not None:
            self._outer.follow()
        else:
            self.tools.stage.report(self._progress.words)

    def _copy(self) -> None:
        try:
            fd = os.open(self.log, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            size = os.fstat(fd).st_size  # and no more this time, for it may grow as fast as we read
            if size < self._copied:
                self._copied = 0  # another process has begun to build it again
                self._progress.restart()
            while self._copied < size:
                data = os.pread(fd, _PIECE, self._copied)
                if not data:
                    return
                append(self._own_log, data)
                self._progress.feed(data)
                self._copied += len(data)
        finally:
            os.close(fd)

    def _share_failure(self, since: float) -> None:
        failed = read_json(f"{self.path}.failed")
        if failed and failed.get("boot_id") == process_tree.boot_id() and failed.get("monotonic", 0) >= since:
            raise EnvironmentFailed(str(failed.get("message")))

    def _make(self, make: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        self._begin()
        try:
            known = make()
            remove(self.aside)
            # What says that it is whole must not be on the disk before it is.
            kernel.sync_file_system(os.path.dirname(self.path))
            whole = {**known, "bytes": size_of(self.path), "built_at": time.time()}
            write_json(f"{self.path}.json", whole, durable=True)
        except BaseException as e:  # also if the run is stopped: half of it is of no use to anybody
            remove(self.path)  # first of all, for the disk may be full
            remove(self.aside)
            if isinstance(e, EnvironmentFailed):
                failed = {"message": str(e), "monotonic": time.monotonic(), "boot_id": process_tree.boot_id()}
                write_json(f"{self.path}.failed", failed)
            raise
        return known

    def _begin(self) -> None:
        """Remove what a maker that was killed left, and what it may have left running."""
        remove(f"{self.path}.json")
        remove(f"{self.path}.going")  # see cache.py; what is made now is another one
        remove(f"{self.path}.failed")
        process_tree.Tree(self.mark).end(0, _nothing)
        remove(self.path)
        remove(self.aside)
        os.mkdir(self.aside, 0o700)
        os.close(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        self._copied = 0
        self._progress.restart()


def size_of(folder: str) -> int:
    """What it takes on the disk, as far as it shares nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{where}/{name}").st_size
            except OSError:
                pass  # it only says how much a removal would free
    return total


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _nothing() -> None:
    return None
