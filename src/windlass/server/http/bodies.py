"""Request bodies: unambiguous JSON, and bytes in constant memory, both with a time limit."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from typing import Any

from starlette.types import Receive

from windlass.core.codec import is_crowded
from windlass.core.errors import InvalidRequest, TooLarge
from windlass.server.http.errors import TooSlow

DEEPEST = 64
# Time limit of a body: this long, and a second more for so many bytes received.
BODY_SECONDS = 30
SLOWEST_BYTES_PER_SECOND = 10_000
FIRST_BYTES = 1 << 18


class Incoming:
    """A body that is being received. Read it on the event loop with `next`, or in a worker thread as an iterator."""

    def __init__(self, receive: Receive, limit: int | None = None) -> None:
        self._receive = receive
        self._limit = limit
        self._started = time.monotonic()
        self._received = 0
        self._is_over = False
        self._first: list[bytes] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # which receives for the thread that iterates

    async def begin(self) -> None:
        """Wait for the whole body or its first 256 KiB, so that a slow client holds no thread."""
        self._loop = asyncio.get_running_loop()
        while self._received < FIRST_BYTES and (part := await self.next()):
            self._first.append(part)

    async def next(self) -> bytes:
        """The next bytes; b"" at the end."""
        while not self._is_over:
            message = await self._receive_in_time()
            if message["type"] == "http.disconnect":
                raise TooSlow("The connection was lost before the body was whole.")
            self._is_over = not message.get("more_body", False)
            body: bytes = message.get("body", b"")
            self._received += len(body)
            if self._limit is not None and self._received > self._limit:
                raise TooLarge(f"The body is larger than {self._limit} bytes, which is the limit here.")
            if body:
                return body
        return b""

    async def whole(self) -> bytes:
        parts = []
        while part := await self.next():
            parts.append(part)
        return b"".join(parts)

    def __iter__(self) -> Iterator[bytes]:
        while self._first:
            yield self._first.pop(0)
        assert self._loop is not None, "begin() comes first"
        while not self._is_over and (part := asyncio.run_coroutine_threadsafe(self.next(), self._loop).result()):
            yield part

    async def _receive_in_time(self) -> Any:
        due = self._started + BODY_SECONDS + self._received / SLOWEST_BYTES_PER_SECOND
        try:
            async with asyncio.timeout(due - time.monotonic()):
                return await self._receive()
        except TimeoutError:
            raise TooSlow("The body came too slowly.", "Try again.") from None


def parse_json(raw: bytes, is_metric: bool = False) -> Any:
    """The value of a JSON text. NaN and infinite numbers are accepted in metrics only."""
    if is_crowded(raw):
        raise TooLarge("The body has more than a million values.", "Send it in parts.")
    hooks: dict[str, Any] = {} if is_metric else {"parse_constant": _no_constant, "parse_float": _finite}
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_object, **hooks)
    except UnicodeDecodeError:
        raise InvalidRequest("The body is not UTF-8.") from None
    except json.JSONDecodeError as e:
        raise InvalidRequest(f"The body is not JSON: {e.msg} at position {e.pos}.") from None
    except RecursionError:
        raise InvalidRequest(f"The body is nested deeper than {DEEPEST} levels.") from None
    except ValueError as e:
        raise InvalidRequest(f"The body has a number that is too long: {e}.") from None
    if raw.count(b"{") + raw.count(b"[") > DEEPEST:
        _check_depth(value)
    if b"\\u" in raw:
        _check_characters(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        again = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidRequest(f"The key {ascii(again[:60])} stands twice in one object.")
    return made


def _no_constant(constant: str) -> Any:
    raise InvalidRequest(f"{constant} is not accepted as a number here.")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidRequest(f"The number {text[:60]} is too large.")
    return number


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise InvalidRequest(f"The body is nested deeper than {DEEPEST} levels.")


def _check_characters(value: Any) -> None:
    """Refuse NUL, which databases do not store, and half a surrogate pair, which UTF-8 cannot encode."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
                    raise InvalidRequest("The body has a NUL character or half of a surrogate pair.")
            case dict() as found:
                waiting.extend(found.keys())
                waiting.extend(found.values())
            case list() as found:
                waiting.extend(found)
