"""Wait for a run, and show what it prints as it prints it, from the server's stream of events."""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from windlass.client.http.embedded_server import CannotStart
from windlass.core.errors import ServerUnavailable
from windlass.core.sanitize import PlainText, SafeText, shown

if TYPE_CHECKING:
    from windlass.client.runs.record import RunRecord

# How long a server may be away (a restart, a network) before waiting is given up. The run goes on in any case.
PATIENCE_SECONDS = 600.0
_PAUSE_SECONDS = 0.1


class Printer:
    """Writes a run's logs to stdout: each byte once, in order, with a heading for each log.

    To a terminal goes only what cannot change it, as with `windlass logs`; a file or a notebook gets all of it.
    """

    def __init__(self) -> None:
        self.path = ""
        self.offset = 0
        self.attempt = 0  # of the run, whose log it writes; 0: not known yet
        self._text = SafeText() if is_terminal(sys.stdout) else PlainText()
        self._ends_with_newline = True

    def log(self, event: dict[str, Any]) -> None:
        data = base64.b64decode(event["data"])
        if event["path"] != self.path:
            self._head(event["path"])
        fresh = data[max(0, self.offset - event["offset"]) :]
        self.offset = max(self.offset, event["offset"] + len(data))
        self._write(self._text.feed(fresh))

    def gap(self, event: dict[str, Any]) -> None:
        if event["path"] == self.path:
            self._write(f"\n[... {event['length']} bytes of this log were not kept ...]\n")
            self.offset = event["offset"] + event["length"]

    def begin_attempt(self, attempt: int) -> None:
        """Each attempt of a run has a log of its own."""
        self.end()
        self.path, self.offset, self.attempt = "", 0, attempt
        self._write(f"\nAttempt {attempt} begins\n")

    def end(self) -> None:
        self._write(self._text.close())
        self._write("" if self._ends_with_newline else "\n")

    def _head(self, path: str) -> None:
        self.end()
        self.path, self.offset = path, 0
        self._write(f"\nStreaming {shown(path)}\n{'=' * (len(path) + 10)}\n\n")

    def _write(self, text: str) -> None:
        visible = text.replace("\x1b[0m", "")
        if visible:
            self._ends_with_newline = visible.endswith("\n")
        if text:
            write(text)


def write(text: str) -> None:
    """To stdout, with a sign in place of characters that it cannot show."""
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def say(text: str) -> None:
    """A message that holds texts of a server or a run, on several lines; filtered for a terminal."""
    if is_terminal(sys.stdout):
        safe = SafeText()
        text = safe.feed(text.encode("utf-8", "surrogatepass")) + safe.close()
    write(text)


def is_terminal(stream: Any) -> bool:
    """Streams that take the place of stdout, as in notebooks, need not have all of its methods."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # ValueError: it is closed
        return False


def follow(run: RunRecord, printer: Printer | None = None) -> dict[str, Any]:
    """Wait until the run has ended; returns all about it. Survives lost connections and restarts of the server."""
    heard = time.monotonic()
    final: dict[str, Any] | None = None
    while final is None:
        try:
            for name, data in run._session.events(f"{run._path}/stream", _query(printer)):
                heard = time.monotonic()
                final = _take(run, name, json.loads(data), printer)  # the last one: then the connection is free again
        except CannotStart:
            raise
        except (OSError, ServerUnavailable):
            if time.monotonic() - heard > PATIENCE_SECONDS and final is None:
                raise
        if final is None:
            time.sleep(_PAUSE_SECONDS)
    return final


def _query(printer: Printer | None) -> dict[str, Any] | None:
    if printer is None:
        return None
    offset = f"{printer.path}:{printer.offset}" if printer.path else "0"
    return {"log": "auto", "offset": offset, **({"attempt": printer.attempt} if printer.attempt else {})}


def _take(run: RunRecord, name: str, body: dict[str, Any], printer: Printer | None) -> dict[str, Any] | None:
    if name in ("state", "end"):
        run._seen = body
        if printer is not None and not printer.attempt:
            printer.attempt = body.get("attempt", 0)
        return body if name == "end" else None
    if printer is not None and name == "log":
        printer.log(body)
    elif printer is not None and name == "gap":
        printer.gap(body)
    elif printer is not None and name == "attempt":
        printer.begin_attempt(body["attempt"])
    return None
