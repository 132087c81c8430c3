"""Body of Docker's `containers/create` for a run: user, mounts, limits, variables and the entry script.

The run's folder is mounted at its path on the machine, and only the parts that scripts write or read: not run.json, nor
the claim, nor the status. The script's stdout is the log file itself, as outside of containers.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..distributed import command as distributed
from ..shared_folder.placement import runner_of
from ..supervisor.launch import CannotStart, check_script, variables_of_run
from ..system import gpus, limits
from ..system.inventory import lends_gpus
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import LOG, RunFolder, write_all

ENTRY_DIR = "door"
STARTED = "in"  # exists once the script was started: it is not executed again
STARTED_TWICE = "twice"  # exists once a second start was refused
FAILED = "failed"  # why the script could not be executed
SECRETS = "WINDLASS_SECRETS_FILE"

_ALL_GPUS = [{"Count": -1, "Capabilities": [["gpu"]]}]
_QUOTAS = ("NanoCpus", "CpuQuota", "CpuPeriod")  # the engine accepts one of these
_WRITABLE = ("source", "user_logs", "metrics", "calls", "uploads", ENTRY_DIR)

# Entry script, of shell builtins only: an image need not have any other program. The redirection with -C creates a
# file that must not exist, so that a container that is started twice by accident executes its script once.
_ENTRY_SCRIPT = r"""
door=$1 log=$2 prefix=$3 sdk=$4; shift 4
(set -C; : >"$door/in") 2>/dev/null || { : >"$door/twice"; exit 125; }
fail() { echo "$1" >"$door/failed"; exit 127; }
exec >>"$log" 2>&1
if [ -n "$prefix" ]; then export PATH="$prefix/bin:$PATH"; fi
if [ -n "$sdk" ]; then export PYTHONPATH="$sdk${PYTHONPATH:+:$PYTHONPATH}"; fi
if [ "$1" = "{python}" ]; then
  python=$(command -v python3 || command -v python) || fail "There is no Python in the image of this run."
  shift; set -- "$python" "$@"
fi
case $1 in
*/*) [ -f "$1" ] && [ -x "$1" ] || fail "There is no program $1 in the container, or it may not be executed." ;;
*) command -v "$1" >/dev/null 2>&1 || fail "There is no command $1 on the PATH of the container." ;;
esac
exec "$@"
"""


class ContainerContents(NamedTuple):
    """The image of a container, and the interpreter and environment in it."""

    image: str
    python: str = "{python}"  # found by the entry script
    prefix: Optional[str] = None  # an environment of this machine, mounted where it is
    variables: Mapping[str, str] = {}  # of that environment
    replaced: Mapping[str, str] = {}  # packages that differ from the request: see environments/era.py


def create_body(
    run: Mapping[str, Any], machine: Machine, folder: RunFolder, contents: ContainerContents, user: str
) -> Dict[str, Any]:
    """The body of the create request."""
    options: Mapping[str, Any] = run["container"]
    sdk = machine.sdk(run["sdk"]) if run.get("sdk") else ""
    entry = ["-c", _ENTRY_SCRIPT, "windlass", folder.at(ENTRY_DIR), folder.at(LOG), contents.prefix or "", sdk]
    return {
        **(options.get("config") or {}),
        "Image": contents.image,
        "Entrypoint": ["/bin/sh"],
        "Cmd": [*entry, *_command(run, contents.python, folder)],
        "User": (options.get("config") or {}).get("User", user),
        "WorkingDir": folder.at("source"),
        "Env": [f"{name}={value}" for name, value in sorted(_variables(run, machine, folder, contents).items())],
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(run, _mounts(run, machine, folder, contents)),
    }


def _host_config(run: Mapping[str, Any], mounts: List[Dict[str, Any]]) -> Dict[str, Any]:
    asked: Mapping[str, Any] = run["container"].get("host") or {}
    devices = gpus.devices_of(run)
    made = {
        "Init": True,
        "CapDrop": ["ALL"],
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        **({"DeviceRequests": _ALL_GPUS} if lends_gpus() else {}),
        **asked,
        **({"DeviceRequests": gpus.requests_for(devices)} if devices else {}),
        "SecurityOpt": ["no-new-privileges", *asked.get("SecurityOpt", ())],
        "Mounts": [*mounts, *asked.get("Mounts", ())],
    }
    if devices == []:
        made.pop("DeviceRequests", None)
    if made.get("ReadonlyRootfs"):
        made["Tmpfs"] = {"/tmp": "", **(made.get("Tmpfs") or {})}
    return made


def _mounts(
    run: Mapping[str, Any], machine: Machine, folder: RunFolder, contents: ContainerContents
) -> List[Dict[str, Any]]:
    read = [machine.sdk(run["sdk"])] if run.get("sdk") else []
    read += [machine.relay(run["relay"])] if run.get("relay") else []
    read += [path for path in (contents.prefix, secrets_path(run)) if path]
    read += [runner_of(folder)] if distributed.is_launched(run) else []
    return [*(_mount(folder.at(name), False) for name in _WRITABLE), *(_mount(path, True) for path in read)]


def _mount(path: str, read_only: bool) -> Dict[str, Any]:
    return {"Type": "bind", "Source": path, "Target": path, "ReadOnly": read_only}


def _variables(
    run: Mapping[str, Any], machine: Machine, folder: RunFolder, contents: ContainerContents
) -> Dict[str, str]:
    """The script's variables, without the machine's own: a container has those of its image."""
    account = _account()
    own = {"HOME": "/tmp", "USER": account, "LOGNAME": account, **contents.variables}
    own.update(run["container"].get("env") or {})
    secrets = secrets_path(run)
    # The entry script adds the SDK to PYTHONPATH: the image's value is only known inside.
    found = variables_of_run({**run, "sdk": None}, machine, folder.path, own)
    found.pop("WINDLASS_HOME", None)  # which is not mounted
    if gpus.devices_of(run) or lends_gpus():
        found = gpus.show_devices(run, found)
    return {**found, **({SECRETS: secrets} if secrets else {})}


def _account() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _command(run: Mapping[str, Any], python: str, folder: RunFolder) -> List[str]:
    command = list(run["command"])
    if command[0] == "{python}":
        check_script(command[1:], folder.at("source"))
        command[0] = python
    if distributed.is_launched(run):
        return distributed.launcher_in_container(run, folder, command, python, ENTRY_DIR)
    return command


def limits_of(run: Mapping[str, Any]) -> Dict[str, Any]:
    """Limits of the container that its options leave open; an engine can update them after it was created."""
    asked: Mapping[str, Any] = run["container"].get("host") or {}
    found = limits.for_container(limits.limits_of(run))
    if any(name in asked for name in _QUOTAS):
        found.pop("NanoCpus", None)
    return {name: value for name, value in found.items() if name not in asked}


def container_name(run: Mapping[str, Any]) -> str:
    """Name of the container: unique to the attempt, also on an engine that several machine folders share."""
    return f"windlass-{run['job']}-{hashlib.sha256(str(run['nonce']).encode()).hexdigest()[:12]}"


def secrets_path(run: Mapping[str, Any]) -> Optional[str]:
    """The file with the run's secrets, in a file system in memory. None if the run has none, or the file is missing."""
    paths = [f"{folder}/{container_name(run)}" for folder in _own_folders()] if run.get("secrets") else []
    return next((path for path in paths if os.path.lexists(path)), None)


def place_secrets(run: Mapping[str, Any], content: bytes) -> None:
    """Write the secrets' file. It must exist when the container is created, and be full before it is started."""
    if not run.get("secrets"):
        return
    path = secrets_path(run) or f"{_own_folder()}/{container_name(run)}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(fd, content)
    finally:
        os.close(fd)


def remove_secrets(run: Mapping[str, Any]) -> None:
    path = secrets_path(run)
    if path is not None:
        os.unlink(path)


def _own_folder() -> str:
    """A folder in memory that no other account can read or write, made if there is none."""
    for folder in _own_folders():
        return folder
    memory = _memory()
    if memory is None:
        raise CannotStart("This machine has no folder in memory (/dev/shm) to hand secrets to a container by.")
    path = f"{memory}/{_folder_name()}"
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not _is_own(path):  # another account has taken the name: use one that it cannot know
            path = f"{path}.{os.urandom(16).hex()}"
            os.mkdir(path, 0o700)
    return path


def _own_folders() -> List[str]:
    """Folders that `_own_folder` has made, with this account as owner."""
    memory = _memory()
    names = [name for name in os.listdir(memory) if name.partition(".")[0] == _folder_name()] if memory else []
    return [path for path in (f"{memory}/{name}" for name in sorted(names)) if _is_own(path)]


def _is_own(path: str) -> bool:
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and stat.S_IMODE(seen.st_mode) == 0o700


def _folder_name() -> str:
    return f"windlass-{os.getuid()}"


def _memory() -> Optional[str]:
    places = ("/dev/shm", os.environ.get("XDG_RUNTIME_DIR"))
    return next((folder for folder in places if folder and os.path.isdir(folder)), None)
