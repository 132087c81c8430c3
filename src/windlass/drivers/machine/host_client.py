"""Client of a runner's host: requests, answers and events over one connection (docs/dev/runner.md, "The connection to
a host").

Any thread may send a request; one thread reads. Answers are matched to requests by id, and events go to `on_event`.
When the connection fails in any way, every caller gets TargetUnreachable, with what the host printed last.
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
from windlass.drivers.machine.channels import Channels
from windlass.drivers.machine.framing import MAX_JSON, Body, Decoder, ProtocolError, encode
from windlass.drivers.machine.relay import Relay
from windlass.drivers.machine.transport import Transport

log = logging.getLogger(__name__)

_LONGEST_WAIT = 600.0
_FIRST_THROUGHPUT = 4.0e6
_LEAST_MEASURED = 1 << 15  # bytes: fewer say nothing about the throughput
_COMFORTABLE_SECONDS = 0.25
_LEAST_SKEW = 2.0
_LIST_REQUESTS = ("observe", "files", "list_environments")  # requests whose answers may be long
_MAX_ANSWER = 1 << 18  # bytes of JSON; other answers may have this and as much as was asked
_MAX_EVENT = 1 << 20
_WRITE_POLL_SECONDS = 0.2
_RELAY_FIELDS = ("stream", "new", "credit", "end")


def _ignore(*_: object) -> None:
    pass


@dataclass(slots=True)
class PendingAnswer:
    """Pending answer of one request. It times out when no byte was sent or received for `timeout` seconds."""

    do: str
    timeout: float
    sent: int = 0  # bytes, beside the JSON
    largest: int = MAX_JSON  # bytes of JSON that the answer may have
    asked_at: float = field(default_factory=time.monotonic)
    came: threading.Event = field(default_factory=threading.Event)
    body: Body | None = None
    data: bytes = b""


class HostClient:
    """Connection to a host. The constructor returns once the host has sent its hello. Owns the transport."""

    def __init__(
        self,
        transport: Transport,
        on_event: Callable[[Body], None] = _ignore,
        on_break: Callable[[], None] = _ignore,
        open_seconds: float = 15.0,
        preamble: bytes = b"",
        explain: Callable[[int | None, str], WindlassError | None] = _ignore,
    ) -> None:
        """`preamble` is sent before the host's hello. `explain` turns an exit code and error output into an error."""
        self.transport = transport
        self.what = transport.what
        self.hello: Body = {}
        self.relay: Relay | None = None  # for connections of scripts to the server
        self.channels = Channels()
        self.sent = 0  # requests so far; tests count them
        self.known_files: Set[str] = frozenset()  # digests of the files of the last job that was sent
        self.skew = 0.0  # seconds by which the server's clock is ahead of the machine's
        self.throughput = _FIRST_THROUGHPUT  # bytes per second, measured
        self._on_event = on_event
        self._on_break = on_break
        self._explain = explain
        self._ids = itertools.count(1)
        self._lock = threading.Lock()  # of the next two
        self._pending: dict[int, PendingAnswer] = {}
        self._failure: str | None = None
        self._moved_at = 0.0
        self._answered_at = 0.0
        self._writing = threading.Lock()
        self.list_lock = threading.Lock()  # held from a request for a list until its answer was read: one at a time
        self._has_hello = threading.Event()
        self._decoder = Decoder()
        self._reader = threading.Thread(target=self._read, name=f"connection to {self.what}", daemon=True)
        self._reader.start()
        if preamble:
            self._send_preamble(preamble, open_seconds)
        self._await_hello(open_seconds)

    @property
    def is_open(self) -> bool:
        return self._failure is None

    def call(self, do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> tuple[Body, bytes]:
        """Send a request and wait for its answer: the JSON and the bytes."""
        return self.wait(self.ask(do, data, seconds, **fields))

    def ask(self, do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> PendingAnswer:
        """Send a request without waiting for its answer, so that many may be under way."""
        number = next(self._ids)
        frame = encode({"id": number, "do": do, **fields}, data)
        with self._lock:
            if self._failure is not None:
                raise self._unreachable()
            # The host answers in order, so a request's timeout is at least that of the request queued before it.
            ahead = next(reversed(self._pending.values()), None)
            timeout = seconds if ahead is None else max(seconds, ahead.timeout)
            largest = MAX_JSON if do in _LIST_REQUESTS else _MAX_ANSWER + len(frame)
            answer = self._pending[number] = PendingAnswer(do, timeout, len(data), largest)
        self._send(frame, answer)
        return answer

    def wait(self, answer: PendingAnswer) -> tuple[Body, bytes]:
        """Wait for the answer of a request. A timeout closes the connection."""
        while not answer.came.wait(self._remaining(answer)):
            if self._remaining(answer) <= 0:
                # The state of a host that does not answer is unknown: close, and start over with a new connection.
                self._fail(f"it did not answer {answer.do!r} in time")
        if answer.body is None:
            raise self._unreachable()
        return answer.body, answer.data

    def close(self) -> None:
        """Close the connection. The host ends at the end of its input; jobs that it started go on."""
        self._on_break = _ignore
        self._fail("the connection was closed")
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _send_preamble(self, preamble: bytes, seconds: float) -> None:
        try:
            with self._writing:
                self._write(preamble, PendingAnswer("the preamble", seconds))
        except OSError as e:
            self._fail(str(e) or "it takes nothing")

    def _await_hello(self, seconds: float) -> None:
        if not self._has_hello.wait(seconds):
            self._fail(f"it did not greet within {seconds:g} s")
        if self._failure is not None:
            self._reader.join()
            raise self._explained() or self._unreachable()

    def _explained(self) -> WindlassError | None:
        """The error for a connection that ended before the hello, if its cause is known."""
        words = (self._decoder.noise + b"\n" + self.transport.error_output).decode("utf-8", "replace")
        return self._explain(self.transport.exit_code, words)

    def _remaining(self, answer: PendingAnswer) -> float:
        """Seconds until the timeout. Bytes that are received or sent prolong it: the connection may be slow."""
        silent_since = max(answer.asked_at, self._moved_at)
        return max(0.0, min(silent_since + answer.timeout, answer.asked_at + _LONGEST_WAIT) - time.monotonic())

    def _send(self, frame: bytes, answer: PendingAnswer) -> None:
        try:
            while not self._writing.acquire(timeout=self._remaining(answer)):
                if self._remaining(answer) <= 0:
                    raise TimeoutError("it takes no more requests")
            try:
                self.sent += 1
                self._write(frame, answer)
            finally:
                self._writing.release()
        except OSError as e:
            self._fail(str(e))
            raise self._unreachable() from e

    def _write(self, frame: bytes, answer: PendingAnswer) -> None:
        """Write the whole frame, or raise. A host that stopped reading does not block the thread for ever."""
        rest = memoryview(frame)
        while rest:
            if self._failure is not None:
                raise BrokenPipeError(self._failure)
            sent = self.transport.write(rest)
            rest = rest[sent:]
            if sent:
                continue
            if self.transport.wait_writable(_WRITE_POLL_SECONDS):
                self._moved_at = time.monotonic()
            if self._remaining(answer) <= 0:
                raise TimeoutError("it takes no more requests")

    def _read(self) -> None:
        """Body of the reader thread."""
        try:
            for chunk in self.transport.chunks():
                self._moved_at = time.monotonic()
                for body, data in self._decoder.feed(chunk):
                    self._dispatch(body, data)
            self._fail("it ended")
        except ProtocolError as e:
            self._fail(str(e))
        except Exception:
            log.exception("the reader of the connection to %s failed", self.what)
            self._fail("the reader failed; the server's log has the reason")
        finally:
            self._release()
            self._has_hello.set()

    def _dispatch(self, body: Body, data: bytes) -> None:
        if "event" in body and self._decoder.size > _MAX_EVENT:
            raise ProtocolError("it sent an event that is too large")
        if body.get("event") == "hello":
            self.hello = protocol.hello(body)
            self.skew = _skew(self.hello["now"])
            self._has_hello.set()
        elif body.get("event") == "relay":
            if self.relay is not None:
                self.relay.take({name: body[name] for name in _RELAY_FIELDS if name in body}, data)
        elif body.get("event") == "channel":
            self.channels.take(body, data)
        elif "event" in body:
            self._on_event(body)
        else:
            with self._lock:
                number = body.get("id")
                answer = self._pending.get(number) if isinstance(number, int) else None
                if answer is not None and self._decoder.size > answer.largest:
                    raise ProtocolError(f"its answer to {answer.do!r} is too large")
                if answer is not None:
                    del self._pending[body["id"]]
            if answer is not None:
                answer.body, answer.data = body, data
                self._measure_throughput(answer)
                answer.came.set()

    def _measure_throughput(self, answer: PendingAnswer) -> None:
        """Update the measured throughput, which sets the send window."""
        size, now = max(len(answer.data), answer.sent), time.monotonic()
        since, self._answered_at = max(answer.asked_at, self._answered_at), now
        if size >= _LEAST_MEASURED:
            # Answers that arrive together look faster than they were: an increase is limited, so it takes several.
            self.throughput = (self.throughput + min(size / max(now - since, 1e-6), 4 * self.throughput)) / 2

    def send_window(self, most: int) -> int:
        """How many bytes, up to `most`, may be in flight: few on a slow connection, so that other requests go on."""
        return int(min(most, max(_LEAST_MEASURED, self.throughput * _COMFORTABLE_SECONDS)))

    def _fail(self, why: str) -> None:
        """Mark the connection as broken, once, and wake all waiting callers. The reader closes the transport."""
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
        with self._writing:  # a writing thread sees the failure and returns
            self.transport.end_output()
        if self.relay is not None:
            self.relay.close()
        self.channels.end_all(f"The connection to {self.what} broke: {self._failure}.")
        self.transport.close()

    def _unreachable(self) -> TargetUnreachable:
        words = (self._decoder.noise if not self.hello else b"") + self.transport.error_output
        lines = [line for line in words.decode("utf-8", "replace").splitlines() if line.strip()][-3:]
        said = "".join(c if c.isprintable() else " " for c in " / ".join(lines))[-500:]
        return TargetUnreachable(
            f"{self.what} cannot be reached: {self._failure}" + (f"; it said: {said}" if said else "")
        )


def _skew(now: float | None) -> float:
    """Seconds by which the server's clock is ahead of a clock that reads `now`. Below two seconds, which the connection
    may have taken, it is 0.
    """
    skew = time.time() - now if now is not None else 0.0
    return skew if abs(skew) >= _LEAST_SKEW else 0.0
