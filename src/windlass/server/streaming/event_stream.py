"""Server-sent events: reads frames from a cursor when the event bus notifies of something new, and sends them.

The only asynchronous part of the server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.core.errors import WindlassError
from windlass.server.http.request import ApiRequest
from windlass.server.http.threads import run_in_thread
from windlass.server.streaming.event_bus import Topic

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
# The limit of reads of all streams together.
READS_PER_SECOND = 1000

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Cursor(Protocol):
    """The position of one stream."""

    has_more: bool  # the last step reached its limit
    is_over: bool
    pause: float  # how many seconds the next step comes after the last one, at least

    def step(self) -> list[bytes]:
        """The next frames. Called by one thread at a time."""


class EventStream(Response):
    """Sends frames until the cursor is at its end, the token is invalid, the client has disconnected or the server
    stops.
    """

    media_type = "text/event-stream"

    def __init__(self, request: ApiRequest, cursor: Cursor, topic: Topic, poll_seconds: float) -> None:
        """`poll_seconds`: after which the cursor makes a step without a notification."""
        self.background = None
        self._request = request
        self._cursor = cursor
        self._topic = topic
        self._poll = poll_seconds
        self._sent_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        sending = asyncio.create_task(self._stream(send))
        disconnect = asyncio.create_task(_until_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            disconnect.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)
        if not sending.cancelled() and (problem := sending.exception()):
            # The client sees a stream without `end`, and reconnects.
            known = isinstance(problem, WindlassError)
            path = self._request.url.path
            log.warning("the stream %s was lost: %s", path, problem, exc_info=None if known else problem)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def on_subscribed(self) -> None:
        """Called before the first step."""

    async def _stream(self, send: Send) -> None:
        event_bus, cursor = self._request.context.event_bus, self._cursor
        with event_bus.subscribe(self._topic) as subscription:
            self.on_subscribed()
            while True:
                started = time.monotonic()
                frames = await run_in_thread(self._request.authenticator.threads.readers, cursor.step)
                if not await self._request.authenticator.still_valid(self._request):
                    return
                if frames or time.monotonic() - self._sent_at >= HEARTBEAT_SECONDS - 1:
                    await send({"type": "http.response.body", "body": b"".join(frames) or b":\n\n", "more_body": True})
                    self._sent_at = time.monotonic()
                if cursor.is_over or event_bus.is_closed:
                    return
                if not cursor.has_more:
                    await subscription.wait(self._poll)
                pause = max(cursor.pause, event_bus.subscription_count / READS_PER_SECOND)
                await _sleep(started + pause - time.monotonic())


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(max(0.0, seconds))


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(event: str, body: Any, id: str = "") -> bytes:
    head = f"event: {event}\nid: {id}\n" if id else f"event: {event}\n"
    return f"{head}data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()
