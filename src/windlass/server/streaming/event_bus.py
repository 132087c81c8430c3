"""Tells those who follow a run that something about it is new. What is new, they read themselves from the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Follower:
    """One open stream's ear; lives on the event loop."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def tell(self) -> None:
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Until there is news since the last time, at most that long."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()


class Hub:
    def __init__(self) -> None:
        self._followers: dict[str, set[Follower]] = {}
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.count = 0
        self.is_closed = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def publish(self, run_id: str) -> None:
        """Something about the run was committed. Cheap, from any thread, and free when nobody follows."""
        # A follower first registers and then reads, so that one who is missed here has yet to read.
        if run_id in self._followers:
            with self._lock:
                is_scheduled = bool(self._told)
                self._told.add(run_id)
            if not is_scheduled:
                self._call(self._deliver)

    def is_followed(self, run_id: str) -> bool:
        """Whether a stream of this server follows the run."""
        return run_id in self._followers

    def close(self) -> None:
        """End all streams; from any thread. Their readers resume elsewhere, or when we are back."""
        self.is_closed = True
        self._call(self._tell_all)

    def rouse(self) -> None:
        """Let all streams look again; from any thread. Who is welcome has changed."""
        self._call(self._tell_all)

    @contextmanager
    def follow(self, run_id: str) -> Iterator[Follower]:
        follower = Follower()
        self._followers.setdefault(run_id, set()).add(follower)
        self.count += 1
        try:
            yield follower
        finally:
            self.count -= 1
            here = self._followers[run_id]
            here.discard(follower)
            if not here:
                del self._followers[run_id]

    def _call(self, act: Callable[[], None]) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(act)
            except RuntimeError:
                pass  # the loop is closed: nobody follows any more

    def _deliver(self) -> None:
        with self._lock:
            told, self._told = self._told, set()
        for run_id in told:
            for follower in self._followers.get(run_id, ()):
                follower.tell()

    def _tell_all(self) -> None:
        for followers in self._followers.values():
            for follower in followers:
                follower.tell()
