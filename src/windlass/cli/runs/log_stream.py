"""Following a run: its log as it grows, its state as it changes, and the exit code that stands for its end."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from windlass.cli.errors import INTERRUPTED, OWN_FAILURE, TIME_LIMIT
from windlass.client.http.progress import CLEAR_LINE, LINE_EVERY_SECONDS
from windlass.core.errors import ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from windlass.cli.context import Call
    from windlass.core.sanitize import SafeText

Run = dict[str, Any]
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_PATIENCE_SECONDS = 600.0
_SILENCE_SECONDS = 3.0
_PROGRESSING = ("Starting", "Preparing")  # what follows the last colon of their message is how far it is
_SILENT = ("Queued", "Starting", "Provisioning", "Preparing", "NotResponding")


class LogPrinter:
    """Bytes as they are; to a terminal only what cannot harm it, unless the user wants it raw."""

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
        """End colours, and the last line, so that the next word stands on its own."""
        if self._safe is not None:
            self._stream.write(self._safe.close())
        if self.is_terminal and not self.at_line_start:
            self._stream.write("\n")
            self.at_line_start = True
        self._stream.flush()


class Waiting:
    """Tells why nothing is printed yet, and how far that is: at a terminal in a line that is drawn again and again,
    elsewhere at most every ten seconds.
    """

    def __init__(self, call: Call, printer: LogPrinter | None = None) -> None:
        self._call = call
        self._printer = printer
        self._is_terminal = sys.stderr.isatty()
        self._lock = threading.Lock()  # of all that follows: a timer speaks, too
        self._timer: threading.Timer | None = None
        self._run: Run = {}
        self._told = ""  # what is done, without how far it is
        self._drawn = ""
        self._again_at = 0.0

    def tell(self, run: Run) -> None:
        with self._lock:
            self._stop()
            self._run = run
            # A machine that is there takes a run in a moment; only what lasts longer is worth a word.
            if run["state"] != "Starting" or (self._told and run.get("message")):
                self._show()
            else:
                self._timer = threading.Timer(_SILENCE_SECONDS, self._tell_silence, [run])
                self._timer.daemon = True
                self._timer.start()

    def clear(self) -> None:
        """Make room for the log, which says itself what happens."""
        with self._lock:
            self._stop()
            self._erase()

    def _tell_silence(self, run: Run) -> None:
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
        if run["state"] not in _SILENT or not message:
            return self._erase()
        text, before = f"{run['status']}: {message}", self._told
        self._told = text.rpartition(": ")[0] if run["state"] in _PROGRESSING and message.count(": ") else text
        if self._told != before or (not self._is_terminal and time.monotonic() >= self._again_at):
            self._erase()
            self._again_at = time.monotonic() + LINE_EVERY_SECONDS
            self._call.terminal.note(text)
        elif self._is_terminal and (self._printer is None or self._printer.at_line_start):
            self._draw(text)

    def _draw(self, text: str) -> None:
        self._drawn = text[: (self._call.terminal.width or 80) - 1]
        sys.stderr.write(f"{CLEAR_LINE}{self._drawn}")
        sys.stderr.flush()

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = ""
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()


class Following:
    """One run's stream. A broken connection, a restarted server or Ctrl-C lose nothing: it goes on where it was."""

    def __init__(
        self,
        call: Call,
        run_id: str,
        printer: LogPrinter,
        on_state: Callable[[Run], None] | None = None,
        is_known: bool = False,
        before_log: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_known`: the server has told of this run, so it is worth waiting for the server. `before_log` is called
        each time before a piece of the log is printed.
        """
        self._call = call
        self._where = f"{call.root}/runs/{run_id}/stream"
        self._printer = printer
        self._on_state = on_state
        self._before_log = before_log
        self._read: dict[str, int] = {}
        self._path = ""
        self._attempt = 0
        self._heard = time.monotonic()
        self._is_known = is_known
        self._is_away = False

    def to_end(self, log: str = "auto") -> Run:
        """Print the log until the run has ended; return the final run."""
        pause = _FIRST_PAUSE
        while True:
            before = self._heard
            for name, body in self._connection(log):
                if name == "end":
                    return body
                self._take(name, body)
            pause = _FIRST_PAUSE if self._heard != before else min(pause * 2, _LONGEST_PAUSE)
            time.sleep(pause)

    def _connection(self, log: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """One connection's worth of the stream. What breaks here is the connection, never the output."""
        query = {"log": log, "offset": f"{self._path}:{self._read[self._path]}" if self._path else "0"}
        if self._attempt:
            query["attempt"] = str(self._attempt)
        try:
            for name, text in self._call.session.events(self._where, query):
                self._heard, self._is_known, self._is_away = time.monotonic(), True, False
                yield name, json.loads(text)
        except (OSError, ServerUnavailable) as e:
            self._bear(e)

    def _bear(self, error: Exception) -> None:
        """A server that is away is waited for; the run goes on meanwhile."""
        if not self._is_known or time.monotonic() - self._heard > _PATIENCE_SECONDS:
            raise error
        if isinstance(error, ServerUnavailable) and not self._is_away:
            self._is_away = True
            self._call.terminal.note("[the server is away; the run goes on; waiting]")

    def _take(self, name: str, body: dict[str, Any]) -> None:
        if name == "log":
            self._take_log(body)
        elif name == "gap":
            self._take_gap(body)
        elif name == "attempt":
            self._take_attempt(body)
        elif name == "state":
            self._take_state(body)

    def _take_log(self, body: dict[str, Any]) -> None:
        path, offset, data = body["path"], body["offset"], base64.b64decode(body["data"])
        known = self._read.get(path, 0)
        self._before_log()
        self._printer.write(data[max(0, known - offset) :])
        self._read[path] = max(known, offset + len(data))
        self._path = path

    def _take_attempt(self, body: dict[str, Any]) -> None:
        """Each attempt has a log of its own."""
        self._attempt = body["attempt"]
        self._read, self._path = {}, ""
        self._before_log()
        self._call.terminal.note(f"[attempt {self._attempt} begins]")

    def _take_state(self, run: Run) -> None:
        self._attempt = self._attempt or run.get("attempt", 0)
        if self._on_state is not None:
            self._on_state(run)

    def _take_gap(self, body: dict[str, Any]) -> None:
        path, end = body["path"], body["offset"] + body["length"]
        if self._read.get(path, 0) < end:
            self._read[path] = end
            self._call.terminal.note(f"[{body['length']} bytes were not kept: the log reached its cap]")


def exit_code(run: Run) -> int:
    """The script's own exit code; 128 + n for a signal; and what stands for other ends."""
    if run["state"] == "Canceled":
        return INTERRUPTED
    if run.get("reason") == "time_limit":
        return TIME_LIMIT
    if run.get("signal"):
        return 128 + int(run["signal"])
    if run["state"] == "Completed":
        return 0
    return int(run.get("exit_code") or OWN_FAILURE)  # a script may end well, and its outputs be lost
