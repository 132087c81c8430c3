"""Process of one channel: a child of the host that opens a command or a connection, and passes bytes in both
directions. It may wait for an engine or a process, as the host may not.

It speaks with the host by the frames of the pipe, on a socket. Each direction has a window: `credit` says how many more
bytes the other side accepts. When the socket closes, as when the host ends, everything that the channel started is
killed.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
import traceback
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..containers import create_request
from ..containers.docker_api import Engine, NoEngine
from ..containers.images import ImageRequest
from ..environments.environment import ready_environment
from ..host.framing import BrokenFrame, Decoder, encode
from ..supervisor.launch import CannotStart
from ..system import kernel
from ..system.cgroup import Group
from ..system.process_tree import Tree
from ..system.wakeup import Wakeup
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import RunFolder
from . import surroundings
from .container_command import ContainerCommand, connector
from .endpoint import PIECE, CannotOpen, End, Endpoint, TcpConnection
from .local_command import LocalCommand

WINDOW = 1 << 18  # unconfirmed bytes in one direction
_CREDIT_STEP = WINDOW // 4
_MOST_UNSENT = 1 << 18
_KILLED = 128 + signal.SIGKILL
_REASON_SECONDS = 1.0


class Request(NamedTuple):
    """What a channel leads to. Without a port or a command it is a shell."""

    command: List[str]
    port: int = 0
    terminal: Optional[Tuple[int, int]] = None  # columns and rows
    term: str = ""
    rank: Optional[int] = None


def serve(
    machine: Machine,
    folder: Optional[RunFolder],
    request: Request,
    mark: str,
    connection: socket.socket,
    group: Optional[Group],
) -> int:
    """Main function of the process; returns its exit code. Without a folder, the channel is one of the machine."""
    kernel.become_subreaper()
    wakeup = Wakeup((signal.SIGCHLD,))
    session = ChannelProcess(connection, wakeup)
    try:
        session.run(lambda: open_endpoint(machine, folder, request, mark, group))
    except Exception:
        session.finish(End(None, f"The runner failed: {traceback.format_exc().strip().splitlines()[-1]}"))
        return 1
    return 0


def open_endpoint(
    machine: Machine, folder: Optional[RunFolder], request: Request, mark: str, group: Optional[Group]
) -> Endpoint:
    container = None if folder is None else folder.run().get("container")
    if folder is not None and container:
        return _open_in_container(machine, folder, request, mark)
    if request.port:
        return TcpConnection(request.port)
    if folder is None:
        place, enter = surroundings.of_account(), _nothing
    else:
        place, enter = surroundings.of_run(machine, folder, request.rank), _entering(folder, group)
    shell = surroundings.shell_of_account()
    env = surroundings.with_terminal({**place.env, surroundings.MARK: mark}, request.term, bool(request.terminal))
    login = f"-{os.path.basename(shell)}" if folder is None and not request.command else ""
    tree = Tree(f"{surroundings.MARK}={mark}")
    return LocalCommand(request.command or [shell], env, place.folder, request.terminal, tree, enter, login)


def _nothing() -> None:
    pass


def _entering(folder: RunFolder, group: Optional[Group]) -> Callable[[], None]:
    """A function by which a process takes on the limits of a run."""
    processors = surroundings.affinity_of(folder)

    def enter() -> None:
        if processors:
            os.sched_setaffinity(0, processors)
        if group is not None:
            group.enter_for_channel()

    return enter


def _open_in_container(machine: Machine, folder: RunFolder, request: Request, mark: str) -> ContainerCommand:
    run = folder.run()
    try:
        engine = Engine(run["container"].get("engine"))
    except NoEngine as e:
        raise CannotOpen(str(e)) from None
    env = {**surroundings.rank_variables(folder, request.rank), **surroundings.variables_for_container(run, mark)}
    env = surroundings.with_terminal(env, request.term, bool(request.terminal))
    command = connector(request.port) if request.port else request.command
    sdk = machine.sdk(run["sdk"]) if run.get("sdk") else ""
    prefix = ready_environment(machine, run, folder.at("source")).prefix if ImageRequest(run).is_conda else ""
    paths = (prefix or "", sdk)
    return ContainerCommand(engine, create_request.container_name(run), command, env, paths, request.terminal)


class ChannelProcess:
    def __init__(self, connection: socket.socket, wakeup: Wakeup) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self._wakeup = wakeup
        self._decoder = Decoder()
        self._unsent = bytearray()  # for the host
        self._credit = WINDOW  # bytes of output that the other side still accepts
        self._input = bytearray()  # for the command
        self._taken = 0  # bytes of input that the command took, not confirmed yet
        self._is_input_ended = False
        self._is_closed = False  # by the other side
        self._reason = ""  # why it was closed
        self._size: Optional[Tuple[int, int]] = None
        self._endpoint: Optional[Endpoint] = None

    def run(self, open_one: Callable[[], Endpoint]) -> None:
        try:
            self._endpoint = open_one()
        except (CannotOpen, CannotStart, OSError) as e:
            self.finish(End(getattr(e, "exit_code", None), str(e)))
            return
        end: Optional[End] = None
        try:
            while not self._is_closed and (end := self._step(self._endpoint)) is None:
                self._wait(self._endpoint)
        finally:
            self._endpoint.close()
        if end is not None and end.exit_code == _KILLED:
            self._await_reason()
        self.finish(End(None, self._reason) if end is None or self._reason else end)

    def _await_reason(self) -> None:
        """A command was killed: if that was because its run ends, the host says so in a moment."""
        deadline = time.monotonic() + _REASON_SECONDS
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while not self._is_closed and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            self._receive()

    def finish(self, end: End) -> None:
        """Send how it ended, and wait until the host has taken it."""
        self._send({"end": {"exit_code": end.exit_code, "message": end.message}})
        self._connection.setblocking(True)
        try:
            self._connection.sendall(self._unsent)
        except OSError:
            pass  # the host has ended
        self._connection.close()

    def _wait(self, endpoint: Endpoint) -> None:
        poll = select.poll()
        poll.register(self._wakeup.fd, select.POLLIN)
        poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        events: Dict[int, int] = {}
        if self._may_read:
            events.update(dict.fromkeys(endpoint.outputs, select.POLLIN))
        if self._input and endpoint.input >= 0:
            events[endpoint.input] = events.get(endpoint.input, 0) | select.POLLOUT
        for fd, wanted in events.items():
            poll.register(fd, wanted)
        ended = endpoint.end() is not None
        ready = dict(poll.poll(0 if ended and self._may_read else None))
        if self._wakeup.fd in ready:
            self._wakeup.drain()
            endpoint.reap()
        if self._connection.fileno() in ready:
            self._receive()

    @property
    def _may_read(self) -> bool:
        return self._credit > 0 and len(self._unsent) < _MOST_UNSENT

    def _step(self, endpoint: Endpoint) -> Optional[End]:
        """Move the bytes that can be moved. Returns how the channel ended, once all output was passed on."""
        self._flush()
        if self._size is not None:
            endpoint.resize(*self._size)
            self._size = None
        self._write(endpoint)
        end = endpoint.end()  # before the last read, so that no output is lost
        has_read = self._read(endpoint)
        return end if end is not None and not has_read and self._may_read else None

    def _read(self, endpoint: Endpoint) -> bool:
        """Pass output on. False if there is none now."""
        has_read = False
        for fd in endpoint.outputs:
            found = endpoint.read(fd, min(PIECE, self._credit)) if self._may_read else None
            for is_error, data in found or ():
                self._credit -= len(data)
                self._send({"from": "stderr" if is_error else "stdout"}, data)
            has_read = has_read or found is not None
        return has_read

    def _write(self, endpoint: Endpoint) -> None:
        if self._input and endpoint.input < 0:  # it takes none any more: the rest is dropped
            self._taken += len(self._input)
            self._input.clear()
        if self._input:
            count = endpoint.write(bytes(self._input[:PIECE]))
            del self._input[:count]
            self._taken += count
        if self._taken >= _CREDIT_STEP:
            self._send({"credit": self._taken})
            self._taken = 0
        if self._is_input_ended and not self._input:
            self._is_input_ended = False
            endpoint.end_input()

    # ---- the host ----

    def _receive(self) -> None:
        try:
            data = self._connection.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._is_closed = self._is_closed or not data
        try:
            for head, body in self._decoder.feed(data):
                self._handle(head, body)
        except BrokenFrame:
            self._is_closed = True

    def _handle(self, head: Mapping[str, Any], body: bytes) -> None:
        self._input += body
        self._credit += head.get("credit", 0)
        self._is_input_ended = self._is_input_ended or head.get("end_input") is True
        if head.get("size"):
            self._size = (head["size"][0], head["size"][1])
        if head.get("close"):
            self._is_closed, self._reason = True, str(head.get("message") or "")

    def _send(self, head: Dict[str, Any], body: bytes = b"") -> None:
        self._unsent += encode(head, body)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._is_closed = True
