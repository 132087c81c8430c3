"""Folder, variables and shell of a command that a member opens: those of a run, or those of the machine's account."""

from __future__ import annotations

import os
import pwd
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..environments.environment import ready_environment
from ..supervisor import launch
from ..system import process_tree
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import RunFolder
from .endpoint import CannotOpen

# A variable of all processes of one channel, by which they are found.
MARK = "WINDLASS_CHANNEL"
# By these, processes are found that belong to the run and end with it; a shell is none of them.
_OF_RUN = ("WINDLASS_COOKIE",)
# Variables of the runner's host that a shell of the account gets, too. The others may be of the program that started
# the host: on the server's own computer, the server.
_OF_ACCOUNT = re.compile(r"(LANG|LANGUAGE|LC_\w+|TZ|PATH|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS)\Z")
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "NODE_RANK")
_NO_SHELLS = ("", "false", "nologin")


class Surroundings(NamedTuple):
    folder: str
    env: Dict[str, str]


def of_run(machine: Machine, folder: RunFolder, rank: Optional[int]) -> Surroundings:
    """Those of the script of a run, with its interpreter on the PATH; or of one of its ranks."""
    run, source = folder.run(), folder.at("source")
    ready = ready_environment(machine, run, source)
    env = launch.variables_of(run, machine, folder.path, ready.prefix, ready.variables)
    name = os.path.basename(ready.python)
    if launch.find_command(name, env.get("PATH")) != ready.python:
        env["PATH"] = f"{os.path.dirname(ready.python)}{os.pathsep}{env.get('PATH', os.defpath)}"
    for variable in _OF_RUN:
        env.pop(variable, None)
    return Surroundings(source, {**env, **rank_variables(folder, rank)})


def of_account() -> Surroundings:
    """Those of the account that the runner has here."""
    account = pwd.getpwuid(os.getuid())
    own = {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name, "SHELL": shell_of_account()}
    env = {name: value for name, value in os.environ.items() if _OF_ACCOUNT.match(name)}
    return Surroundings(account.pw_dir if os.path.isdir(account.pw_dir) else "/", {"PATH": os.defpath, **env, **own})


def shell_of_account() -> str:
    """The shell of the account if it has one that may be used, else bash or sh."""
    path = pwd.getpwuid(os.getuid()).pw_shell
    if os.path.basename(path) not in _NO_SHELLS and os.access(path, os.X_OK):
        return path
    return launch.find_command("bash", os.defpath) or "/bin/sh"


def rank_variables(folder: RunFolder, rank: Optional[int]) -> Dict[str, str]:
    """The variables by which a rank of a distributed run differs from the process that launched it."""
    if rank is None:
        return {}
    written = folder.process() or {}
    top = written.get("pid") or 0
    launcher = _environ(top)
    for seen in process_tree.descendants(top) if top else ():
        own = _environ(seen.pid)
        if any(own.get(name) == str(rank) for name in _RANKS) and own.get("WINDLASS_COOKIE"):
            return {name: value for name, value in own.items() if launcher.get(name) != value and name not in _OF_RUN}
    raise CannotOpen(f"This run has no process of rank {rank} now.")


def _environ(pid: int) -> Dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [line.partition(b"=") for line in file.read().split(b"\0") if b"=" in line]
    except OSError:
        return {}
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def with_terminal(env: Mapping[str, str], term: str, has_terminal: bool) -> Dict[str, str]:
    return {**env, "TERM": term or "xterm-256color"} if has_terminal else dict(env)


def affinity_of(folder: RunFolder) -> List[int]:
    """The processors that the script of a run may use."""
    written = folder.process()
    try:
        return sorted(os.sched_getaffinity(written["pid"])) if written is not None else []
    except (OSError, AttributeError):  # it is gone, or the system has no such limits
        return []


def variables_for_container(run: Mapping[str, Any], channel: str) -> Dict[str, str]:
    """Variables that a command in a run's container has beside those of the container."""
    return {MARK: channel, "WINDLASS_COOKIE": ""}
