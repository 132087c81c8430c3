"""Follow a run's event stream until the run has ended, and print its logs.

`follow_stream` is shared by the SDK and the command line. It reconnects after a lost connection, from the offset where
the last one broke. `LogPrinter` is the output of `wait_for_completion(show_output=True)`.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from windlass.client.http.embedded_server import CannotStart
from windlass.client.http.progress import is_terminal
from windlass.core import backoff
from windlass.core.errors import ServerUnavailable
from windlass.core.sanitize import PlainText, SafeText, escape

if TYPE_CHECKING:
    from windlass.client.http.session import Session
    from windlass.client.runs.record import RunRecord

# How long the server may be unreachable (a restart, a network) before following is given up. The run goes on anyway.
RETRY_SECONDS = 600.0
_FIRST_DELAY = 0.05
_LONGEST_DELAY = 2.0


class StreamListener:
    """Callbacks for the events of a run's stream. All do nothing here."""

    def on_event(self) -> None:
        """An event was received, of any kind; called before the callback of its kind."""

    def on_state(self, run: dict[str, Any]) -> None:
        """The run's view has changed; not called for its end."""

    def on_log(self, path: str, data: bytes) -> None:
        """The next bytes of a log; none if all of them were received before."""

    def on_gap(self, path: str, length: int) -> None:
        """So many bytes of a log were not kept."""

    def on_attempt(self, attempt: int) -> None:
        """A later attempt has begun. Its logs begin at offset 0."""

    def on_lost(self, error: Exception) -> None:
        """The connection was lost, and is retried unless this raises."""


class LogCursor:
    """What was received of a run's logs: the attempt, the log that is followed, and the offset in each log."""

    def __init__(self) -> None:
        self._attempt = 0  # 0: not known yet
        self._path = ""
        self._offsets: dict[str, int] = {}

    def query(self, log: str) -> dict[str, str]:
        """The query of a connection that resumes here. `log` is the path of a log, or "auto"."""
        query = {"log": log, "offset": f"{self._path}:{self._offsets[self._path]}" if self._path else "0"}
        return {**query, "attempt": str(self._attempt)} if self._attempt else query

    def deliver(self, name: str, body: dict[str, Any], listener: StreamListener) -> None:
        """Pass one event on, without the bytes that were received before."""
        if name == "state":
            self._attempt = self._attempt or body.get("attempt", 0)
            listener.on_state(body)
        elif name == "log":
            path, data = body["path"], base64.b64decode(body["data"])
            known = self._offsets.get(path, 0)
            listener.on_log(path, data[max(0, known - body["offset"]) :])
            self._path, self._offsets[path] = path, max(known, body["offset"] + len(data))
        elif name == "gap":
            end = body["offset"] + body["length"]
            if self._offsets.get(body["path"], 0) < end:
                self._offsets[body["path"]] = end
                listener.on_gap(body["path"], body["length"])
        elif name == "attempt":
            self._attempt, self._path, self._offsets = body["attempt"], "", {}
            listener.on_attempt(self._attempt)


def follow_stream(
    session: Session, path: str, listener: StreamListener, log: str | None = "auto", cursor: LogCursor | None = None
) -> dict[str, Any]:
    """Follow the run whose stream is at `path` until it has ended; return its final view. Without `log`, no log is
    requested. A `cursor` that is passed again resumes where an interrupted call stopped.
    """
    cursor = cursor or LogCursor()
    final: dict[str, Any] | None = None
    last_event, failures = time.monotonic(), 1
    while True:
        before = last_event
        events = session.events(path, cursor.query(log) if log is not None else None)
        while True:
            try:
                name, text = next(events)
            except StopIteration:
                break
            except (OSError, ServerUnavailable) as e:
                if final is None:
                    if time.monotonic() - last_event > RETRY_SECONDS:
                        raise
                    listener.on_lost(e)
                break
            last_event, body = time.monotonic(), json.loads(text)
            listener.on_event()
            if name == "end":
                final = body  # the last event; the rest of the response is read, so that its connection can be reused
            else:
                cursor.deliver(name, body, listener)
        if final is not None:
            return final
        failures = 1 if last_event != before else failures + 1
        time.sleep(backoff.delay(failures, _FIRST_DELAY, _LONGEST_DELAY))


class RunUpdater(StreamListener):
    """Keeps the view of a run of the SDK up to date."""

    log: str | None = None

    def __init__(self, run: RunRecord) -> None:
        self._run = run

    def on_state(self, run: dict[str, Any]) -> None:
        self._run._seen = run

    def on_lost(self, error: Exception) -> None:
        if isinstance(error, CannotStart):  # a retry does not help
            raise error


class LogPrinter(RunUpdater):
    """Writes a run's logs to stdout, with a heading for each log.

    A terminal gets text and colours only, as with `windlass logs`; a file or a notebook gets all of it.
    """

    log = "auto"

    def __init__(self, run: RunRecord) -> None:
        super().__init__(run)
        self._path = ""
        self._text = SafeText() if is_terminal(sys.stdout) else PlainText()
        self._ends_with_newline = True

    def on_log(self, path: str, data: bytes) -> None:
        if path != self._path:
            self.end()
            self._path = path
            self._write(f"\nStreaming {escape(path)}\n{'=' * (len(path) + 10)}\n\n")
        self._write(self._text.feed(data))

    def on_gap(self, path: str, length: int) -> None:
        if path == self._path:
            self._write(f"\n[... {length} bytes of this log were not kept ...]\n")

    def on_attempt(self, attempt: int) -> None:
        self.end()
        self._path = ""
        self._write(f"\nAttempt {attempt} begins\n")

    def end(self) -> None:
        """End the text and its last line."""
        self._write(self._text.close())
        self._write("" if self._ends_with_newline else "\n")

    def _write(self, text: str) -> None:
        visible = text.replace("\x1b[0m", "")
        if visible:
            self._ends_with_newline = visible.endswith("\n")
        if text:
            write(text)


def write(text: str) -> None:
    """Write to stdout, with a placeholder for characters that its encoding lacks."""
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a message of several lines that holds texts of a server or a run; sanitized for a terminal."""
    if is_terminal(sys.stdout):
        safe = SafeText()
        text = safe.feed(text.encode("utf-8", "surrogatepass")) + safe.close()
    write(text)


def follow(run: RunRecord, printer: LogPrinter | None = None) -> dict[str, Any]:
    """Wait until the run has ended; return its final view. Survives lost connections and restarts of the server."""
    listener = printer or RunUpdater(run)
    run._seen = final = follow_stream(run._session, f"{run._path}/stream", listener, listener.log)
    return final
