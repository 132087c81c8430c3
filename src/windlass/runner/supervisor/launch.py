"""Start of the script: its command, its environment variables, and the forked child that execs it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional

from ..system import gpus
from ..workdir.machine_folder import RELAY_SOCKET, Machine

# Variables of the program that started the runner; they would mislead the script.
_DROPPED = (
    "WINDLASS_", "AZUREML_", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__",
    "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER",
)  # fmt: skip
_SHARE = "AZUREML_NATIVE_SHARE_DIRECTORY"

# Signals that Python, or our parent process, ignores: exec would pass that on. Read once: it takes a millisecond.
_IGNORED = [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]


class CannotStart(Exception):
    """The script cannot be started here; the message says what is missing."""


def find_command(name: str, path: Optional[str]) -> Optional[str]:
    """The program of that name on a PATH, as a shell would find it."""
    for folder in (path or os.defpath).split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None


def command_of(run: Mapping[str, Any], interpreter: str, source: str, env: Mapping[str, str]) -> List[str]:
    """The argv to execute; its first element is a path."""
    first, *rest = run["command"]
    if first == "{python}":
        check_script(rest, source)
        return [interpreter, *rest]
    if "/" in first:
        return [os.path.join(source, first), *rest]
    found = find_command(first, env.get("PATH"))
    if found is None:
        raise CannotStart(f"There is no command {first} on the PATH of this machine.")
    return [found, *rest]


def check_script(words: List[str], source: str) -> None:
    """The file that Python is to execute, if it is one (and not -m or -c), must have come with the run."""
    script = words[0] if words else "-"
    if not script.startswith("-") and not os.path.exists(os.path.join(source, script)):
        raise CannotStart(f"There is no {script} in the source folder of this run. Was it ignored, or misspelled?")


def variables_of(
    run: Mapping[str, Any], machine: Machine, folder: str, prefix: Optional[str], activated: Mapping[str, str]
) -> Dict[str, str]:
    """The script's variables: those of the machine, of the environment and of the run, and the run's paths."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED) or k == "WINDLASS_FAILPOINTS"}
    if prefix is not None:
        env["PATH"] = f"{prefix}/bin{os.pathsep}{env.get('PATH', os.defpath)}"
    whole = gpus.show_devices(run, variables_of_run(run, machine, folder, {**env, **activated}))
    if whole.get(_SHARE, "").startswith("~"):
        whole[_SHARE] = _home_folder(whole[_SHARE])
    return whole


def _home_folder(path: str) -> str:
    """Expand `~` in the path of the folder that runs of this account share, and make the folder."""
    whole = os.path.expanduser(path)
    with contextlib.suppress(OSError):  # the script fails with a better message, if it needs the folder
        os.makedirs(whole, 0o700, exist_ok=True)
    return whole


def variables_of_run(
    run: Mapping[str, Any], machine: Machine, folder: str, around: Mapping[str, str]
) -> Dict[str, str]:
    """Add the variables of the environment and of the run, and the run's paths, to `around`."""
    env = {**around, **((run.get("environment") or {}).get("variables") or {})}
    env.update(run.get("env") or {})
    paths = [machine.sdk(run["sdk"])] if run.get("sdk") else []
    paths += [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    if paths:
        env["PYTHONPATH"] = os.pathsep.join(paths)
    env.setdefault("PYTHONUNBUFFERED", "1")
    if run.get("relay"):
        env["WINDLASS_RELAY"] = f"{machine.relay(run['relay'])}/{RELAY_SOCKET}"
        env.pop("WINDLASS_HOME", None)  # it is on another machine
    env["WINDLASS_RUN_FOLDER"] = folder
    env["WINDLASS_COOKIE"] = str(run["nonce"])
    env["PWD"] = f"{folder}/source"
    return env


class Launch:
    """A forked child that waits for the command to exec, so that it can be forked early. It exits if its parent dies
    before `exec`.
    """

    def __init__(
        self, cwd: str, log: str, set_up: Callable[[], None] = lambda: None, fork: Callable[[], int] = os.fork
    ) -> None:
        command_fd, self._command_fd = os.pipe()
        self._error_fd, error_fd = os.pipe()  # closed on exec: end of file without a message means success
        self.pid = fork()
        if self.pid == 0:
            os.close(self._command_fd)
            os.close(self._error_fd)
            _child_main(cwd, log, set_up, command_fd, error_fd)
        os.close(command_fd)
        os.close(error_fd)

    def exec(self, argv: List[str], env: Mapping[str, str]) -> str:
        """Have the child exec that program. Returns the error if it could not, else ""."""
        try:
            with os.fdopen(self._command_fd, "wb") as pipe:
                pipe.write(json.dumps([argv, env]).encode("ascii"))
        except BrokenPipeError:
            pass  # the child has failed already and has sent its error
        with os.fdopen(self._error_fd, "rb") as pipe:
            error = pipe.read().decode("utf-8", "replace")
        if error:
            os.waitpid(self.pid, 0)
        return error

    def cancel(self) -> None:
        os.close(self._command_fd)
        os.close(self._error_fd)
        os.waitpid(self.pid, 0)


def _child_main(cwd: str, log: str, set_up: Callable[[], None], command_fd: int, error_fd: int) -> NoReturn:
    program = ""
    try:
        detach(log)
        os.umask(0o022)
        os.chdir(cwd)
        set_up()
        with os.fdopen(command_fd, "rb") as pipe:
            command = pipe.read()
        if command:
            argv, env = json.loads(command)
            program = argv[0]
            os.execve(program, argv, env)
    except OSError as e:
        os.write(error_fd, explain(program, e).encode("utf-8", "replace"))
    except BaseException as e:
        os.write(error_fd, f"{type(e).__name__}: {e}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def detach(log: str) -> None:
    """Start a new session with no input, output to a file, and default signal handlers."""
    os.setsid()
    reset_signals()
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    for fd, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, standard)


def reset_signals() -> None:
    """Restore the default handlers, also of signals that exec would pass on as ignored."""
    signal.set_wakeup_fd(-1)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def explain(program: str, error: OSError) -> str:
    if error.errno == errno.E2BIG:
        return "The arguments and variables of this run are longer than this system takes (E2BIG)."
    if error.errno == errno.ENOENT and os.path.exists(program):
        return f"{program} names an interpreter in its first line that is not on this machine."
    if error.errno == errno.EACCES and os.path.exists(program):
        return f"{program} may not be executed (permission denied). Is its executable bit set?"
    if error.errno == errno.ENOEXEC:
        return f"{program} is not a program that this system can execute, and has no first line like #!/bin/sh."
    return f"{error.filename or program}: {error.strerror or error}"
