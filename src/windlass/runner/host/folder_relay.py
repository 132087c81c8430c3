"""Relay through run folders, for jobs whose supervisors run on other machines (docs/dev/runner.md, "The relay").

The sockets are on the machines of the supervisors, which exchange frames with the host through files in the run
folders. Lines of all jobs share the connection to the server, so that each gets a number from the host.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
import traceback
from typing import Any, Dict, List, Optional

from ..shared_folder.exchange import Exchange, begin_session, session_of
from ..workdir.run_folder import Refused, RunFolder
from .framing import BrokenFrame, Pipe
from .relay import MOST_LINES, MOST_OF_RUN, PIECE, WINDOW, write_url

# Seconds between two checks of a job's files: of a job with open lines, and without.
_BUSY_SECONDS = 0.02
_IDLE_SECONDS = 0.25
_MOST_IDLE_CHECKS = 400  # a second, for all jobs together
_SESSION_SECONDS = 5.0


class _Line:
    def __init__(self, number: int, job: str, theirs: int) -> None:
        self.number = number  # for the server
        self.job = job
        self.theirs = theirs  # for the supervisor
        self.room = WINDOW  # bytes that the script may still send
        self.moved_at = time.monotonic()


class _Job:
    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.exchange: Optional[Exchange] = None
        self.lines: Dict[int, _Line] = {}  # by the supervisor's numbers
        self.due_at = 0.0
        self.check_at = 0.0  # when to check whether the session is still ours


class FolderRelay:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._server = ""
        self._jobs: Dict[str, _Job] = {}
        self._lines: Dict[int, _Line] = {}
        self._last = 0

    def listen(self, folder: str, url: str) -> None:
        """Serve the scripts of this server; supervisors read its URL from the folder."""
        write_url(folder, url)
        self._server = os.path.basename(folder)

    def add(self, folder: RunFolder, run: Dict[str, Any]) -> None:
        """Serve the relay of a job, if it is one of our server's that needs it."""
        if run.get("relay") and run["relay"] == self._server and folder.job not in self._jobs:
            self._jobs[folder.job] = _Job(folder)

    def remove(self, job: str) -> None:
        known = self._jobs.pop(job, None)
        if known is not None:
            self._end_lines(known)

    def close(self) -> None:
        """Does nothing: no file stays open."""

    # ---- called by the loop ----

    def register(self, poll: "select.poll") -> None:
        """Does nothing: files of other machines are polled."""

    def serve(self, ready: List[int]) -> None:
        """Does nothing, as `register`."""

    def next_moment(self) -> float:
        return min((job.due_at for job in self._jobs.values()), default=float("inf"))

    def step(self, now: float) -> None:
        idle = max(_IDLE_SECONDS, len(self._jobs) / _MOST_IDLE_CHECKS)
        for job in [job for job in self._jobs.values() if job.due_at <= now]:
            try:
                self._step(job, now)
            except (OSError, Refused, BrokenFrame):  # a full disk, or its script writes there
                traceback.print_exc()
                self._end_lines(job)
                job.exchange = None
                idle = 1.0
            job.due_at = now + (_BUSY_SECONDS if job.lines else idle)

    def _step(self, job: _Job, now: float) -> None:
        if job.exchange is None:
            job.exchange = Exchange(job.folder, begin_session(job.folder), sends="down", reads="up")
            job.check_at = now + _SESSION_SECONDS
        if now >= job.check_at:
            job.check_at = now + _SESSION_SECONDS
            if session_of(job.folder) != job.exchange.session:  # another host of this server serves it now
                self.remove(job.folder.job)
                return
        if job.lines:
            job.exchange.refresh(now)
        if self._pipe.is_free:
            for head, body in job.exchange.receive():
                self._send_on(job, head, body)
        job.exchange.flush()

    # ---- from scripts ----

    def _send_on(self, job: _Job, head: Dict[str, Any], body: bytes) -> None:
        theirs, room = head.get("line"), head.get("room", 0)
        if not isinstance(theirs, int) or not isinstance(room, int) or room < 0 or len(body) > PIECE:
            raise BrokenFrame(f"not a frame of a relay: {ascii(head)[:120]}")
        line = job.lines.get(theirs)
        is_new = line is None and head.get("new") is True
        if line is None:
            line = self._open(job, theirs) if is_new else None
        if line is None:
            return  # the line has ended already
        line.moved_at = time.monotonic()
        line.room -= len(body)
        if line.room < 0:
            raise BrokenFrame("more than the window of a line")
        is_end = head.get("end") is True
        more = {
            **({"new": True} if is_new else {}),
            **({"room": room} if room else {}),
            **({"end": True} if is_end else {}),
        }
        self._pipe.send({"event": "relay", "line": line.number, **more}, body)
        if is_end:
            self._drop(line)

    def _open(self, job: _Job, theirs: int) -> Optional[_Line]:
        """Open a line for a connection of a script; None if there are too many lines: it is ended at once."""
        is_refused = len(job.lines) >= MOST_OF_RUN
        if not is_refused and len(self._lines) >= MOST_LINES:
            is_refused = bool(job.lines)
            if not is_refused:  # a run without lines takes one from the run with the most
                crowd = max(self._jobs.values(), key=lambda each: len(each.lines))
                self._end(min(crowd.lines.values(), key=lambda each: each.moved_at))
        if is_refused:
            self._send_frame(job, theirs, end=True)
            return None
        self._last += 1
        line = _Line(self._last, job.folder.job, theirs)
        self._lines[line.number] = job.lines[theirs] = line
        return line

    # ---- from the server ----

    def receive(self, number: int, data: bytes, room: int, is_end: bool) -> None:
        """Handle a frame of the server for a line. An unknown line has ended."""
        line = self._lines.get(number)
        if line is None:
            return
        job = self._jobs[line.job]
        line.moved_at = time.monotonic()
        line.room += room
        self._send_frame(job, line.theirs, data, **_without_false({"room": room, "end": is_end}))
        if is_end:
            self._drop(line)

    # ---- lines ----

    def _send_frame(self, job: _Job, theirs: int, data: bytes = b"", **more: Any) -> None:
        if job.exchange is not None:
            job.exchange.send({"line": theirs, **more}, data)
            with contextlib.suppress(OSError):  # retried at the next step
                job.exchange.flush()

    def _end(self, line: _Line) -> None:
        """End a line on both sides."""
        self._pipe.send({"event": "relay", "line": line.number, "end": True})
        self._send_frame(self._jobs[line.job], line.theirs, end=True)
        self._drop(line)

    def _end_lines(self, job: _Job) -> None:
        for line in list(job.lines.values()):
            self._pipe.send({"event": "relay", "line": line.number, "end": True})
            del self._lines[line.number]
        job.lines.clear()

    def _drop(self, line: _Line) -> None:
        del self._lines[line.number]
        self._jobs[line.job].lines.pop(line.theirs, None)


def _without_false(fields: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
