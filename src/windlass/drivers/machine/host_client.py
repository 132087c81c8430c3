"""The server's side of a connection to a runner's host (docs/dev/runner.md, "The connection to a host").

Any thread may send a request; one thread reads. Answers find their request by its id, and events go to `on_event`.
Whatever goes wrong with the far side, every caller gets TargetUnreachable, with the far side's last words.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

from windlass.core.errors import TargetUnreachable, WindlassError
from windlass.drivers.machine import protocol
from windlass.drivers.machine.framing import MAX_JSON, Body, Decoder, Garbled, encode
from windlass.drivers.machine.relay import Relay
from windlass.drivers.machine.transport import Transport

log = logging.getLogger(__name__)

_LONGEST_WAIT = 600.0
_FIRST_PACE = 4.0e6
_LEAST_MEASURED = 1 << 15  # bytes: fewer say nothing about the pace
_COMFORTABLE_SECONDS = 0.25
_LEAST_SKEW = 2.0
_LISTS = ("observe", "files", "kept")  # requests whose answers may be long
_LARGEST_ANSWER = 1 << 18  # bytes of JSON; other answers may have this and as much as was asked
_LARGEST_EVENT = 1 << 20
_ROOM_SECONDS = 0.2
_RELAYED = ("line", "new", "room", "end")


def _ignore(*_: object) -> None:
    pass


@dataclass(slots=True)
class Answer:
    """What will come back for one request. It is late when no byte moved for as long as the patience lasts."""

    do: str
    patience: float
    sent: int = 0  # bytes, beside the JSON
    largest: int = MAX_JSON  # bytes of JSON that the answer may have
    asked_at: float = field(default_factory=time.monotonic)
    came: threading.Event = field(default_factory=threading.Event)
    body: Body | None = None
    data: bytes = b""


class HostClient:
    """Opened by its constructor, which returns once the host has sent its hello. The transport is closed with it."""

    def __init__(
        self,
        transport: Transport,
        on_event: Callable[[Body], None] = _ignore,
        on_break: Callable[[], None] = _ignore,
        open_seconds: float = 15.0,
        opening: bytes = b"",
        explain: Callable[[int | None, str], WindlassError | None] = _ignore,
    ) -> None:
        """`opening` is sent before the host has said hello. `explain` knows what an exit code and last words mean."""
        self.transport = transport
        self.what = transport.what
        self.hello: Body = {}
        self.relay: Relay | None = None  # where the lines of scripts there end
        self.sent = 0  # requests so far; tests count them
        self.has: Set[str] = frozenset()  # digests of files that the machine had when a job was last handed over
        self.skew = 0.0  # seconds by which our clock is ahead of the machine's
        self.pace = _FIRST_PACE  # bytes a second, as far as it is known
        self._on_event = on_event
        self._on_break = on_break
        self._explain = explain
        self._ids = itertools.count(1)
        self._lock = threading.Lock()  # of the next two
        self._pending: dict[int, Answer] = {}
        self._failure: str | None = None
        self._moved_at = 0.0
        self._answered_at = 0.0
        self._writing = threading.Lock()
        self.listing = threading.Lock()  # held by the one thread that asks for a list, until it has read the answer
        self._has_hello = threading.Event()
        self._decoder = Decoder()
        self._reader = threading.Thread(target=self._read, name=f"connection to {self.what}", daemon=True)
        self._reader.start()
        if opening:
            self._send_opening(opening, open_seconds)
        self._await_hello(open_seconds)

    @property
    def is_open(self) -> bool:
        return self._failure is None

    def call(self, do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> tuple[Body, bytes]:
        """Ask, and wait for the answer: its JSON and its bytes."""
        return self.wait(self.ask(do, data, seconds, **fields))

    def ask(self, do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> Answer:
        """Send a request without waiting for its answer, so that many may be under way."""
        number = next(self._ids)
        frame = encode({"id": number, "do": do, **fields}, data)
        with self._lock:
            if self._failure is not None:
                raise self._unreachable()
            # The host answers one request after the other: each needs the patience of the one ahead of it.
            ahead = next(reversed(self._pending.values()), None)
            patience = seconds if ahead is None else max(seconds, ahead.patience)
            largest = MAX_JSON if do in _LISTS else _LARGEST_ANSWER + len(frame)
            answer = self._pending[number] = Answer(do, patience, len(data), largest)
        self._send(frame, answer)
        return answer

    def wait(self, answer: Answer) -> tuple[Body, bytes]:
        while not answer.came.wait(self._left(answer)):
            if self._left(answer) <= 0:
                # Nothing is known of a host that does not answer; a new connection begins with a clean slate.
                self._break(f"it did not answer {answer.do!r} in time")
        if answer.body is None:
            raise self._unreachable()
        return answer.body, answer.data

    def close(self) -> None:
        """The end of its input ends the host; what it started goes on."""
        self._on_break = _ignore
        self._break("the connection was closed")
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _send_opening(self, opening: bytes, seconds: float) -> None:
        try:
            with self._writing:
                self._write(opening, Answer("the opening", seconds))
        except OSError as e:
            self._break(str(e) or "it takes nothing")

    def _await_hello(self, seconds: float) -> None:
        if not self._has_hello.wait(seconds):
            self._break(f"it did not greet within {seconds:g} s")
        if self._failure is not None:
            self._reader.join()
            raise self._explained() or self._unreachable()

    def _explained(self) -> WindlassError | None:
        """Why there was not even a hello, where that is known."""
        words = (self._decoder.noise + b"\n" + self.transport.last_words).decode("utf-8", "replace")
        return self._explain(self.transport.exit_code, words)

    def _left(self, answer: Answer) -> float:
        """How long to wait yet. Bytes that arrive, or find room at last, are a sign of life on a slow line."""
        silent_since = max(answer.asked_at, self._moved_at)
        return max(0.0, min(silent_since + answer.patience, answer.asked_at + _LONGEST_WAIT) - time.monotonic())

    def _send(self, frame: bytes, answer: Answer) -> None:
        try:
            while not self._writing.acquire(timeout=self._left(answer)):
                if self._left(answer) <= 0:
                    raise TimeoutError("it takes no more requests")
            try:
                self.sent += 1
                self._write(frame, answer)
            finally:
                self._writing.release()
        except OSError as e:
            self._break(str(e))
            raise self._unreachable() from e

    def _write(self, frame: bytes, answer: Answer) -> None:
        """All of it or an error; a host that stopped reading blocks no thread for ever."""
        rest = memoryview(frame)
        while rest:
            if self._failure is not None:
                raise BrokenPipeError(self._failure)
            sent = self.transport.write(rest)
            rest = rest[sent:]
            if sent:
                continue
            if self.transport.wait_writable(_ROOM_SECONDS):
                self._moved_at = time.monotonic()
            if self._left(answer) <= 0:
                raise TimeoutError("it takes no more requests")

    def _read(self) -> None:
        """The thread that reads: from the first byte until the transport is closed."""
        try:
            for chunk in self.transport.chunks():
                self._moved_at = time.monotonic()
                for body, data in self._decoder.feed(chunk):
                    self._take(body, data)
            self._break("it ended")
        except Garbled as e:
            self._break(str(e))
        except Exception:
            log.exception("the reader of the connection to %s failed", self.what)
            self._break("the reader failed; the server's log has the reason")
        finally:
            self._release()
            self._has_hello.set()

    def _take(self, body: Body, data: bytes) -> None:
        if "event" in body and self._decoder.size > _LARGEST_EVENT:
            raise Garbled("it sent an event that is too large")
        if body.get("event") == "hello":
            self.hello = protocol.hello(body)
            self.skew = _skew(self.hello["now"])
            self._has_hello.set()
        elif body.get("event") == "relay":
            if self.relay is not None:
                self.relay.take({name: body[name] for name in _RELAYED if name in body}, data)
        elif "event" in body:
            self._on_event(body)
        else:
            with self._lock:
                number = body.get("id")
                answer = self._pending.get(number) if isinstance(number, int) else None
                if answer is not None and self._decoder.size > answer.largest:
                    raise Garbled(f"its answer to {answer.do!r} is too large")
                if answer is not None:
                    del self._pending[body["id"]]
            if answer is not None:
                answer.body, answer.data = body, data
                self._note_pace(answer)
                answer.came.set()

    def _note_pace(self, answer: Answer) -> None:
        """Measure the pace. On a slow connection little is sent at once: urgent requests would wait behind it."""
        size, now = max(len(answer.data), answer.sent), time.monotonic()
        since, self._answered_at = max(answer.asked_at, self._answered_at), now
        if size >= _LEAST_MEASURED:
            # Answers that arrive together say little: it takes several to believe that the connection is so fast.
            self.pace = (self.pace + min(size / max(now - since, 1e-6), 4 * self.pace)) / 2

    def at_once(self, most: int) -> int:
        """How many bytes may be under way without delaying other requests."""
        return int(min(most, max(_LEAST_MEASURED, self.pace * _COMFORTABLE_SECONDS)))

    def _break(self, why: str) -> None:
        """From now on it is broken, for the first reason given. The reader closes the transport."""
        with self._lock:
            if self._failure is not None:
                return
            self._failure = why
            pending = list(self._pending.values())
            self._pending.clear()
        self.transport.interrupt()
        for answer in pending:
            answer.came.set()
        if self.hello:
            self._on_break()

    def _release(self) -> None:
        with self._writing:  # a thread that writes finds the failure and leaves
            self.transport.end_output()
        if self.relay is not None:
            self.relay.close()
        self.transport.close()

    def _unreachable(self) -> TargetUnreachable:
        words = (self._decoder.noise if not self.hello else b"") + self.transport.last_words
        lines = [line for line in words.decode("utf-8", "replace").splitlines() if line.strip()][-3:]
        said = "".join(c if c.isprintable() else " " for c in " / ".join(lines))[-500:]
        return TargetUnreachable(
            f"{self.what} cannot be reached: {self._failure}" + (f"; it said: {said}" if said else "")
        )


def _skew(now: float | None) -> float:
    """By which our clock is ahead of one that says `now`. A difference that a slow connection explains is none."""
    skew = time.time() - now if now is not None else 0.0
    return skew if abs(skew) >= _LEAST_SKEW else 0.0
