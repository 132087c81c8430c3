"""File watcher of run folders: reports files that grow and jobs whose state changes.

It uses inotify, which reports a line as soon as it is printed, and rescans the folders every few seconds: for other
systems, network disks, and a kernel whose limit of watches is reached.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..system import kernel
from ..workdir import run_files
from ..workdir.run_folder import RunFolder

_POLL_SECONDS = 0.2
# The first growth after a pause is reported at once. Then growth is collected for this long, so that a script that
# prints all the time causes one event per interval, and not one per line.
_BATCH_SECONDS = 0.01
_MOST_FOLDERS = 1000

# Each event wakes the host, so only these are watched: the end (status.json), the start (process.json), the death of a
# supervisor (its lock is closed), and growing files.
_STATE_EVENTS = {"": kernel.IN_MOVED_TO, "claim": kernel.IN_MOVED_TO, "claim/lock": kernel.IN_CLOSE_WRITE}
_GROWTH_EVENTS = kernel.IN_MODIFY | kernel.IN_MOVED_TO | kernel.IN_CREATE


class WatchedJob:
    def __init__(self, folder: RunFolder, run: Dict[str, Any], nonce: str) -> None:
        self.folder = folder
        self.nonce = nonce
        self.live = run_files.live_folders(run)
        self.sizes: Dict[str, int] = {}
        self.numbers: Dict[str, int] = {}  # watch descriptors, by folder
        self.state = ""  # as reported last; a job that is being started is not reported


class InotifyInstance:
    """An inotify instance, and the job and folder of each watch descriptor."""

    def __init__(self) -> None:
        self.inotify = kernel.open_inotify()
        self.watches: Dict[int, Tuple[WatchedJob, str]] = {}

    @property
    def fd(self) -> int:
        return self.inotify.fd if self.inotify is not None else -1


class FileWatcher:
    def __init__(self, on_growth: Callable[[WatchedJob, str, int], None], safety_seconds: float = 5.0) -> None:
        """`safety_seconds`: how often to rescan although inotify works."""
        self._on_growth = on_growth
        self._safety_seconds = safety_seconds
        self._states = InotifyInstance()
        self._growth = InotifyInstance()  # separate, since it is not read while growth is collected
        self._has_inotify = self._states.inotify is not None and self._growth.inotify is not None
        self._must_poll = not self._has_inotify
        self._dirty: Set[Tuple[str, str]] = set()
        self._flush_at: Optional[float] = None  # when to report `_dirty`; None: at once
        self._rescan_at = time.monotonic() + self._rescan_seconds
        self.jobs: Dict[str, WatchedJob] = {}
        self.changed_jobs: Set[str] = set()  # jobs whose state may have changed

    @property
    def fds(self) -> List[int]:
        """The descriptors to wait for. While growth is collected, its events stay in the kernel's queue."""
        is_calm = self._flush_at is None or time.monotonic() >= self._flush_at
        instances = (self._states, self._growth) if is_calm else (self._states,)
        return [instance.fd for instance in instances if instance.inotify is not None]

    @property
    def _rescan_seconds(self) -> float:
        return _POLL_SECONDS if self._must_poll else self._safety_seconds

    def close(self) -> None:
        for instance in (self._states, self._growth):
            if instance.inotify is not None:
                os.close(instance.fd)

    def add(self, folder: RunFolder, run: Dict[str, Any], nonce: str) -> None:
        watched = self.jobs.get(folder.job)
        if watched is None or watched.nonce != nonce:
            self.remove(folder.job)
            self.jobs[folder.job] = WatchedJob(folder, run, nonce)
            self._watch_new_folders(self.jobs[folder.job])

    def remove(self, job: str) -> None:
        watched = self.jobs.pop(job, None)
        for path, number in watched.numbers.items() if watched is not None else ():
            instance = self._instance_of(path)
            instance.watches.pop(number, None)
            if instance.inotify is not None:
                instance.inotify.remove(number)

    def report_again(self, job: str) -> None:
        """Report a job from the start, as if nothing had been reported: until now the server was not interested."""
        self.jobs[job].sizes.clear()
        self.jobs[job].state = ""
        self.rescan(job)
        self.changed_jobs.add(job)

    def rescan(self, job: str) -> None:
        """Find files that have grown without an event."""
        watched = self.jobs[job]
        self._watch_new_folders(watched)
        for top in watched.live:
            self._dirty.update((job, path) for path, _ in run_files.list_below(watched.folder.path, top))
        self._dirty.add((job, "usage.jsonl"))

    # ---- called by the loop ----

    def next_moment(self) -> float:
        return self._rescan_at if self._flush_at is None else min(self._rescan_at, self._flush_at)

    def read_events(self, ready: List[int]) -> None:
        for instance in (self._states, self._growth):
            if instance.fd in ready:
                self._read(instance)

    def _read(self, instance: InotifyInstance) -> None:
        for number, mask, name in instance.inotify.read() if instance.inotify is not None else ():
            if mask & kernel.IN_Q_OVERFLOW:
                self._rescan_at = 0.0
            elif number not in instance.watches:
                continue
            elif mask & kernel.IN_IGNORED:  # the folder is gone; another of that name is watched anew
                watched, path = instance.watches.pop(number)
                watched.numbers.pop(path, None)
            else:
                self._on_event(*instance.watches[number], mask, name)

    def step(self, can_send: bool = True) -> None:
        """Rescan if it is time to, then report growth, unless the pipe is full (`can_send`)."""
        now = time.monotonic()
        if now >= self._rescan_at:
            self._must_poll = not self._has_inotify  # set again if the limit of watches is still reached
            for job in self.jobs:
                self.rescan(job)
                self.changed_jobs.add(job)
            self._rescan_at = now + self._rescan_seconds
        if self._flush_at is not None and now < self._flush_at:
            return
        if self._dirty and can_send:
            self._flush()
            self._flush_at = now + _BATCH_SECONDS
        else:  # while the pipe is full, `_dirty` waits
            self._flush_at = None

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for job, path in sorted(dirty):
            watched = self.jobs.get(job)
            size = run_files.size_below(watched.folder.path, path) if watched is not None else None
            if watched is not None and size is not None and watched.sizes.get(path, 0) != size:
                watched.sizes[path] = size
                self._on_growth(watched, path, size)

    # ---- inotify ----

    def _on_event(self, watched: WatchedJob, top: str, mask: int, name: str) -> None:
        job = watched.folder.job
        if top in _STATE_EVENTS:
            if top == "claim/lock" or name in ("status.json", "process.json", "stage.json"):
                self._watch_new_folders(watched)
                self.changed_jobs.add(job)
        elif mask & kernel.IN_ISDIR:
            self._watch_tree(watched, f"{top}/{name}")
        else:
            self._dirty.add((job, f"{top}/{name}"))

    def _watch_new_folders(self, watched: WatchedJob) -> None:
        """Watch the folders that have appeared by now."""
        for top in _STATE_EVENTS:
            self._add_watch(watched, top)
        for top in watched.live:
            self._watch_tree(watched, top)

    def _watch_tree(self, watched: WatchedJob, top: str) -> None:
        waiting: List[str] = [top]
        while waiting:
            path = waiting.pop()
            if not self._add_watch(watched, path):
                continue
            for below, is_folder in _entries(watched.folder.at(path)):
                if is_folder:
                    waiting.append(f"{path}/{below}")
                else:
                    self._dirty.add((watched.folder.job, f"{path}/{below}"))

    def _add_watch(self, watched: WatchedJob, path: str) -> bool:
        """Watch a folder. True if it was not watched before, and now is."""
        instance = self._instance_of(path)
        if instance.inotify is None or path in watched.numbers or len(watched.numbers) >= _MOST_FOLDERS:
            return False
        try:
            number = instance.inotify.add(watched.folder.at(path), _STATE_EVENTS.get(path, _GROWTH_EVENTS))
        except OSError:
            self._must_poll = True  # the limit of watches is reached: poll until it is not
            return False
        if number is None:
            return False
        watched.numbers[path] = number
        instance.watches[number] = (watched, path)
        return True

    def _instance_of(self, path: str) -> InotifyInstance:
        return self._states if path in _STATE_EVENTS else self._growth


def _entries(path: str) -> List[Tuple[str, bool]]:
    try:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in os.scandir(path)]
    except OSError:
        return []
