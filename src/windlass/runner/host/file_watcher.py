"""Notices what happens in run folders: files that grow, states that change.

By inotify where there is one, so that a line is known when it is printed; by a look around every few seconds for the
rest: other systems, network disks, and a kernel whose limit of watches is reached.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..system import kernel
from ..workdir import run_files
from ..workdir.run_folder import RunFolder

_DEAF_SECONDS = 0.2
# The first growth after a pause is told at once. What follows is collected for this long, so that a script that prints
# without pause is told of this often, and not once a line.
_CALM_SECONDS = 0.01
_MOST_FOLDERS = 1000

# Each event wakes the host, so each place is asked only for what matters there: the end (status.json), the start
# (process.json), the death of a supervisor (its lock is closed), and growing files.
_PLACES = {"": kernel.IN_MOVED_TO, "claim": kernel.IN_MOVED_TO, "claim/lock": kernel.IN_CLOSE_WRITE}
_GROWING = kernel.IN_MODIFY | kernel.IN_MOVED_TO | kernel.IN_CREATE


class Watched:
    def __init__(self, folder: RunFolder, run: Dict[str, Any], nonce: str) -> None:
        self.folder = folder
        self.nonce = nonce
        self.live = run_files.live_folders(run)
        self.sizes: Dict[str, int] = {}
        self.numbers: Dict[str, int] = {}  # of inotify, by folder
        self.state = ""  # as it was told last; nothing needs to be told of a job that is being started


class Ear:
    """Hears what happens in some folders: what is told by number, and of which folder of which job that is."""

    def __init__(self) -> None:
        self.inotify = kernel.open_inotify()
        self.places: Dict[int, Tuple[Watched, str]] = {}

    @property
    def fd(self) -> int:
        return self.inotify.fd if self.inotify is not None else -1


class Watch:
    def __init__(self, tell_grown: Callable[[Watched, str, int], None], safety_seconds: float = 5.0) -> None:
        """`safety_seconds`: how often to look around although the kernel tells what happens."""
        self._tell_grown = tell_grown
        self._safety_seconds = safety_seconds
        self._states = Ear()
        self._growth = Ear()  # by itself, for what grows is not listened to all the time
        self._has_ears = self._states.inotify is not None and self._growth.inotify is not None
        self._is_deaf = not self._has_ears
        self._dirty: Set[Tuple[str, str]] = set()
        self._tell_at: Optional[float] = None  # what is dirty; None: at once
        self._look_at = time.monotonic() + self._patience
        self.jobs: Dict[str, Watched] = {}
        self.news: Set[str] = set()  # jobs whose state may have changed

    @property
    def fds(self) -> List[int]:
        """What to wait for now: while growth is collected, the kernel's queue does that."""
        is_calm = self._tell_at is None or time.monotonic() >= self._tell_at
        ears = (self._states, self._growth) if is_calm else (self._states,)
        return [ear.fd for ear in ears if ear.inotify is not None]

    @property
    def _patience(self) -> float:
        return _DEAF_SECONDS if self._is_deaf else self._safety_seconds

    def close(self) -> None:
        for ear in (self._states, self._growth):
            if ear.inotify is not None:
                os.close(ear.fd)

    def add(self, folder: RunFolder, run: Dict[str, Any], nonce: str) -> None:
        watched = self.jobs.get(folder.job)
        if watched is None or watched.nonce != nonce:
            self.remove(folder.job)
            self.jobs[folder.job] = Watched(folder, run, nonce)
            self._extend(self.jobs[folder.job])

    def remove(self, job: str) -> None:
        watched = self.jobs.pop(job, None)
        for path, number in watched.numbers.items() if watched is not None else ():
            ear = self._ear(path)
            ear.places.pop(number, None)
            if ear.inotify is not None:
                ear.inotify.remove(number)

    def tell_anew(self, job: str) -> None:
        """Forget what was told of a job: until now the server had not asked for it."""
        self.jobs[job].sizes.clear()
        self.jobs[job].state = ""
        self.look_around(job)
        self.news.add(job)

    def look_around(self, job: str) -> None:
        """Find what has grown without having been told."""
        watched = self.jobs[job]
        self._extend(watched)
        for top in watched.live:
            self._dirty.update((job, path) for path, _ in run_files.list_below(watched.folder.path, top))
        self._dirty.add((job, "usage.jsonl"))

    # ---- the loop's side ----

    def next_moment(self) -> float:
        return self._look_at if self._tell_at is None else min(self._look_at, self._tell_at)

    def listen(self, ready: List[int]) -> None:
        for ear in (self._states, self._growth):
            if ear.fd in ready:
                self._hear(ear)

    def _hear(self, ear: Ear) -> None:
        for number, mask, name in ear.inotify.read() if ear.inotify is not None else ():
            if mask & kernel.IN_Q_OVERFLOW:
                self._look_at = 0.0
            elif number not in ear.places:
                continue
            elif mask & kernel.IN_IGNORED:  # the folder is gone; if another takes its name, that one is to be watched
                watched, path = ear.places.pop(number)
                watched.numbers.pop(path, None)
            else:
                self._notice(*ear.places[number], mask, name)

    def step(self, is_heard: bool = True) -> None:
        """Look around if it is time to, then tell what has grown; not to somebody who does not listen now."""
        now = time.monotonic()
        if now >= self._look_at:
            self._is_deaf = not self._has_ears  # unless the limit is still reached
            for job in self.jobs:
                self.look_around(job)
                self.news.add(job)
            self._look_at = now + self._patience
        if self._tell_at is not None and now < self._tell_at:
            return
        if self._dirty and is_heard:
            self._flush()
            self._tell_at = now + _CALM_SECONDS
        else:  # while the pipe is full, what is dirty waits for it
            self._tell_at = None

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for job, path in sorted(dirty):
            watched = self.jobs.get(job)
            size = run_files.size_below(watched.folder.path, path) if watched is not None else None
            if watched is not None and size is not None and watched.sizes.get(path, 0) != size:
                watched.sizes[path] = size
                self._tell_grown(watched, path, size)

    # ---- inotify ----

    def _notice(self, watched: Watched, top: str, mask: int, name: str) -> None:
        job = watched.folder.job
        if top in _PLACES:
            if top == "claim/lock" or name in ("status.json", "process.json", "stage.json"):
                self._extend(watched)
                self.news.add(job)
        elif mask & kernel.IN_ISDIR:
            self._enter(watched, f"{top}/{name}")
        else:
            self._dirty.add((job, f"{top}/{name}"))

    def _extend(self, watched: Watched) -> None:
        """Watch the folders that have appeared by now."""
        for top in _PLACES:
            self._listen_to(watched, top)
        for top in watched.live:
            self._enter(watched, top)

    def _enter(self, watched: Watched, top: str) -> None:
        waiting: List[str] = [top]
        while waiting:
            path = waiting.pop()
            if not self._listen_to(watched, path):
                continue
            for below, is_folder in _entries(watched.folder.at(path)):
                if is_folder:
                    waiting.append(f"{path}/{below}")
                else:
                    self._dirty.add((watched.folder.job, f"{path}/{below}"))

    def _listen_to(self, watched: Watched, path: str) -> bool:
        """True if this folder is watched from now on, and was not before."""
        ear = self._ear(path)
        if ear.inotify is None or path in watched.numbers or len(watched.numbers) >= _MOST_FOLDERS:
            return False
        try:
            number = ear.inotify.add(watched.folder.at(path), _PLACES.get(path, _GROWING))
        except OSError:
            self._is_deaf = True  # the system's limit: until there is room, we look ourselves
            return False
        if number is None:
            return False
        watched.numbers[path] = number
        ear.places[number] = (watched, path)
        return True

    def _ear(self, path: str) -> Ear:
        return self._states if path in _PLACES else self._growth


def _entries(path: str) -> List[Tuple[str, bool]]:
    try:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in os.scandir(path)]
    except OSError:
        return []
