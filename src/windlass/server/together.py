"""Requests of one kind that come close together are worked on together: one thread, one transaction, one fsync.

A function that works so yields what it wants to be done, and is given what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any

from anyio import to_thread
from starlette.responses import Response

Steps = Generator[Any, Any, Response]
# Takes the wishes of several; for each what became of it, or the error that is its own.
Perform = Callable[[Sequence[Any]], Sequence[Any]]

_MOST = 64


class Task:
    """One request's steps, and where they have got to."""

    def __init__(self, begin: Callable[[], Steps]) -> None:
        self._begin = begin
        self._steps: Steps | None = None
        self.wish: Any = None
        self.response: Response | None = None
        self.error: Exception | None = None
        self.is_done = asyncio.get_running_loop().create_future()

    @property
    def is_asking(self) -> bool:
        return self.response is None and self.error is None

    def begin(self) -> None:
        self._step(self._first)

    def go_on(self, found: Any) -> None:
        steps = self._steps
        assert steps is not None
        self._step(lambda: steps.throw(found) if isinstance(found, Exception) else steps.send(found))

    def _first(self) -> Any:
        self._steps = self._begin()
        return next(self._steps)

    def _step(self, take: Callable[[], Any]) -> None:
        try:
            self.wish = take()
        except StopIteration as end:
            self.response = end.value
        except Exception as e:  # becomes the answer to this request, and to no other
            self.error = e


class Together:
    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._waiting: list[Task] = []
        self._worker: asyncio.Task[None] | None = None

    async def respond(self, begin: Callable[[], Steps], is_large: bool) -> Response:
        """With those that are waiting; a large one alone, so that nobody waits for it."""
        task = Task(begin)
        if is_large:
            await to_thread.run_sync(self._work, [task])
        else:
            self._waiting.append(task)
            if self._worker is None:
                self._worker = asyncio.create_task(self._work_off())
            await task.is_done
        if task.error is not None:
            raise task.error
        assert task.response is not None
        return task.response

    async def _work_off(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                try:
                    await to_thread.run_sync(self._work, batch)
                finally:
                    for task in batch:
                        _release(task)
        finally:
            self._worker = None

    def _work(self, batch: list[Task]) -> None:
        for task in batch:
            task.begin()
        while asking := [task for task in batch if task.is_asking]:
            try:
                found = self._perform([task.wish for task in asking])
            except Exception as e:  # everybody's
                found = [e] * len(asking)
            for task, one in zip(asking, found, strict=True):
                task.go_on(one)


def _release(task: Task) -> None:
    if task.is_asking:
        task.error = RuntimeError("the server is being stopped")
    if not task.is_done.done():
        task.is_done.set_result(None)
