"""Relay through run folders, for jobs whose supervisors run on other machines (docs/dev/runner.md, "The relay").

The sockets are on the machines of the supervisors, which exchange frames with the host through files in the run
folders. Streams of all jobs share the connection to the server, so that each gets a number from the host.
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
from .relay import MOST_OF_RUN, MOST_STREAMS, PIECE, WINDOW, write_url

# Seconds between two checks of a job's files: of a job with open streams, and without.
_BUSY_SECONDS = 0.02
_IDLE_SECONDS = 0.25
_MOST_IDLE_CHECKS = 400  # a second, for all jobs together
_SESSION_SECONDS = 5.0


class _Stream:
    def __init__(self, number: int, job: str, theirs: int) -> None:
        self.number = number  # for the server
        self.job = job
        self.theirs = theirs  # for the supervisor
        self.credit = WINDOW  # bytes that the script may still send
        self.moved_at = time.monotonic()


class _Job:
    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.exchange: Optional[Exchange] = None
        self.streams: Dict[int, _Stream] = {}  # by the supervisor's numbers
        self.due_at = 0.0
        self.check_at = 0.0  # when to check whether the session is still ours


class FolderRelay:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._server = ""
        self._jobs: Dict[str, _Job] = {}
        self._streams: Dict[int, _Stream] = {}
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
            self._end_streams(known)

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
                self._end_streams(job)
                job.exchange = None
                idle = 1.0
            job.due_at = now + (_BUSY_SECONDS if job.streams else idle)

    def _step(self, job: _Job, now: float) -> None:
        if job.exchange is None:
            job.exchange = Exchange(job.folder, begin_session(job.folder), sends="down", reads="up")
            job.check_at = now + _SESSION_SECONDS
        if now >= job.check_at:
            job.check_at = now + _SESSION_SECONDS
            if session_of(job.folder) != job.exchange.session:  # another host of this server serves it now
                self.remove(job.folder.job)
                return
        if job.streams:
            job.exchange.refresh(now)
        if self._pipe.is_free:
            for head, body in job.exchange.receive():
                self._send_on(job, head, body)
        job.exchange.flush()

    # ---- from scripts ----

    def _send_on(self, job: _Job, head: Dict[str, Any], body: bytes) -> None:
        theirs, credit = head.get("stream"), head.get("credit", 0)
        if not isinstance(theirs, int) or not isinstance(credit, int) or credit < 0 or len(body) > PIECE:
            raise BrokenFrame(f"not a frame of a relay: {ascii(head)[:120]}")
        stream = job.streams.get(theirs)
        is_new = stream is None and head.get("new") is True
        if stream is None:
            stream = self._open(job, theirs) if is_new else None
        if stream is None:
            return  # the stream has ended already
        stream.moved_at = time.monotonic()
        stream.credit -= len(body)
        if stream.credit < 0:
            raise BrokenFrame("more than the window of a stream")
        is_end = head.get("end") is True
        more = {
            **({"new": True} if is_new else {}),
            **({"credit": credit} if credit else {}),
            **({"end": True} if is_end else {}),
        }
        self._pipe.send({"event": "relay", "stream": stream.number, **more}, body)
        if is_end:
            self._drop(stream)

    def _open(self, job: _Job, theirs: int) -> Optional[_Stream]:
        """Open a stream for a connection of a script; None if there are too many streams: it is ended at once."""
        is_refused = len(job.streams) >= MOST_OF_RUN
        if not is_refused and len(self._streams) >= MOST_STREAMS:
            is_refused = bool(job.streams)
            if not is_refused:  # a run without streams takes one from the run with the most
                crowd = max(self._jobs.values(), key=lambda each: len(each.streams))
                self._end(min(crowd.streams.values(), key=lambda each: each.moved_at))
        if is_refused:
            self._send_frame(job, theirs, end=True)
            return None
        self._last += 1
        stream = _Stream(self._last, job.folder.job, theirs)
        self._streams[stream.number] = job.streams[theirs] = stream
        return stream

    # ---- from the server ----

    def receive(self, number: int, data: bytes, credit: int, is_end: bool) -> None:
        """Handle a frame of the server for a stream. An unknown stream has ended."""
        stream = self._streams.get(number)
        if stream is None:
            return
        job = self._jobs[stream.job]
        stream.moved_at = time.monotonic()
        stream.credit += credit
        self._send_frame(job, stream.theirs, data, **_without_false({"credit": credit, "end": is_end}))
        if is_end:
            self._drop(stream)

    # ---- streams ----

    def _send_frame(self, job: _Job, theirs: int, data: bytes = b"", **more: Any) -> None:
        if job.exchange is not None:
            job.exchange.send({"stream": theirs, **more}, data)
            with contextlib.suppress(OSError):  # retried at the next step
                job.exchange.flush()

    def _end(self, stream: _Stream) -> None:
        """End a stream on both sides."""
        self._pipe.send({"event": "relay", "stream": stream.number, "end": True})
        self._send_frame(self._jobs[stream.job], stream.theirs, end=True)
        self._drop(stream)

    def _end_streams(self, job: _Job) -> None:
        for stream in list(job.streams.values()):
            self._pipe.send({"event": "relay", "stream": stream.number, "end": True})
            del self._streams[stream.number]
        job.streams.clear()

    def _drop(self, stream: _Stream) -> None:
        del self._streams[stream.number]
        self._jobs[stream.job].streams.pop(stream.theirs, None)


def _without_false(fields: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
