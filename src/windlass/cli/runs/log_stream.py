"""Follow a run at the terminal: its log as it grows, why it does not run yet, and the exit code of its end."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from windlass.cli.errors import INTERRUPTED, OWN_FAILURE, TIME_LIMIT
from windlass.client.http.progress import CLEAR_LINE, LINE_EVERY_SECONDS
from windlass.client.runs.log_stream import LogCursor, StreamListener, follow_stream
from windlass.core.errors import ServerUnavailable

if TYPE_CHECKING:
    from datetime import datetime
    from typing import TextIO

    from windlass.cli.context import CommandContext
    from windlass.core.sanitize import SafeText

Run = dict[str, Any]
_SILENCE_SECONDS = 3.0
_STATES_WITH_PROGRESS = ("Starting", "Preparing")  # the part of their message after the last colon is the progress
_STATES_WITHOUT_LOG = ("Queued", "Starting", "Provisioning", "Preparing", "NotResponding")


class LogPrinter:
    """Writes a log to a stream: every byte, or sanitized text to a terminal unless `raw` is set."""

    def __init__(self, stream: TextIO, raw: bool = False) -> None:
        self._stream = stream
        self._safe: SafeText | None = None
        self.is_terminal = stream.isatty()
        self.at_line_start = True
        if self.is_terminal and not raw:
            from windlass.core.sanitize import SafeText

            self._safe = SafeText()

    def write(self, data: bytes) -> None:
        if not data:
            return
        self.at_line_start = data.endswith(b"\n")
        if self._safe is not None:
            self._stream.write(self._safe.feed(data))
            self._stream.flush()
            return
        self._stream.flush()
        self._stream.buffer.write(data)
        self._stream.buffer.flush()

    def close(self) -> None:
        """End colours and the last line, so that the next message has a line of its own."""
        if self._safe is not None:
            self._stream.write(self._safe.close())
        if self.is_terminal and not self.at_line_start:
            self._stream.write("\n")
            self.at_line_start = True
        self._stream.flush()


class StatusReporter:
    """Shows on stderr why there is no log yet, and the progress: at a terminal in one line that is redrawn, elsewhere
    at most every ten seconds.
    """

    def __init__(self, context: CommandContext, printer: LogPrinter | None = None) -> None:
        self._context = context
        self._printer = printer
        self._is_terminal = sys.stderr.isatty()
        self._lock = threading.Lock()  # of all that follows: the timer's thread shows the status, too
        self._timer: threading.Timer | None = None
        self._run: Run = {}
        self._shown = ""  # the last text, without its progress
        self._drawn = ""
        self._repeat_at = 0.0

    def report(self, run: Run) -> None:
        """Show the state of the run. "Starting" is shown only if it lasts: a healthy target takes a run in a moment."""
        with self._lock:
            self._stop()
            self._run = run
            if run["state"] != "Starting" or (self._shown and run.get("message")):
                self._show()
            else:
                self._timer = threading.Timer(_SILENCE_SECONDS, self._report_silence, [run])
                self._timer.daemon = True
                self._timer.start()

    def clear(self) -> None:
        """Remove the line, before a part of the log is printed."""
        with self._lock:
            self._stop()
            self._erase()

    def _report_silence(self, run: Run) -> None:
        with self._lock:
            if self._run is run and self._timer is not None:
                self._show()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _show(self) -> None:
        from windlass.core.sanitize import one_line

        run, message = self._run, one_line(self._run.get("message") or "")
        if run["state"] == "Starting" and not message:
            message = f"waiting for {one_line(run['target'])} to take the run"
        if run["state"] not in _STATES_WITHOUT_LOG or not message:
            return self._erase()
        text, before = f"{run['status']}: {message}", self._shown
        has_progress = run["state"] in _STATES_WITH_PROGRESS and message.count(": ")
        self._shown = text.rpartition(": ")[0] if has_progress else text
        if self._shown != before or (not self._is_terminal and time.monotonic() >= self._repeat_at):
            self._erase()
            self._repeat_at = time.monotonic() + LINE_EVERY_SECONDS
            self._context.terminal.note(text)
        elif self._is_terminal and (self._printer is None or self._printer.at_line_start):
            self._draw(text)

    def _draw(self, text: str) -> None:
        self._drawn = text[: (self._context.terminal.width or 80) - 1]
        sys.stderr.write(f"{CLEAR_LINE}{self._drawn}")
        sys.stderr.flush()

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = ""
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()


class LogFollower(StreamListener):
    """Prints a run's log. After a lost connection, a restart of the server or Ctrl-C it goes on where it was."""

    def __init__(
        self,
        context: CommandContext,
        run_id: str,
        printer: LogPrinter,
        status: StatusReporter | None = None,
        is_known: bool = False,
    ) -> None:
        """`is_known`: the run exists, so a connection that cannot be opened is retried; else it is an error."""
        self._context = context
        self._path = f"{context.workspace_path}/runs/{run_id}/stream"
        self._printer = printer
        self._status = status
        self._cursor = LogCursor()
        self._is_known = is_known
        self._is_away = False

    def follow(self, log: str = "auto") -> Run:
        """Print the log until the run has ended; return the final run."""
        return follow_stream(self._context.session, self._path, self, log, self._cursor)

    def on_event(self) -> None:
        self._is_known, self._is_away = True, False

    def on_lost(self, error: Exception) -> None:
        if not self._is_known:
            raise error
        if isinstance(error, ServerUnavailable) and not self._is_away:
            self._is_away = True
            self._context.terminal.note("[the server is away; the run goes on; waiting]")

    def on_state(self, run: Run) -> None:
        if self._status is not None:
            self._status.report(run)

    def on_log(self, path: str, data: bytes) -> None:
        self._clear_status()
        self._printer.write(data)

    def on_gap(self, path: str, length: int) -> None:
        self._context.terminal.note(f"[{length} bytes were not kept: the log reached its cap]")

    def on_attempt(self, attempt: int) -> None:
        self._clear_status()
        self._context.terminal.note(f"[attempt {attempt} begins]")

    def _clear_status(self) -> None:
        if self._status is not None:
            self._status.clear()


def outcome(run: Run, now: datetime) -> str:
    """How a run ended: 'Failed after 2.5s: exit code 7'."""
    from windlass.cli.output import format
    from windlass.core.sanitize import one_line

    why = "" if run["state"] == "Completed" else f": {one_line(format.brief(run.get('message') or ''))}"
    length = format.duration(format.took(run, now))
    return (f"{run['status']} after {length}" if length else str(run["status"])) + why


def exit_code(run: Run) -> int:
    """The script's exit code, 128 + n for a signal, or the code of another end."""
    if run["state"] == "Canceled":
        return INTERRUPTED
    if run.get("reason") == "time_limit":
        return TIME_LIMIT
    if run.get("signal"):
        return 128 + int(run["signal"])
    if run["state"] == "Completed":
        return 0
    return int(run.get("exit_code") or OWN_FAILURE)  # exit code 0 without Completed: the outputs were lost
