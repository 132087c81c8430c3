"""Probe of this machine's Docker engine over its socket; the program `docker` is not needed."""

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
    """The version of an engine that answers; else the problem and the command that fixes it."""

    version: str = ""
    problem: str = ""
    fix: str = ""


def probe(env: Mapping[str, str]) -> Engine:
    """Ask the engine that the runner would use: that of DOCKER_HOST, else the machine's, else a rootless one."""
    named = env.get("DOCKER_HOST", "")
    if named and not named.startswith("unix:///"):
        return Engine(problem="DOCKER_HOST names no Unix socket", fix="unset DOCKER_HOST")
    folder = env.get("XDG_RUNTIME_DIR")
    own = [os.path.join(folder, name) for name in _ROOTLESS] if folder else []
    path = named[len("unix://") :] or next((path for path in (_USUAL, *own) if os.path.exists(path)), _USUAL)
    try:
        return Engine(_version(path))
    except PermissionError:
        return Engine(problem="this account may not use it", fix="sudo usermod -aG docker $USER; newgrp docker")
    except (FileNotFoundError, ConnectionRefusedError):
        if any(shutil.which(program, path=env.get("PATH")) for program in _PROGRAMS):
            return Engine(problem="does not run", fix="sudo systemctl start docker")
        return Engine(problem="not found", fix="sudo apt-get install docker.io")
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return Engine(problem="does not answer as it should", fix="sudo systemctl restart docker")


def _version(path: str) -> str:
    line = _UnixSocketConnection(path)
    try:
        line.request("GET", "/version")
        return str(json.loads(line.getresponse().read())["Version"])
    finally:
        line.close()


class _UnixSocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)
