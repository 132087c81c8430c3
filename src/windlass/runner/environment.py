"""The interpreter that a script runs on: one that is there, or one built with its packages.

A built one lives in `environments/<digest>/`. Beside it: `<digest>.lock` (held by flock while somebody builds),
`<digest>.log` (what the building says), `<digest>.json` (written last: it is whole), `<digest>.failed` (how the last
building failed, for those who waited for it). However many runs ask, one builds, and all see its log.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from . import interpreters, tree
from .folder import BUILD_LOG, RunFolder, append, read_json, write_json
from .launch import CannotStart, find_command
from .machine import Machine, check_digest, remove

_SDK_NAME = re.compile(r"azureml($|[^a-z0-9])")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_IGNORED_CONDA = ("python", "pip")


class EnvironmentFailed(Exception):
    """The environment could not be built; the message is what the building said."""


class Ready(NamedTuple):
    python: str
    prefix: Optional[str] = None  # of a virtual environment


class Tools(NamedTuple):
    """What the supervisor lends: both raise when the run is to stop."""

    run: Callable[[List[str], Dict[str, str], str, Callable[[], None]], int]  # argv, variables, log, meanwhile
    pause: Callable[[float], None]


def is_built(run: Mapping[str, Any]) -> bool:
    """Whether packages must be installed for it, as opposed to an interpreter that is there."""
    return spec_of(run).get("interpreter") is None


def spec_of(run: Mapping[str, Any]) -> Dict[str, Any]:
    return run.get("environment") or {"interpreter": "python3"}


def find_interpreter(name: str, source: str) -> str:
    """An interpreter that is there: a path, or a command on the PATH."""
    if "/" not in name:
        found = find_command(name, os.environ.get("PATH"))
        if found is None:
            raise CannotStart(f"There is no interpreter {name} on the PATH of this machine.")
        return found
    path = os.path.join(source, name)
    if not os.path.isfile(path):
        raise CannotStart(f"There is no interpreter {name} on this machine.")
    if not os.access(path, os.X_OK):
        raise CannotStart(f"The interpreter {name} may not be executed (permission denied).")
    return path


def prefix_of(python: str) -> Optional[str]:
    """The virtual environment that an interpreter belongs to: its other programs are meant too."""
    prefix = os.path.dirname(os.path.dirname(python))
    return prefix if os.path.isfile(f"{prefix}/pyvenv.cfg") else None


def digest_of(spec: Dict[str, Any]) -> str:
    """As `core/digests.py` counts it, unless the sender said it."""
    if spec.get("digest"):
        return check_digest(spec["digest"])
    parts = [
        spec.get("python_version"),
        *(list(spec.get(k) or ()) for k in ("pip", "pip_options", "conda", "channels")),
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


class Building:
    """One run's wish for a built environment."""

    def __init__(self, machine: Machine, spec: Dict[str, Any], folder: RunFolder, tools: Tools) -> None:
        self._spec = spec
        self._digest = digest_of(spec)
        self._prefix = f"{machine.environments}/{self._digest}"
        self._log = f"{self._prefix}.log"
        self._own_log = folder.at(BUILD_LOG)
        self._tools = tools
        self._copied = 0

    def is_whole(self) -> bool:
        """Whether it can be used as it is: its interpreter may have been removed since."""
        return os.path.exists(f"{self._prefix}.json") and os.path.exists(f"{self._prefix}/bin/python")

    def ready(self) -> Ready:
        return Ready(f"{self._prefix}/bin/python", self._prefix)

    def wait(self) -> Ready:
        """Build it, or wait for whoever does."""
        since = time.monotonic()
        lock = os.open(f"{self._prefix}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _try_lock(lock):
                self._follow()
                self._tools.pause(0.1)
            if not self.is_whole():
                self._share_failure(since)
                self._build()
        finally:
            self._follow()
            os.close(lock)
        return self.ready()

    def _share_failure(self, since: float) -> None:
        failed = read_json(f"{self._prefix}.failed")
        if failed and failed.get("boot_id") == tree.boot_id() and failed.get("monotonic", 0) >= since:
            raise EnvironmentFailed(str(failed.get("message")))

    def _build(self) -> None:
        self._begin()
        try:
            version = self._install()
        except EnvironmentFailed as e:
            failed = {"message": str(e), "monotonic": time.monotonic(), "boot_id": tree.boot_id()}
            write_json(f"{self._prefix}.failed", failed)
            remove(self._prefix)
            raise
        write_json(f"{self._prefix}.json", {"python": version, "built_at": time.time()}, durable=True)
        self._say("The environment is ready.")

    def _begin(self) -> None:
        """Remove what a builder that was killed left, and what it may have left running."""
        remove(f"{self._prefix}.json")
        if os.path.lexists(self._prefix):
            tree.Tree(self._mark).end(0, _nothing)
            remove(self._prefix)
        fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.close(fd)
        self._copied = 0

    @property
    def _mark(self) -> str:
        return f"WINDLASS_BUILD={self._digest}"

    def _install(self) -> str:
        self._refuse_conda()
        uv = self._find_uv()
        wanted = self._spec.get("python_version")
        python = interpreters.nearest(wanted)
        if wanted and not interpreters.same_minor(wanted, python.version):
            self._say(f"Python {wanted} is not on this machine; the nearest one is {python.version}, and it is used.")
        self._say(f"Building an environment on Python {python.version} ({python.path}).")
        self._uv([uv, "venv", "--no-project", "--quiet", "--python", python.path, self._prefix])
        wishes = self._requirements()
        if wishes:
            path = f"{self._prefix}/requirements.txt"
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(wishes) + "\n")
            self._uv([uv, "pip", "install", "--python", f"{self._prefix}/bin/python", *self._flags(), "-r", path])
        return python.version

    def _refuse_conda(self) -> None:
        names = [re.split(r"[\s=<>!~]", text.strip())[0] for text in self._spec.get("conda") or ()]
        others = [name for name in names if name not in _IGNORED_CONDA]
        if others:
            raise self._refusal(
                f"This environment asks for conda packages ({', '.join(others)}), which cannot be installed on this "
                "target. Name them as pip packages, or use an interpreter that has them."
            )

    def _find_uv(self) -> str:
        uv = self._spec.get("uv") or find_command("uv", os.environ.get("PATH"))
        if not uv or not os.access(uv, os.X_OK):
            raise self._refusal("Building an environment needs uv, and it is not on this machine: pip install uv")
        return str(uv)

    def _refusal(self, message: str) -> EnvironmentFailed:
        self._say(message)
        return EnvironmentFailed(message)

    def _requirements(self) -> List[str]:
        """The lines of a requirements file: options first, then packages, without those that we provide ourselves."""
        lines = [option for option in self._spec.get("pip_options") or () if option.strip() != "--pre"]
        for wish in self._spec.get("pip") or ():
            name = _NAME.match(wish)
            if name and _SDK_NAME.match(name.group(1).lower()):
                self._say(f"{wish} is not installed: windlass provides it.")
            else:
                lines.append(wish)
        return lines

    def _flags(self) -> List[str]:
        is_pre = any(option.strip() == "--pre" for option in self._spec.get("pip_options") or ())
        return ["--prerelease", "allow"] if is_pre else []

    def _uv(self, argv: List[str]) -> None:
        env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        name, _, value = self._mark.partition("=")
        env.update({name: value, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"})
        code = self._tools.run(argv, env, self._log, self._follow)
        if code != 0:
            raise EnvironmentFailed(self._last_words() or f"uv ended with code {code}")

    def _last_words(self) -> str:
        with open(self._log, "rb") as file:
            lines = file.read().decode("utf-8", "replace").splitlines()
        return "\n".join(line.strip() for line in lines[-12:])[-2000:]

    def _say(self, text: str) -> None:
        append(self._log, text.encode("utf-8") + b"\n")

    def _follow(self) -> None:
        """Hand on to this run's own log what the building has said since."""
        try:
            with open(self._log, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._copied:
                    self._copied = 0  # another builder has begun anew
                file.seek(self._copied)
                data = file.read()
        except FileNotFoundError:
            return
        if data:
            self._copied += len(data)
            append(self._own_log, data)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _nothing() -> None:
    return None
