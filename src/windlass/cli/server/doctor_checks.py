"""Checks of `windlass doctor`. Each is a function that takes the home and returns a finding: good, warning or bad."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from windlass._version import __version__
from windlass.cli.output import format
from windlass.client.http import embedded_server
from windlass.client.http.session import Session
from windlass.client.workspace import config_file
from windlass.core.errors import Denied, WindlassError
from windlass.core.file_systems import NETWORK_FILE_SYSTEMS

GOOD, WARNING, BAD = "good", "warning", "bad"
_MB = 1_000_000
_RESERVE = 256 << 20  # the default of the server's disk_reserve_bytes
_EARLIEST_TIME = 1_735_689_600  # 2025: before this program was written


class Finding(NamedTuple):
    check: str
    state: str
    message: str
    fix: str = ""


def python(home: str) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", GOOD, f"Python {version} at {sys.executable}")


def folder(home: str) -> Finding:
    """The home exists or can be made, is ours, closed to other users, writable, and on a local disk."""
    nearest = _nearest(home)
    if not os.path.isdir(nearest):
        return Finding("home", BAD, f"{nearest} is not a folder", f"mv {nearest} {nearest}.old")
    if not _can_write(nearest):
        return Finding("home", BAD, f"{nearest} cannot be written to", "export WINDLASS_HOME=/a/folder/of/yours")
    if _disk_kind(nearest) in NETWORK_FILE_SYSTEMS:
        text = f"{home} is on a network disk, where SQLite is not safe"
        return Finding("home", BAD, text, "export WINDLASS_HOME=/a/folder/on/this/machine")
    if nearest != home:
        return Finding("home", GOOD, f"{home} will be made at first use")
    about = os.stat(home)
    if about.st_uid != os.getuid():
        return Finding("home", BAD, f"{home} belongs to another user", f"sudo chown -R {os.getuid()} {home}")
    if stat.S_IMODE(about.st_mode) & 0o077:
        return Finding("home", BAD, f"{home} can be read by other users", f"chmod 700 {home}")
    return Finding("home", GOOD, home)


def _nearest(home: str) -> str:
    """The home, or the nearest folder above it that exists."""
    while not os.path.lexists(home) and os.path.dirname(home) != home:
        home = os.path.dirname(home)
    return home


def _can_write(where: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=where):
            return True
    except OSError:
        return False


def _disk_kind(where: str) -> str:
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return ""
    above = [(point, kind) for point, kind in mounts if os.path.commonpath([point, os.path.realpath(where)]) == point]
    return max(above, default=("", ""))[1]


def disk(home: str) -> Finding:
    usage = shutil.disk_usage(_nearest(home))
    share = usage.free / usage.total if usage.total else 1
    text = f"{format.size(usage.free)} free ({share:.0%})"
    if usage.free < _RESERVE:
        return Finding("disk", BAD, f"only {text}; no run is accepted", "windlass gc --yes")
    if share < 0.05 or usage.free < 1000 * _MB:
        return Finding("disk", WARNING, f"only {text}", "windlass gc")
    return Finding("disk", GOOD, text)


def settings(home: str) -> Finding:
    path = os.path.join(home, "settings.json")
    try:
        with open(path, "rb") as file:
            values = json.load(file)
    except FileNotFoundError:
        return Finding("settings", GOOD, "the defaults")
    except (OSError, ValueError) as e:
        return Finding("settings", BAD, f"{path} cannot be read: {e}", f"mv {path} {path}.old")
    if not isinstance(values, dict):
        return Finding("settings", BAD, f"{path} does not hold a JSON object", f"mv {path} {path}.old")
    return Finding("settings", GOOD, path)


def workspace(home: str) -> Finding:
    """The config.json of the current folder, if it has one."""
    try:
        path = config_file.find(os.getcwd())
        if path is None:
            return Finding("workspace", GOOD, "the default one")
        return Finding("workspace", GOOD, f"{config_file.read(path).workspace_name}, by {path}")
    except FileNotFoundError:
        return Finding("workspace", WARNING, "the current folder was deleted", "cd")
    except WindlassError as e:
        return Finding("workspace", BAD, e.message, e.hint)


def token(home: str) -> Finding:
    path = os.path.join(home, "token")
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return Finding("token", GOOD, "will be made at first use")
    if about.st_uid != os.getuid():
        return Finding("token", BAD, f"{path} belongs to another user", f"sudo chown {os.getuid()} {path}")
    if stat.S_IMODE(about.st_mode) & 0o077:
        return Finding("token", BAD, f"{path} can be read by other users", f"chmod 600 {path}")
    if not os.access(path, os.R_OK) or about.st_size == 0:
        return Finding("token", BAD, f"{path} is empty or cannot be read", f"rm -f {path}; windlass server restart")
    return Finding("token", GOOD, "only you can read it")


def server(home: str) -> Finding:
    return _named_server() if os.environ.get("WINDLASS_URL") else _private_server(home)


def _named_server() -> Finding:
    """Whether the named server answers and accepts the token. Any member may request what this requests."""
    url = os.environ["WINDLASS_URL"]
    try:
        session = embedded_server.session()
        session.retry_seconds = 0
        version = str(session.call("GET", "/health")["version"])
    except (WindlassError, ValueError, LookupError, TypeError) as e:
        return Finding("server", BAD, f"{url}: {getattr(e, 'message', e)}", "unset WINDLASS_URL")
    if not _is_known(session):
        problem = "does not accept the token in WINDLASS_TOKEN" if os.environ.get("WINDLASS_TOKEN") else "needs a token"
        return Finding("server", BAD, f"{url} {problem}", "export WINDLASS_TOKEN=...  # from the workspace's owner")
    if version != __version__:
        text = f"version {version} at {url}, and this command is {__version__}"
        return Finding("server", WARNING, text, f"pip install 'windlass=={version}'")
    return Finding("server", GOOD, f"version {version} at {url}")


def _is_known(session: Session) -> bool:
    """Whether the server accepts the token: without a valid one this document is denied."""
    try:
        session.call("GET", "/openapi.json")
    except Denied:
        return False
    return True


def _private_server(home: str) -> Finding:
    said = embedded_server.read(home)
    if said is None:
        if os.path.lexists(os.path.join(home, "server.json")):
            path = os.path.join(home, "server.json")
            return Finding("server", BAD, f"{path} cannot be read", f"rm -f {path}")
        return Finding("server", GOOD, "not running; it starts when it is needed")
    health = embedded_server.health(said)
    if health is None:
        text = f"{said.url} (process {said.pid}) does not answer; it was probably killed"
        return Finding("server", WARNING, text, "windlass server start")
    version = str(health.get("version"))
    if version != __version__:
        text = f"version {version} at {said.url}, and this command is {__version__}"
        fix = "windlass server restart" if embedded_server.is_older(version) else f"pip install 'windlass=={version}'"
        return Finding("server", WARNING, text, fix)
    return Finding("server", GOOD, f"version {version} at {said.url}")


def lock(home: str) -> Finding:
    """The start-up lock ends with its process. If it is held for two minutes, that process hangs."""
    path = os.path.join(home, "start.lock")
    if os.path.exists(path) and _is_locked(path) and time.time() - os.stat(path).st_mtime > 120:
        return Finding("lock", WARNING, f"{path} is held: a server is starting, or hangs", f"fuser -v {path}")
    return Finding("lock", GOOD, "no start-up hangs")


def _is_locked(path: str) -> bool:
    import fcntl

    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
    return False


def uv(home: str) -> Finding:
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    found = beside if os.access(beside, os.X_OK) else shutil.which("uv")
    if found:
        return Finding("uv", GOOD, found)
    text = "not found: environments with packages (--pip, --env-file) cannot be built"
    return Finding("uv", WARNING, text, "pip install 'windlass[environments]'")


def git(home: str) -> Finding:
    found = shutil.which("git")
    if found:
        return Finding("git", GOOD, found)
    return Finding("git", WARNING, "not found: runs do not record the commit", "install git")


def ssh(home: str) -> Finding:
    found = shutil.which("ssh")
    if found:
        return Finding("ssh", GOOD, found)
    text = "not found: machines cannot be attached by SSH"
    return Finding("ssh", WARNING, text, "sudo apt-get install openssh-client")


def docker(home: str) -> Finding:
    from windlass.cli.server import docker_engine

    engine = docker_engine.probe(os.environ)
    if engine.version:
        return Finding("docker", GOOD, f"an engine answers, version {engine.version}")
    return Finding("docker", WARNING, f"{engine.problem}: runs cannot live in containers", engine.fix)


def inotify(home: str) -> Finding:
    """The runner watches logs by inotify; if its limits are too low, logs are polled and arrive late."""
    for name, least in (("max_user_instances", 64), ("max_user_watches", 8192)):
        try:
            with open(f"/proc/sys/fs/inotify/{name}", encoding="ascii") as file:
                value = int(file.read())
        except (OSError, ValueError):
            return Finding("inotify", GOOD, "not known on this system")
        if value < least:
            fix = f"sudo sysctl fs.inotify.{name}={least * 8}"
            return Finding("inotify", WARNING, f"{name} is only {value}: logs may come late", fix)
    return Finding("inotify", GOOD, "enough room to watch logs")


def open_files(home: str) -> Finding:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 < soft < 1024:
        return Finding("open files", WARNING, f"only {soft} at once", "ulimit -n 4096")
    return Finding("open files", GOOD, f"{soft} at once" if soft > 0 else "no limit")


def clock(home: str) -> Finding:
    """The clock is wrong if it shows a time before 2025, or one before the home's newest file."""
    now = time.time()
    newest = max((os.stat(path).st_mtime for path in _own_files(home)), default=now)
    if now < _EARLIEST_TIME or newest > now + 60:
        return Finding(
            "clock", BAD, f"it says {time.strftime('%Y-%m-%d %H:%M')}, which is past", "sudo timedatectl set-ntp true"
        )
    return Finding("clock", GOOD, time.strftime("%Y-%m-%d %H:%M %Z"))


def _own_files(home: str) -> Iterator[str]:
    for name in ("server.json", "token", "server.log", "port"):
        path = os.path.join(home, name)
        if os.path.exists(path):
            yield path


ALL: tuple[Callable[[str], Finding], ...] = (
    python, folder, disk, settings, workspace, token, server, lock, uv, git, ssh, docker, inotify, open_files, clock,
)  # fmt: skip


def examine(home: str) -> list[Finding]:
    """Run all checks. A check that fails with an OSError is a warning."""
    return [_one(check, home) for check in ALL]


def _one(check: Callable[[str], Finding], home: str) -> Finding:
    try:
        return check(home)
    except OSError as e:
        return Finding(check.__name__, WARNING, f"could not be looked at: {e}")


def to_json(findings: list[Finding]) -> list[dict[str, Any]]:
    return [finding._asdict() for finding in findings]
