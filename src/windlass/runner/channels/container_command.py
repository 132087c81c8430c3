"""Command of a channel in the container of a run, by the `exec` of the Docker Engine's API.

The engine neither ends such a command when its connection closes, nor says when one was killed: so its processes are
found by a variable of theirs, here or in the container.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Any, List, Mapping, Optional, Tuple

from ..containers.docker_api import FEW_SECONDS, Engine, EngineRefused, EngineUnreachable
from ..system.process_tree import Tree
from .endpoint import CannotOpen, End, Endpoint, Output
from .surroundings import MARK

_PATIENCE = 1.0
_EXIT_SECONDS = 5.0  # for the engine to note the end of a command whose output has ended
_HEADER = struct.Struct(">BxxxI")  # of a piece of output without a terminal: the stream, and the length
_STDERR = 2

# What precedes a command, of shell builtins only: the PATH of the run's environment, as its script has it.
_ENTRY = r"""
prefix=$1 sdk=$2; shift 2
if [ -n "$prefix" ]; then export PATH="$prefix/bin:$PATH"; fi
if [ -n "$sdk" ]; then export PYTHONPATH="$sdk${PYTHONPATH:+:$PYTHONPATH}"; fi
unset WINDLASS_COOKIE
if [ "$#" -gt 0 ]; then
  case $1 in
  */*) ;;
  *) command -v "$1" >/dev/null 2>&1 || { echo "There is no command $1 on the PATH there." >&2; exit 127; } ;;
  esac
  exec "$@"
fi
for shell in bash sh; do command -v $shell >/dev/null 2>&1 && exec $shell; done
"""
# Connects standard input and output to a port, by Python or nc, since the container's 127.0.0.1 is its own.
_CONNECT = r"""
port=$1 code=$2
for python in python3 python; do command -v $python >/dev/null 2>&1 && exec $python -c "$code" "$port"; done
command -v nc >/dev/null 2>&1 && exec nc 127.0.0.1 "$port"
echo "The image of this run has neither Python nor nc, one of which must connect to the port." >&2; exit 127
"""
_CONNECT_CODE = r"""
import os, select, socket, sys
found = problem = None
for address in ("127.0.0.1", "::1"):
    try:
        found = socket.create_connection((address, int(sys.argv[1])), 5); break
    except (OSError, IOError) as e:
        problem = problem or e
if found is None:
    sys.exit("Nothing answers on port %s there (%s)." % (sys.argv[1], problem))
found.settimeout(None)
inputs = [0, found]
while found in inputs:
    ready = select.select(inputs, [], [])[0]
    if 0 in ready:
        data = os.read(0, 65536)
        if data: found.sendall(data)
        else: inputs.remove(0); found.shutdown(socket.SHUT_WR)
    if found in ready:
        data = found.recv(65536)
        if not data: break
        while data: data = data[os.write(1, data):]
"""
# For processes of other users than ours, which cannot be signalled from outside.
_KILL = r"""
for each in /proc/[0-9]*; do
  case "$(tr '\0' '\n' <"$each/environ" 2>/dev/null)" in *"$1"*) kill -9 "${each#/proc/}" 2>/dev/null ;; esac
done
"""


def connector(port: int) -> List[str]:
    """The command that connects its input and output to a port of the container."""
    return ["/bin/sh", "-c", _CONNECT, "windlass", str(port), _CONNECT_CODE]


class ContainerCommand(Endpoint):
    def __init__(
        self,
        engine: Engine,
        container: str,
        argv: List[str],
        env: Mapping[str, str],
        paths: Tuple[str, str],
        terminal: Optional[Tuple[int, int]],
    ) -> None:
        """`paths` are those of the run's environment and of the SDK, each empty if there is none."""
        self._engine = engine
        self._container = container
        self._channel = env[MARK]
        self._has_terminal = terminal is not None
        self._rest = b""  # of a piece that has not arrived whole
        self._has_ended = False
        self._takes_input = True
        self._exit: Optional[End] = None
        self._id = self._create(["/bin/sh", "-c", _ENTRY, "windlass", *paths, *argv], env)
        try:
            options = {"Detach": False, "Tty": self._has_terminal}
            if terminal is not None:
                options["ConsoleSize"] = [terminal[1], terminal[0]]  # type: ignore[assignment]
            self._socket, self._received = engine.attach(f"/exec/{self._id}/start", options)
        except (EngineRefused, EngineUnreachable) as e:
            raise CannotOpen(_explain(e)) from None
        self._socket.setblocking(False)
        if terminal is not None:
            self.resize(*terminal)

    def _create(self, argv: List[str], env: Mapping[str, str]) -> str:
        body = {
            "AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Tty": self._has_terminal,
            "Cmd": argv, "Env": [f"{name}={value}" for name, value in env.items()],
        }  # fmt: skip
        try:
            made = self._engine.call("POST", f"/containers/{self._container}/exec", body)
            return str(made["Id"])
        except (EngineRefused, EngineUnreachable) as e:
            raise CannotOpen(_explain(e)) from None

    @property
    def outputs(self) -> List[int]:
        return [] if self._has_ended else [self._socket.fileno()]

    @property
    def input(self) -> int:
        return self._socket.fileno() if self._takes_input and not self._has_ended else -1

    def read(self, fd: int, limit: int) -> Optional[Output]:
        data, self._received = self._received, b""
        if not data:
            try:
                data = self._socket.recv(limit)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            self._has_ended = not data
        if self._has_terminal:
            return [(False, data)] if data else []
        return self._unpack(data)

    def _unpack(self, data: bytes) -> Output:
        """The pieces of output that are complete."""
        found: Output = []
        self._rest += data
        while len(self._rest) >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._rest)
            end = _HEADER.size + length
            if len(self._rest) < end:
                break
            found.append((stream == _STDERR, self._rest[_HEADER.size : end]))
            self._rest = self._rest[end:]
        return found

    def write(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # the command takes no more: its end is seen by read()
            self._takes_input = False
            return len(data)

    def end_input(self) -> None:
        if self._has_terminal:
            self.write(b"\x04")
            return
        self._takes_input = False
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def resize(self, columns: int, rows: int) -> None:
        try:
            self._engine.call("POST", f"/exec/{self._id}/resize?h={rows}&w={columns}", seconds=FEW_SECONDS)
        except (EngineRefused, EngineUnreachable):
            pass  # it has ended, or is just beginning: then ConsoleSize counts

    def end(self) -> Optional[End]:
        if self._has_ended and self._exit is None:
            self._exit = self._await_exit()
        return self._exit

    def _await_exit(self) -> End:
        deadline = time.monotonic() + _EXIT_SECONDS
        while time.monotonic() < deadline:
            state = self._state()
            if state is None:
                return End(None, "The container has ended, and the command with it.")
            if not state.get("Running") and state.get("ExitCode") is not None:
                code = int(state["ExitCode"])
                return End(code, "")
            select.select([], [], [], 0.02)
        return End(None, "The Docker engine does not say how the command ended.")

    def _state(self) -> Optional[Mapping[str, Any]]:
        try:
            found = self._engine.call("GET", f"/exec/{self._id}/json", seconds=FEW_SECONDS)
        except EngineRefused:
            return None
        except EngineUnreachable:
            return {"Running": True}
        return found if isinstance(found, dict) else {}

    def close(self) -> None:
        self._socket.close()
        tree = Tree(f"{MARK}={self._channel}", None, is_ancestor=False)
        tree.end(_PATIENCE, lambda: None)
        if (self._state() or {}).get("Running"):
            self._kill_inside()

    def _kill_inside(self) -> None:
        try:
            body = {"Cmd": ["/bin/sh", "-c", _KILL, "windlass", f"{MARK}={self._channel}"]}
            made = self._engine.call("POST", f"/containers/{self._container}/exec", body)
            self._engine.call("POST", f"/exec/{made['Id']}/start", {"Detach": True})
        except (EngineRefused, EngineUnreachable):
            pass  # the container has ended, or ends with its run


def _explain(error: Exception) -> str:
    return f"The container of this run takes no command: {error}"
