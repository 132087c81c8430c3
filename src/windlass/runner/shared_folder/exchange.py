"""Frame transport between two processes that share only a folder: a byte stream each way, cut into numbered files.

A file appears complete (written aside, then renamed) and is removed by its reader, so that the existing files are what
was sent and not yet read. The sender stops at a maximum number of files: nothing piles up on the disk.

The host starts a session and writes its id into `session`. Both ends use only files of that session, so that a
restarted host, or another one, does not read files meant for its predecessor.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Iterator, Optional

from ..host.framing import Decoder, Frame, encode
from ..workdir.run_folder import RunFolder, open_below, read_json, write_all, write_json

FOLDER = "relay"
MOST_FILES = 16  # unread, in one direction
FILE_BYTES = 1 << 18
_FREE_BELOW = 1 << 18
_LARGEST_HEAD = 1 << 12
_LARGEST_BODY = 1 << 16
_TOUCH_SECONDS = 1.0


class Exchange:
    """One end of a session. `sends` and `reads` name the directions: "up" to the server, "down" to the script."""

    def __init__(self, folder: RunFolder, session: str, sends: str, reads: str) -> None:
        self._run_folder = folder.path
        self._path = folder.at(FOLDER)
        self.session = session
        self._sends = f"{sends}.{session}."
        self._reads = f"{reads}.{session}."
        self._sent = 0
        self._read = 0
        self._unsent = bytearray()
        self._decoder = Decoder(_LARGEST_HEAD, _LARGEST_BODY)
        self._touch_at = 0.0

    @property
    def is_free(self) -> bool:
        """Whether there is little unsent data, so that more may be queued."""
        return len(self._unsent) < _FREE_BELOW

    @property
    def has_waiting(self) -> bool:
        return bool(self._unsent)

    def send(self, head: Dict[str, Any], body: bytes = b"") -> None:
        """Queue a frame in memory; the relay's flow-control windows bound the queue."""
        self._unsent += encode(head, body)

    def flush(self) -> None:
        """Write queued data to files, as far as the reader has kept up."""
        if not self._unsent:
            return
        unread = sum(name.startswith(self._sends) and not name.endswith(".tmp") for name in self._names())
        while self._unsent and unread < MOST_FILES:
            self._write(bytes(self._unsent[:FILE_BYTES]))
            del self._unsent[:FILE_BYTES]
            unread += 1

    def receive(self) -> Iterator[Frame]:
        """The frames that have arrived. BrokenFrame if they are not what the other end writes."""
        for _ in range(MOST_FILES):
            data = self._next()
            if data is None:
                return
            yield from self._decoder.feed(data)

    def refresh(self, now: float) -> None:
        """Touch the folder about once a second while waiting for an answer: it makes the client of a network disk
        notice sooner what another machine has changed in it."""
        if now >= self._touch_at:
            self._touch_at = now + _TOUCH_SECONDS
            with contextlib.suppress(OSError):
                os.utime(self._path)

    def _names(self) -> "list[str]":
        try:
            return os.listdir(self._path)
        except OSError:
            return []

    def _write(self, data: bytes) -> None:
        path = f"{self._path}/{self._sends}{self._sent}"
        fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        os.rename(f"{path}.tmp", path)
        self._sent += 1

    def _next(self) -> Optional[bytes]:
        """The content of the next file, which is removed; None if there is none yet."""
        name = f"{self._reads}{self._read}"
        try:
            fd = open_below(self._run_folder, f"{FOLDER}/{name}")
        except FileNotFoundError:
            return None
        try:
            data = os.pread(fd, FILE_BYTES, 0)
        finally:
            os.close(fd)
        os.unlink(f"{self._path}/{name}")
        self._read += 1
        return data


def begin_session(folder: RunFolder) -> str:
    """Start a session as the host that serves a job's relay from now on, instead of any earlier host."""
    path = folder.at(FOLDER)
    os.makedirs(path, 0o700, exist_ok=True)
    for name in os.listdir(path):
        if name.startswith(("up.", "down.")):
            with contextlib.suppress(OSError):
                os.unlink(f"{path}/{name}")
    session = os.urandom(8).hex()
    write_json(f"{path}/session", {"id": session, "at": time.time()})
    return session


def session_of(folder: RunFolder) -> Optional[str]:
    """The latest session; None as long as no host serves the job's relay."""
    found = (read_json(folder.at(f"{FOLDER}/session")) or {}).get("id")
    return found if isinstance(found, str) and found.isalnum() else None
