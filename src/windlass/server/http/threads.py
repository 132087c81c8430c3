"""Threads for the work of requests, away from the event loop. Each kind of work has a pool, so that one kind cannot
take the threads of another: uploads, streams of runs, token lookups for addresses that sent many wrong tokens.

asyncio's executors rather than anyio.to_thread, which needs three times their time for a hand-over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

REQUESTS = 40
UPLOADS = 32
READERS = 8
SUSPECTS = 2


class RequestThreads:
    """Threads are started when they are needed."""

    def __init__(self) -> None:
        self.requests = ThreadPoolExecutor(REQUESTS, "request")
        self.uploads = ThreadPoolExecutor(UPLOADS, "upload")
        self.readers = ThreadPoolExecutor(READERS, "reader")
        self.suspects = ThreadPoolExecutor(SUSPECTS, "suspect")

    def close(self) -> None:
        """Wait for the work that runs: none of it may use the store after it was closed."""
        for pool in (self.requests, self.uploads, self.readers, self.suspects):
            pool.shutdown(wait=True, cancel_futures=True)


async def run_in_thread(pool: ThreadPoolExecutor, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread of the pool. If the caller is cancelled meanwhile, the function runs to its end."""
    call = partial(work, *args, **kwargs) if args or kwargs else work
    return await asyncio.get_running_loop().run_in_executor(pool, call)
