"""Runs a command through a channel, with this terminal or with pipes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from windlass.cli.errors import OWN_FAILURE
from windlass.client.runs.channel import Channel
from windlass.core.errors import WindlassError
from windlass.core.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from windlass.cli.context import CommandContext

_PIECE = 1 << 17
_FALLBACK_SIZE = (80, 24)


def run(context: CommandContext, place: str, command: Sequence[str], tty: bool | None, rank: int | None = None) -> int:
    """Run a command, or a shell if there is none; returns its exit code. `place` is `runs/ID` or `targets/NAME`."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    has_tty = is_terminal if tty is None else tty
    asked: dict[str, Any] = {"command": list(command)}
    if rank is not None:
        asked["rank"] = rank
    if has_tty:
        columns, rows = _terminal_size()
        asked["terminal"] = {"columns": columns, "rows": rows}
        asked.update({"term": os.environ["TERM"]} if os.environ.get("TERM") else {})
    channel = Channel(context.session, context.workspace_path, place, **asked)
    if has_tty and is_terminal and not command:
        context.terminal.note(f"[{place.partition('/')[2]}: Enter, then ~. ends the connection]")
    with contextlib.ExitStack() as stack:
        stack.callback(channel.close)
        if has_tty and sys.stdin.isatty():
            stack.enter_context(_raw_terminal())
        stack.enter_context(_ended_by_signals())
        pump = InputPump(channel, has_escape=has_tty and sys.stdin.isatty())
        stack.callback(pump.stop)
        if has_tty:
            stack.enter_context(_following_size(pump))
        pump.start()
        _copy_output(channel)
    if channel.exit_code is None or channel.message:
        context.terminal.note(f"[{one_line(channel.message or 'The connection was closed.')}]")
    return OWN_FAILURE if channel.exit_code is None else channel.exit_code


def _copy_output(channel: Channel) -> None:
    sys.stdout.flush()
    for is_error, data in channel.output():
        stream = sys.stderr.buffer if is_error else sys.stdout.buffer
        stream.write(data)
        stream.flush()


def _terminal_size() -> tuple[int, int]:
    for stream in (sys.stdout, sys.stdin, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(stream.fileno())
            if size.columns and size.lines:
                return size.columns, size.lines
    return _FALLBACK_SIZE


class InputPump(threading.Thread):
    """Thread that passes standard input on, and the terminal's size when it changes."""

    def __init__(self, channel: Channel, has_escape: bool) -> None:
        super().__init__(name="standard input", daemon=True)
        self._channel = channel
        self._escape = EscapeFilter() if has_escape else None
        self._wake, self._waker = os.pipe()

    def resize(self) -> None:
        """Pass the terminal's size on; called by a signal handler."""
        os.write(self._waker, b"r")

    def stop(self) -> None:
        os.write(self._waker, b"s")

    def run(self) -> None:
        try:
            self._pump()
        except (WindlassError, OSError):
            pass  # the channel has ended: the reader of its output reports why

    def _pump(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._wake in ready:
                said = os.read(self._wake, 100)
                if b"s" in said:
                    return
                self._channel.resize(*_terminal_size())
            if 0 in ready and not self._pass_on(os.read(0, _PIECE)):
                poll.unregister(0)

    def _pass_on(self, data: bytes) -> bool:
        """Pass input on. False if no more is to be read."""
        if not data:
            self._channel.end_input()
            return False
        if self._escape is not None:
            data = self._escape.feed(data)
        if data:
            self._channel.write(data)
        if self._escape is not None and self._escape.is_closed:
            self._channel.close()
            return False
        return True


class EscapeFilter:
    """Recognises `~.` at the beginning of a line, which ends the connection; `~~` there is one `~`."""

    def __init__(self) -> None:
        self.is_closed = False
        self._is_line_start = True
        self._has_tilde = False

    def feed(self, data: bytes) -> bytes:
        """The bytes to pass on. After the escape none follow."""
        passed = bytearray()
        for byte in data:
            if self._has_tilde:
                self._has_tilde = False
                if byte == ord("."):
                    self.is_closed = True
                    break
                passed += b"" if byte == ord("~") else b"~"
            elif byte == ord("~") and self._is_line_start:
                self._has_tilde, self._is_line_start = True, False
                continue
            passed.append(byte)
            self._is_line_start = byte in b"\r\n"
        return bytes(passed)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass all keys on, also Ctrl-C; the terminal is as it was afterwards, however this ends."""
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this command in the regular way, so that the terminal is restored."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _following_size(pump: InputPump) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda *_: pump.resize())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
