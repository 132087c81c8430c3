"""Command of a channel on this machine: a child process with a terminal, or with three pipes."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios
from typing import Callable, Dict, List, Mapping, NoReturn, Optional, Tuple

from ..supervisor import launch
from ..supervisor.script_process import Exit, reap_children
from ..system import kernel
from ..system.process_tree import Tree
from .endpoint import CannotOpen, End, Endpoint, Output

_PATIENCE = 1.0  # seconds between TERM and KILL for what is left
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_EOF = b"\x04"  # what Ctrl-D sends


class LocalCommand(Endpoint):
    def __init__(
        self,
        argv: List[str],
        env: Mapping[str, str],
        folder: str,
        terminal: Optional[Tuple[int, int]],
        tree: Tree,
        set_up: Callable[[], None] = lambda: None,
        name: str = "",
    ) -> None:
        """`terminal` is its size in columns and rows; None for pipes. `set_up` is called in the child, before exec;
        `name` is the first word that the program sees, if that is not its path.
        """
        program = _program(argv[0], folder, env)
        self._tree = tree
        self._exit: Optional[Exit] = None
        self._fds: Dict[int, bool] = {}  # descriptors of output, True for standard error
        self._master = -1
        self._input = -1
        child = self._open_terminal(*terminal) if terminal is not None else self._open_pipes()
        error_fd, written = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _child_main(
                program, [name or argv[0], *argv[1:]], env, folder, child, terminal is not None, set_up, written
            )
        for fd in {*child, written}:
            os.close(fd)
        for fd in {*self._fds, self._input}:
            os.set_blocking(fd, False)
        with os.fdopen(error_fd, "rb") as pipe:  # it is closed by exec
            error = pipe.read().decode("utf-8", "replace")
        if error:
            self.close()
            raise CannotOpen(error, _NOT_EXECUTABLE)

    def _open_terminal(self, columns: int, rows: int) -> Tuple[int, int, int]:
        self._master, slave = os.openpty()
        self._fds, self._input = {self._master: False}, self._master
        self.resize(columns, rows)
        return slave, slave, slave

    def _open_pipes(self) -> Tuple[int, int, int]:
        stdin, self._input = os.pipe()
        stdout, into_stdout = os.pipe()
        stderr, into_stderr = os.pipe()
        self._fds = {stdout: False, stderr: True}
        return stdin, into_stdout, into_stderr

    @property
    def outputs(self) -> List[int]:
        return list(self._fds)

    @property
    def input(self) -> int:
        return self._input

    def read(self, fd: int, limit: int) -> Optional[Output]:
        try:
            data = os.read(fd, limit)
        except BlockingIOError:
            return None
        except OSError as e:
            if e.errno != errno.EIO:  # which a terminal reports once all processes have closed it
                raise
            data = b""
        if data:
            return [(self._fds[fd], data)]
        del self._fds[fd]
        if fd != self._master:
            os.close(fd)
        return []

    def write(self, data: bytes) -> int:
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            return 0
        except OSError:  # the command has closed its input
            self._close_input()
            return len(data)

    def end_input(self) -> None:
        if self._input == self._master and self._input >= 0:
            self.write(_EOF)
        else:
            self._close_input()

    def _close_input(self) -> None:
        if self._input >= 0 and self._input != self._master:
            os.close(self._input)
        self._input = -1

    def resize(self, columns: int, rows: int) -> None:
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def reap(self) -> None:
        for pid, _, ended in reap_children():
            if pid == self._pid:
                self._exit = ended

    def end(self) -> Optional[End]:
        if self._exit is None:
            return None
        if self._exit.signal is not None:
            return End(128 + self._exit.signal)
        return End(self._exit.exit_code)

    def close(self) -> None:
        self._close_input()
        for fd in {*self._fds} - {self._master}:
            os.close(fd)
        self._fds = {}
        if self._master >= 0:
            os.close(self._master)  # which sends SIGHUP to the processes of the terminal
            self._master = -1
        self._tree.end(_PATIENCE, self.reap)


def _program(name: str, folder: str, env: Mapping[str, str]) -> str:
    if "/" in name:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            raise CannotOpen(f"There is no {name} there.", _NOT_FOUND)
        return path
    found = launch.find_command(name, env.get("PATH"))
    if found is None:
        raise CannotOpen(f"There is no command {name} on the PATH there.", _NOT_FOUND)
    return found


def _child_main(
    program: str,
    argv: List[str],
    env: Mapping[str, str],
    folder: str,
    streams: Tuple[int, int, int],
    has_terminal: bool,
    set_up: Callable[[], None],
    error_fd: int,
) -> NoReturn:
    try:
        kernel.die_with_parent(signal.SIGKILL)
        launch.reset_signals()
        os.setsid()
        if has_terminal:
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        for standard, fd in enumerate(streams):
            os.dup2(fd, standard)
        os.umask(0o022)
        os.chdir(folder)
        set_up()
        os.execve(program, argv, dict(env))
    except OSError as e:
        os.write(error_fd, launch.explain(program, e).encode("utf-8", "replace"))
    except BaseException as e:
        os.write(error_fd, f"{type(e).__name__}: {e}".encode("utf-8", "replace"))
    finally:
        os._exit(_NOT_FOUND)
