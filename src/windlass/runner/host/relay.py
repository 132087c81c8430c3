"""The relay: scripts on a machine that cannot reach the server call it through a socket here.

Each connection is a line. Its bytes go through the pipe in small pieces, and the far end of the pipe connects them to
the server. Nothing piles up: a line has a window in each direction, and who passed bytes on says so. The relay
understands nothing of what it carries, and lets nobody do more than the token that travels in it.

No run keeps others from the server. From its first byte on a connection is a line that the server's end knows of, and a
run has a limited number of these. What is idle ends after a while; the idlest ends at once if all lines are taken and
another run has none.
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

WINDOW = 1 << 18  # bytes of one direction of a line that may be under way
PIECE = 1 << 16
MOST_LINES = 128
MOST_OF_RUN = 32  # lines
MOST_CONNECTIONS = 512  # lines, and connections that are not one yet
SILENT_SECONDS = 20.0  # from connecting to the first byte
IDLE_SECONDS = 300.0  # the SDK waits a minute for an answer, and its streams say something every 15 s
YIELD_SECONDS = 5.0  # a line that was idle for so long ends if another connection of the same run waits for its place
_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_MOST_CALLERS = 4096  # who wait to be heard; the system turns away all beyond, and may allow fewer
_WORTH_TELLING = WINDOW // 4
_LOOK_SECONDS = 5.0


class Channel(Protocol):
    """What carries frames to the server's end."""

    @property
    def is_free(self) -> bool:
        """Whether to take on what can wait."""

    def send(self, head: Dict[str, Any], body: bytes = b"") -> None: ...


class Line:
    def __init__(self, number: int, connection: socket.socket, run: bytes) -> None:
        self.number = number
        self.run = run
        self.moved_at = time.monotonic()
        self.connection = connection
        self.fd = connection.fileno()
        self.room = WINDOW  # what the server's end still takes
        self.waiting = bytearray()  # for the script
        self.passed = 0  # what the script took since we last told
        self.is_new = True  # the server's end does not know of it
        self.is_ended = False  # by the server; what waits is still for the script

    @property
    def has_more(self) -> bool:
        """Whether the script has said something that was not taken yet: it is not idle, but waits for us."""
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False


class Relay:
    def __init__(self, pipe: Channel) -> None:
        self._pipe = pipe
        self._folder = ""
        self._listening: Optional[socket.socket] = None
        self._place: Optional[Tuple[int, int]] = None  # of our socket: device and inode
        self._look_at = 0.0
        self._retry_at = float("inf")
        # Half of the descriptors that we may have, where these are few.
        self._most = min(MOST_CONNECTIONS, max(MOST_LINES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
        self._lines: Dict[int, Line] = {}  # by number, in the order of their turns
        self._known: Dict[bytes, Dict[int, Line]] = {}  # those that the server's end knows of, by run
        self._last = 0

    def listen(self, folder: str, url: str) -> None:
        """Be the one that scripts of this server reach. Another host of this machine gives way."""
        write_url(folder, url)
        self._folder = folder
        self._take_over()

    def hang_up(self) -> None:
        """End all lines, which the server's end has forgotten. Scripts may connect again."""
        for line in list(self._lines.values()):
            self._drop(line)

    @property
    def has_lines(self) -> bool:
        return bool(self._lines)

    def close(self) -> None:
        """Let go of all descriptors. A socket that nobody listens on refuses; the next host replaces it."""
        for line in self._lines.values():
            line.connection.close()
        self._lines.clear()
        self._known.clear()
        self._stop_listening()

    # ---- the loop's side ----

    def next_moment(self) -> float:
        return min(self._look_at, self._retry_at) if self._folder else float("inf")

    def register(self, poll: "select.poll") -> None:
        """What to wait for. Who sends waits while the pipe is busy: there are logs to tell of, and answers."""
        if self._listening is not None:
            poll.register(self._listening, select.POLLIN)
        is_free, now = self._pipe.is_free, time.monotonic()
        self._retry_at = float("inf")
        for line in self._lines.values():
            reads = line.room and is_free and not line.is_ended
            if reads and line.is_new and not self._place_for(line, now)[0]:
                reads, self._retry_at = False, now + _RETRY_SECONDS
            events = (select.POLLIN if reads else 0) | (select.POLLOUT if line.waiting else 0)
            if events:
                poll.register(line.fd, events)

    def serve(self, ready: List[int]) -> None:
        if self._listening is not None and self._listening.fileno() in ready:
            self._accept()
        fds = set(ready)
        for line in [line for line in self._lines.values() if line.fd in fds]:
            if line.number in self._lines:  # else it gave way to another
                self._flush(line)
            if line.number in self._lines and line.room and self._pipe.is_free and not line.is_ended:
                self._send_on(line)

    def step(self, now: float) -> None:
        """Now and then see whether scripts still reach us, and end what is idle."""
        if now < self._look_at or not self._folder:
            return
        self._look_at = now + _LOOK_SECONDS
        for line in list(self._lines.values()):
            if now - line.moved_at >= (SILENT_SECONDS if line.is_new else IDLE_SECONDS) and not line.has_more:
                self._end(line)
        try:
            self._look()
        except OSError:  # a full disk, say: we try again
            traceback.print_exc()

    # ---- the server's side ----

    def take(self, line: int, data: bytes, room: int, is_end: bool) -> None:
        """What the server's end says on a line. One that is not here has ended, and that was told."""
        known = self._lines.get(line)
        if known is None:
            return
        known.moved_at = time.monotonic()
        known.room += room
        known.waiting += data
        known.is_ended = is_end
        self._flush(known)

    # ---- lines ----

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection = self._listening.accept()[0]  # type: ignore[union-attr]
            except OSError:  # there are no more; or whoever called has gone, or there are no descriptors left
                return
            connection.setblocking(False)
            self._last += 1
            self._lines[self._last] = Line(self._last, connection, _run_of(connection))
            if len(self._lines) > self._most:
                self._end(self._surplus())

    def _surplus(self) -> Line:
        """The last connection that has not been heard yet, of the run that has the most of these."""
        new: Dict[bytes, List[Line]] = {}
        for line in self._lines.values():
            if line.is_new:
                new.setdefault(line.run, []).append(line)
        return max(new.values(), key=len)[-1]

    def _place_for(self, line: Line, now: float) -> Tuple[bool, Optional[Line]]:
        """Whether a connection may become a line of the server's now, and the one that ends for it, if one must."""
        own = self._known.get(line.run, {})
        if len(own) >= MOST_OF_RUN:
            crowd = own
        elif sum(map(len, self._known.values())) >= MOST_LINES:
            crowd = max(self._known.values(), key=len)
        else:
            return True, None
        idlest = min(crowd.values(), key=lambda each: each.moved_at)
        is_due = not own or now - idlest.moved_at >= YIELD_SECONDS
        return is_due, idlest if is_due else None

    def _send_on(self, line: Line) -> None:
        """One piece; then it is the turn of the others."""
        now = time.monotonic()
        may_begin, gives_way = self._place_for(line, now) if line.is_new else (True, None)
        if not may_begin:
            return
        try:
            data = line.connection.recv(min(PIECE, line.room))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(line)
            return
        if gives_way is not None:
            self._end(gives_way)
        self._tell(line, data, **({"new": True} if line.is_new else {}))
        line.is_new = False
        line.moved_at = now
        self._known.setdefault(line.run, {})[line.number] = line
        line.room -= len(data)
        self._lines[line.number] = self._lines.pop(line.number)

    def _flush(self, line: Line) -> None:
        try:
            while line.waiting:
                sent = line.connection.send(line.waiting)
                del line.waiting[:sent]
                line.passed += sent
                line.moved_at = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:  # the script has hung up
            self._end(line)
            return
        if line.is_ended:
            if not line.waiting:
                self._drop(line)
        elif line.passed >= _WORTH_TELLING:
            self._tell(line, room=line.passed)
            line.passed = 0

    def _end(self, line: Line) -> None:
        if not line.is_new and not line.is_ended:
            self._tell(line, end=True)
        self._drop(line)

    def _drop(self, line: Line) -> None:
        del self._lines[line.number]
        known = self._known.get(line.run, {})
        known.pop(line.number, None)
        if not known:
            self._known.pop(line.run, None)
        line.connection.close()

    def _tell(self, line: Line, data: bytes = b"", **more: Any) -> None:
        self._pipe.send({"event": "relay", "line": line.number, **more}, data)

    # ---- the socket ----

    def _take_over(self) -> None:
        """Made aside, then renamed: a script finds a socket that answers, at any moment."""
        self._stop_listening()
        aside = f"{os.getpid()}.sock"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(self._folder)  # the address of a socket has room for about a hundred bytes
        try:
            if os.path.lexists(aside):  # of a host that died, and had our number
                os.unlink(aside)
            listening.bind(aside)
            os.chmod(aside, 0o600)
            listening.listen(_MOST_CALLERS)
            listening.setblocking(False)
            made = os.stat(aside)
            os.rename(aside, SOCKET)
        except BaseException:
            listening.close()
            raise
        finally:
            os.chdir("/")
        self._listening, self._place = listening, (made.st_dev, made.st_ino)
        self._look_at = time.monotonic() + _LOOK_SECONDS

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self._listening = self._place = None

    def _look(self) -> None:
        os.makedirs(self._folder, 0o700, exist_ok=True)  # scripts may remove what they like
        try:
            found = os.lstat(f"{self._folder}/{SOCKET}")
            is_ours = (found.st_dev, found.st_ino) == self._place
            is_socket = stat.S_ISSOCK(found.st_mode)
        except FileNotFoundError:
            is_ours = is_socket = False
        if is_ours:
            return
        if is_socket and self._is_served():
            # Perhaps our pipe is dead and nobody has noticed: scripts that wait here would wait in vain.
            for line in list(self._lines.values()):
                self._end(line)
            self._stop_listening()
        else:
            self._take_over()

    def _is_served(self) -> bool:
        """Whether another host listens there."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
            knock.setblocking(False)
            os.chdir(self._folder)
            try:
                knock.connect(SOCKET)
            except BlockingIOError:
                return True  # and has much to do
            except OSError:
                return False
            finally:
                os.chdir("/")
        return True


def write_url(folder: str, url: str) -> None:
    """Note beside the socket by which name scripts call the server."""
    os.makedirs(folder, 0o700, exist_ok=True)
    aside = f"{folder}/url.{os.getpid()}"
    with open(aside, "w", encoding="ascii") as file:
        file.write(url)
    os.rename(aside, f"{folder}/url")


def _run_of(connection: socket.socket) -> bytes:
    """What connections of one run have in common: the cookie in the environment of the process that made them. Where
    that cannot be read, as in a container with users of its own, the control group of the process.
    """
    try:
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, _, _ = struct.unpack("3i", peer)
        return process_tree.variable_of(pid, b"WINDLASS_COOKIE") or read_whole(f"/proc/{pid}/cgroup")
    except (OSError, AttributeError):  # it is gone; or not a system that tells
        return b""
