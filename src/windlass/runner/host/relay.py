"""Relay: forwards connections from scripts to the server, through a Unix socket, where they cannot reach it directly.

Each connection is a stream. Its bytes go through the pipe in small pieces, and the server's end of the pipe connects
them to the server. A stream has a window in each direction (flow control): the receiving side confirms bytes that it
passed on. The relay does not parse the bytes, and adds no right to the token in them.

Streams are shared fairly between runs. A connection becomes a stream with its first byte, and a run has a limited
number of streams. Idle streams end after a while; the idlest ends at once if all streams are taken and another run has
none.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import stat
import struct
import time
import traceback
from typing import Any, Dict, List, Optional, Protocol, Tuple

from ..system import process_tree
from ..workdir.machine_folder import RELAY_SOCKET as SOCKET
from ..workdir.run_folder import read_whole

WINDOW = 1 << 18  # unconfirmed bytes in one direction of a stream
PIECE = 1 << 16
MOST_STREAMS = 128
MOST_OF_RUN = 32  # streams
MOST_CONNECTIONS = 512  # streams, and connections without a byte yet
SILENT_SECONDS = 20.0  # from connecting to the first byte
IDLE_SECONDS = 300.0  # longer than the SDK's timeout (60 s) and the keep-alive of streams (15 s)
YIELD_SECONDS = 5.0  # a stream that was idle for so long ends if another connection of its run waits
_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_BACKLOG = 4096  # of the listening socket; the kernel may allow fewer
_CREDIT_STEP = WINDOW // 4
_CHECK_SECONDS = 5.0


class Channel(Protocol):
    """Carries frames to the server's end."""

    @property
    def is_free(self) -> bool:
        """Whether to send data that can wait."""

    def send(self, head: Dict[str, Any], body: bytes = b"") -> None: ...


class Stream:
    def __init__(self, number: int, connection: socket.socket, run: bytes) -> None:
        self.number = number
        self.run = run
        self.moved_at = time.monotonic()
        self.connection = connection
        self.fd = connection.fileno()
        self.credit = WINDOW  # bytes that the server's end still accepts
        self.waiting = bytearray()  # for the script
        self.passed = 0  # bytes that the script took, not confirmed yet
        self.is_new = True  # not announced to the server's end yet
        self.is_ended = False  # by the server; `waiting` is still sent to the script

    @property
    def has_more(self) -> bool:
        """Whether the script has sent bytes that were not read yet: it is not idle, but waits for us."""
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False


class Relay:
    def __init__(self, pipe: Channel) -> None:
        self._pipe = pipe
        self._folder = ""
        self._listening: Optional[socket.socket] = None
        self._socket_id: Optional[Tuple[int, int]] = None  # device and inode
        self._check_at = 0.0
        self._retry_at = float("inf")
        # At most half of the descriptors that the process may have.
        self._most = min(MOST_CONNECTIONS, max(MOST_STREAMS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
        self._streams: Dict[int, Stream] = {}  # by number, in the order of their turns
        self._known: Dict[bytes, Dict[int, Stream]] = {}  # announced streams, by run
        self._last = 0

    def listen(self, folder: str, url: str) -> None:
        """Listen for scripts of this server. The socket replaces that of another host of this machine."""
        write_url(folder, url)
        self._folder = folder
        self._take_over()

    def end_streams(self) -> None:
        """End all streams, after the server's end has lost them. Scripts may connect again."""
        for stream in list(self._streams.values()):
            self._drop(stream)

    @property
    def has_streams(self) -> bool:
        return bool(self._streams)

    def close(self) -> None:
        """Close all descriptors. The socket then refuses connections, until the next host replaces it."""
        for stream in self._streams.values():
            stream.connection.close()
        self._streams.clear()
        self._known.clear()
        self._stop_listening()

    # ---- called by the loop ----

    def next_moment(self) -> float:
        return min(self._check_at, self._retry_at) if self._folder else float("inf")

    def register(self, poll: "select.poll") -> None:
        """Register descriptors. While the pipe is busy nothing is read from scripts: logs and answers come first."""
        if self._listening is not None:
            poll.register(self._listening, select.POLLIN)
        is_free, now = self._pipe.is_free, time.monotonic()
        self._retry_at = float("inf")
        for stream in self._streams.values():
            reads = stream.credit and is_free and not stream.is_ended
            if reads and stream.is_new and not self._slot_for(stream, now)[0]:
                reads, self._retry_at = False, now + _RETRY_SECONDS
            events = (select.POLLIN if reads else 0) | (select.POLLOUT if stream.waiting else 0)
            if events:
                poll.register(stream.fd, events)

    def serve(self, ready: List[int]) -> None:
        if self._listening is not None and self._listening.fileno() in ready:
            self._accept()
        fds = set(ready)
        for stream in [stream for stream in self._streams.values() if stream.fd in fds]:
            if stream.number in self._streams:  # else it was ended in favour of another
                self._flush(stream)
            if stream.number in self._streams and stream.credit and self._pipe.is_free and not stream.is_ended:
                self._send_on(stream)

    def step(self, now: float) -> None:
        """Periodically check the socket, and end idle streams."""
        if now < self._check_at or not self._folder:
            return
        self._check_at = now + _CHECK_SECONDS
        for stream in list(self._streams.values()):
            if now - stream.moved_at >= (SILENT_SECONDS if stream.is_new else IDLE_SECONDS) and not stream.has_more:
                self._end(stream)
        try:
            self._check_socket()
        except OSError:  # a full disk, say: retried at the next step
            traceback.print_exc()

    # ---- from the server ----

    def receive(self, stream: int, data: bytes, credit: int, is_end: bool) -> None:
        """Handle a frame of the server for a stream. An unknown stream has ended, and its end was sent."""
        known = self._streams.get(stream)
        if known is None:
            return
        known.moved_at = time.monotonic()
        known.credit += credit
        known.waiting += data
        known.is_ended = is_end
        self._flush(known)

    # ---- streams ----

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection = self._listening.accept()[0]  # type: ignore[union-attr]
            except OSError:  # no more connections, the peer is gone, or no descriptors are left
                return
            connection.setblocking(False)
            self._last += 1
            self._streams[self._last] = Stream(self._last, connection, _run_of(connection))
            if len(self._streams) > self._most:
                self._end(self._excess_connection())

    def _excess_connection(self) -> Stream:
        """The last connection without a byte, of the run that has the most of these."""
        new: Dict[bytes, List[Stream]] = {}
        for stream in self._streams.values():
            if stream.is_new:
                new.setdefault(stream.run, []).append(stream)
        return max(new.values(), key=len)[-1]

    def _slot_for(self, stream: Stream, now: float) -> Tuple[bool, Optional[Stream]]:
        """Whether a connection may become a stream now, and the stream that must end for it, if any."""
        own = self._known.get(stream.run, {})
        if len(own) >= MOST_OF_RUN:
            crowd = own
        elif sum(map(len, self._known.values())) >= MOST_STREAMS:
            crowd = max(self._known.values(), key=len)
        else:
            return True, None
        idlest = min(crowd.values(), key=lambda each: each.moved_at)
        is_due = not own or now - idlest.moved_at >= YIELD_SECONDS
        return is_due, idlest if is_due else None

    def _send_on(self, stream: Stream) -> None:
        """Send one piece of a stream; then it is the turn of the others."""
        now = time.monotonic()
        may_begin, ended = self._slot_for(stream, now) if stream.is_new else (True, None)
        if not may_begin:
            return
        try:
            data = stream.connection.recv(min(PIECE, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(stream)
            return
        if ended is not None:
            self._end(ended)
        self._send_frame(stream, data, **({"new": True} if stream.is_new else {}))
        stream.is_new = False
        stream.moved_at = now
        self._known.setdefault(stream.run, {})[stream.number] = stream
        stream.credit -= len(data)
        self._streams[stream.number] = self._streams.pop(stream.number)

    def _flush(self, stream: Stream) -> None:
        try:
            while stream.waiting:
                sent = stream.connection.send(stream.waiting)
                del stream.waiting[:sent]
                stream.passed += sent
                stream.moved_at = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:  # the script has hung up
            self._end(stream)
            return
        if stream.is_ended:
            if not stream.waiting:
                self._drop(stream)
        elif stream.passed >= _CREDIT_STEP:
            self._send_frame(stream, credit=stream.passed)
            stream.passed = 0

    def _end(self, stream: Stream) -> None:
        if not stream.is_new and not stream.is_ended:
            self._send_frame(stream, end=True)
        self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        del self._streams[stream.number]
        known = self._known.get(stream.run, {})
        known.pop(stream.number, None)
        if not known:
            self._known.pop(stream.run, None)
        stream.connection.close()

    def _send_frame(self, stream: Stream, data: bytes = b"", **more: Any) -> None:
        self._pipe.send({"event": "relay", "stream": stream.number, **more}, data)

    # ---- the socket ----

    def _take_over(self) -> None:
        """Make a socket and rename it into place, so that scripts find a listening socket at any moment."""
        self._stop_listening()
        aside = f"{os.getpid()}.sock"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(self._folder)  # the address of a socket has credit for about a hundred bytes
        try:
            if os.path.lexists(aside):  # left by a host that died, and had our pid
                os.unlink(aside)
            listening.bind(aside)
            os.chmod(aside, 0o600)
            listening.listen(_BACKLOG)
            listening.setblocking(False)
            made = os.stat(aside)
            os.rename(aside, SOCKET)
        except BaseException:
            listening.close()
            raise
        finally:
            os.chdir("/")
        self._listening, self._socket_id = listening, (made.st_dev, made.st_ino)
        self._check_at = time.monotonic() + _CHECK_SECONDS

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self._listening = self._socket_id = None

    def _check_socket(self) -> None:
        os.makedirs(self._folder, 0o700, exist_ok=True)  # scripts may remove what they like
        try:
            found = os.lstat(f"{self._folder}/{SOCKET}")
            is_ours = (found.st_dev, found.st_ino) == self._socket_id
            is_socket = stat.S_ISSOCK(found.st_mode)
        except FileNotFoundError:
            is_ours = is_socket = False
        if is_ours:
            return
        if is_socket and self._is_served():
            # Our pipe may be dead without an error: scripts would wait here in vain.
            for stream in list(self._streams.values()):
                self._end(stream)
            self._stop_listening()
        else:
            self._take_over()

    def _is_served(self) -> bool:
        """Whether another host listens there."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            os.chdir(self._folder)
            try:
                probe.connect(SOCKET)
            except BlockingIOError:
                return True  # its backlog is full
            except OSError:
                return False
            finally:
                os.chdir("/")
        return True


def write_url(folder: str, url: str) -> None:
    """Write the server's URL for scripts, beside the socket."""
    os.makedirs(folder, 0o700, exist_ok=True)
    aside = f"{folder}/url.{os.getpid()}"
    with open(aside, "w", encoding="ascii") as file:
        file.write(url)
    os.rename(aside, f"{folder}/url")


def _run_of(connection: socket.socket) -> bytes:
    """A key of the run that made a connection: the cookie in the environment of the connecting process. Where that
    cannot be read, as in a container with its own users, the control group of the process.
    """
    try:
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, _, _ = struct.unpack("3i", peer)
        return process_tree.variable_of(pid, b"WINDLASS_COOKIE") or read_whole(f"/proc/{pid}/cgroup")
    except (OSError, AttributeError):  # the process is gone, or the system does not support it
        return b""
