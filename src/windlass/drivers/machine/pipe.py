"""One child process that speaks frames over its stdin and stdout (docs/dev/runner.md, "The pipe").

Any thread may ask; one thread reads. Answers find their question by its id, and unasked-for frames go to `on_event`.
Whatever goes wrong with the child, every caller hears TargetUnreachable, with the child's last words.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import IO, Any

from windlass.core.errors import TargetUnreachable, WindlassError
from windlass.drivers.machine import protocol
from windlass.drivers.machine.framing import MAX_JSON, Body, Decoder, Garbled, encode
from windlass.drivers.machine.relay import Relay

log = logging.getLogger(__name__)

_CHUNK = 1 << 18
_LAST_WORDS = 2000
_BURIAL_SECONDS = 1.0
_LONGEST = 600.0
_FIRST_PACE = 4.0e6
_TELLING = 1 << 15  # bytes: fewer say nothing about the line
_COMFORTABLE_SECONDS = 0.25
_LEAST_SKEW = 2.0
_LISTS = ("observe", "files", "kept")  # requests whose answers may be long
_LARGEST_ANSWER = 1 << 18  # bytes of JSON; other answers may have this and as much as was asked
_LARGEST_EVENT = 1 << 20
_RELAYED = ("line", "new", "room", "end")


def _no_news(*_: object) -> None:
    pass


@dataclass(slots=True)
class Answer:
    """What will come back for one request. It is late when nothing moved for as long as the patience lasts."""

    do: str
    patience: float
    sent: int = 0  # bytes, beside the JSON
    largest: int = MAX_JSON  # bytes of JSON that the answer may have
    asked_at: float = field(default_factory=time.monotonic)
    came: threading.Event = field(default_factory=threading.Event)
    body: Body | None = None
    data: bytes = b""


class Pipe:
    """Opened by its constructor, which returns once the far side has said hello. `what` names it in errors."""

    def __init__(
        self,
        argv: Sequence[str],
        what: str,
        on_event: Callable[[Body], None] = _no_news,
        on_break: Callable[[], None] = _no_news,
        open_seconds: float = 15.0,
        env: Mapping[str, str] | None = None,
        opening: bytes = b"",
        explain: Callable[[int | None, str], WindlassError | None] = _no_news,
    ) -> None:
        """`opening` is sent before the far side has greeted; `explain` knows what a child means by code and words."""
        self.what = what
        self.hello: Body = {}
        self.relay: Relay | None = None  # where the lines of scripts there end
        self.sent = 0  # requests so far; tests count them
        self.has: Set[str] = frozenset()  # digests of files that the machine had when a job was last handed over
        self.skew = 0.0  # seconds by which our clock is ahead of the machine's
        self.pace = _FIRST_PACE  # bytes a second, as far as it is known
        self._on_event = on_event
        self._on_break = on_break
        self._ids = itertools.count(1)
        self._lock = threading.Lock()  # of the next two
        self._pending: dict[int, Answer] = {}
        self._failure: str | None = None
        self._moved_at = 0.0
        self._answered_at = 0.0
        self._writing = threading.Lock()
        self.listing = threading.Lock()  # held by the one thread that asks for a list, until it has read the answer
        self._greeted = threading.Event()
        self._last_words = b""
        self._decoder = Decoder()
        self._wake, self._waker = os.pipe()
        self._explain = explain
        self._process = self._spawn(argv, env)
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, name=f"pipe to {what}", daemon=True)
        self._reader.start()
        if opening:
            self._send_opening(opening, open_seconds)
        self._await_greeting(open_seconds)

    @property
    def is_open(self) -> bool:
        return self._failure is None

    def call(self, do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> tuple[Body, bytes]:
        """Ask, and wait for the answer: its JSON and its bytes."""
        return self.wait(self.ask(do, data, seconds, **fields))

    def ask(self, do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> Answer:
        """Send a request and do not wait, so that many may be under way."""
        number = next(self._ids)
        frame = encode({"id": number, "do": do, **fields}, data)
        with self._lock:
            if self._failure is not None:
                raise self._unreachable()
            # The far side works one by one: who waits must have the patience of the one ahead, who has the others'.
            ahead = next(reversed(self._pending.values()), None)
            patience = seconds if ahead is None else max(seconds, ahead.patience)
            largest = MAX_JSON if do in _LISTS else _LARGEST_ANSWER + len(frame)
            answer = self._pending[number] = Answer(do, patience, len(data), largest)
        self._send(frame, answer)
        return answer

    def wait(self, answer: Answer) -> tuple[Body, bytes]:
        while not answer.came.wait(self._left(answer)):
            if self._left(answer) <= 0:
                # Nothing is known of a far side that does not answer; a new pipe begins with a clean slate.
                self._break(f"it did not answer {answer.do!r} in time")
        if answer.body is None:
            raise self._unreachable()
        return answer.body, answer.data

    def close(self) -> None:
        """The end of its stdin ends the far side; what it started goes on."""
        self._on_break = _no_news
        self._break("the connection was closed")
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _spawn(self, argv: Sequence[str], env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
        stream = subprocess.PIPE
        try:
            # Its own session: Ctrl-C in the server's terminal is not meant for it.
            process = subprocess.Popen(
                argv, stdin=stream, stdout=stream, stderr=stream, bufsize=0, start_new_session=True, env=env
            )
        except OSError as e:
            os.close(self._wake)
            os.close(self._waker)
            raise TargetUnreachable(f"{self.what} cannot be reached: {argv[0]} does not start: {e.strerror}.") from e
        os.set_blocking(_of(process.stdin).fileno(), False)
        os.set_blocking(_of(process.stderr).fileno(), False)  # a grandchild may keep it open
        return process

    def _send_opening(self, opening: bytes, seconds: float) -> None:
        try:
            with self._writing:
                self._write(opening, Answer("the opening", seconds))
        except OSError as e:
            self._break(str(e) or "it takes nothing")

    def _await_greeting(self, seconds: float) -> None:
        if not self._greeted.wait(seconds):
            self._break(f"it did not greet within {seconds:g} s")
        if self._failure is not None:
            self._reader.join()
            raise self._explained() or self._unreachable()

    def _explained(self) -> WindlassError | None:
        """Why it did not even greet, where that is known."""
        words = (self._decoder.noise + b"\n" + self._last_words).decode("utf-8", "replace")
        return self._explain(self._process.returncode, words)

    def _left(self, answer: Answer) -> float:
        """How long to wait yet. Bytes that come, or find room at last, are a sign of life on a slow line."""
        silent_since = max(answer.asked_at, self._moved_at)
        return max(0.0, min(silent_since + answer.patience, answer.asked_at + _LONGEST) - time.monotonic())

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
        """All of it or an error; a far side that stopped reading blocks nobody for ever."""
        stdin = _of(self._process.stdin)
        rest = memoryview(frame)
        while rest:
            if self._failure is not None:
                raise BrokenPipeError(self._failure)
            try:
                rest = rest[os.write(stdin.fileno(), rest) :]
            except BlockingIOError:
                room = select.poll()
                room.register(stdin, select.POLLOUT)
                if room.poll(200):
                    self._moved_at = time.monotonic()
                if self._left(answer) <= 0:
                    raise TimeoutError("it takes no more requests") from None

    def _read(self) -> None:
        """The reader's life: from the first byte to the child's burial."""
        try:
            for chunk in self._chunks():
                for body, data in self._decoder.feed(chunk):
                    self._take(body, data)
            self._break("it ended")
        except Garbled as e:
            self._break(str(e))
        except Exception:
            log.exception("the reader of the pipe to %s failed", self.what)
            self._break("the reader failed; the server's log has the reason")
        finally:
            self._bury()
            self._greeted.set()

    def _chunks(self) -> Iterator[bytes]:
        """What stdout brings, until it ends or the pipe is broken. On the way the last words on stderr are kept."""
        stdout, stderr = _of(self._process.stdout), _of(self._process.stderr)
        with selectors.DefaultSelector() as news:
            for stream in (stdout, stderr, self._wake):
                news.register(stream, selectors.EVENT_READ)
            while self._failure is None:
                for key, _ in news.select():
                    if key.fileobj is stdout:
                        chunk = os.read(key.fd, _CHUNK)
                        if not chunk:
                            return
                        self._moved_at = time.monotonic()
                        yield chunk
                    elif key.fileobj is stderr and not self._hear(stderr):
                        news.unregister(stderr)

    def _hear(self, stderr: IO[bytes]) -> bool:
        try:
            words = os.read(stderr.fileno(), _CHUNK)
        except BlockingIOError:
            return True
        self._last_words = (self._last_words + words)[-_LAST_WORDS:]
        return bool(words)

    def _take(self, body: Body, data: bytes) -> None:
        if "event" in body and self._decoder.size > _LARGEST_EVENT:
            raise Garbled("it sent an event that is too large")
        if body.get("event") == "hello":
            self.hello = protocol.hello(body)
            self.skew = _skew(self.hello["now"])
            self._greeted.set()
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
        """How fast the line is. On a slow one much is not sent at once: urgent words wait behind it."""
        size, now = max(len(answer.data), answer.sent), time.monotonic()
        since, self._answered_at = max(answer.asked_at, self._answered_at), now
        if size >= _TELLING:
            # Answers that come together say little: it takes several to believe that the line is so fast.
            self.pace = (self.pace + min(size / max(now - since, 1e-6), 4 * self.pace)) / 2

    def at_once(self, most: int) -> int:
        """How many bytes may be under way without keeping others waiting."""
        return int(min(most, max(_TELLING, self.pace * _COMFORTABLE_SECONDS)))

    def _break(self, why: str) -> None:
        """From now on it is broken, for the first reason given. The reader buries the child."""
        with self._lock:
            if self._failure is not None:
                return
            self._failure = why
            pending = list(self._pending.values())
            self._pending.clear()
            os.close(self._waker)
        for answer in pending:
            answer.came.set()
        if self.hello:
            self._on_break()

    def _bury(self) -> None:
        with self._writing:  # whoever writes sees the failure and leaves
            _of(self._process.stdin).close()
        if self.relay is not None:
            self.relay.close()
        try:
            self._process.wait(_BURIAL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._hear(_of(self._process.stderr))
        _of(self._process.stdout).close()
        _of(self._process.stderr).close()
        os.close(self._wake)

    def _unreachable(self) -> TargetUnreachable:
        words = (self._decoder.noise if not self.hello else b"") + self._last_words
        lines = [line for line in words.decode("utf-8", "replace").splitlines() if line.strip()][-3:]
        said = "".join(c if c.isprintable() else " " for c in " / ".join(lines))[-500:]
        return TargetUnreachable(
            f"{self.what} cannot be reached: {self._failure}" + (f"; it said: {said}" if said else "")
        )


def _skew(told: float | None) -> float:
    """A difference that is no more than a slow greeting is none."""
    skew = time.time() - told if told is not None else 0.0
    return skew if abs(skew) >= _LEAST_SKEW else 0.0


def _of(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "all three streams of the child are pipes"
    return stream
