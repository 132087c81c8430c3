"""The Docker engine of this machine, asked by its socket: the command line need not be there for that."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
from collections.abc import Mapping
from typing import NamedTuple

_USUAL = "/var/run/docker.sock"
_ROOTLESS = ("docker.sock", "podman/podman.sock")
_PROGRAMS = ("dockerd", "docker")
_SECONDS = 2.0


class Engine(NamedTuple):
    """Its version; or what is in the way, and the line that fixes it."""

    version: str = ""
    lack: str = ""
    fix: str = ""


def ask(env: Mapping[str, str]) -> Engine:
    """As the runner finds it: the one that DOCKER_HOST names, else the machine's own, else the account's."""
    named = env.get("DOCKER_HOST", "")
    if named and not named.startswith("unix:///"):
        return Engine(lack="DOCKER_HOST names no Unix socket", fix="unset DOCKER_HOST")
    folder = env.get("XDG_RUNTIME_DIR")
    own = [os.path.join(folder, name) for name in _ROOTLESS] if folder else []
    path = named[len("unix://") :] or next((path for path in (_USUAL, *own) if os.path.exists(path)), _USUAL)
    try:
        return Engine(_version(path))
    except PermissionError:
        return Engine(lack="this account may not use it", fix="sudo usermod -aG docker $USER; newgrp docker")
    except (FileNotFoundError, ConnectionRefusedError):
        if any(shutil.which(program, path=env.get("PATH")) for program in _PROGRAMS):
            return Engine(lack="does not run", fix="sudo systemctl start docker")
        return Engine(lack="not found", fix="sudo apt-get install docker.io")
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return Engine(lack="does not answer as it should", fix="sudo systemctl restart docker")


def _version(path: str) -> str:
    line = _Line(path)
    try:
        line.request("GET", "/version")
        return str(json.loads(line.getresponse().read())["Version"])
    finally:
        line.close()


class _Line(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)
