"""The secrets that a run was granted: never in a file that has a name, but in one in memory, which its script inherits.

The host makes it before it forks a supervisor, and fills it when the job is started: at once, or later if the job is
only held ready. So whoever takes up a job from its folder alone has no values, and must not begin.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any, Dict

from ..workdir.run_folder import Refused, write_all

VARIABLE = "WINDLASS_SECRETS_FD"
_ADD_SEALS = 1033  # of fcntl, which Python names from 3.9 on
_NO_MORE_CHANGES = 0x1 | 0x2 | 0x4 | 0x8  # no other seals, not shorter, not longer, no writing


class Granted:
    def __init__(self, run: str, folder: str) -> None:
        """`folder` is where a system without files in memory keeps it, without a name."""
        self.fd = _open(folder)
        self._run = run

    def fill(self, values: Dict[str, str]) -> None:
        """Once: nobody can change it afterwards, where the kernel can see to that."""
        content = json.dumps({"run": self._run, "secrets": values}, separators=(",", ":"))
        write_all(self.fd, content.encode("ascii"))
        try:
            fcntl.fcntl(self.fd, _ADD_SEALS, _NO_MORE_CHANGES)
        except OSError:
            pass  # a file that is only without a name

    @property
    def is_filled(self) -> bool:
        return os.fstat(self.fd).st_size > 0

    def content(self) -> bytes:
        """What the script reads: {"run": id, "secrets": {name: value}}."""
        return os.pread(self.fd, os.fstat(self.fd).st_size, 0)

    def hand_on(self) -> None:
        """In a process that is about to become the script: let it keep the file."""
        os.set_inheritable(self.fd, True)

    def close(self) -> None:
        os.close(self.fd)


def take_values(run: Dict[str, Any]) -> Dict[str, str]:
    """Take the values out of what was sent as run.json, which is about to be written; the names stay in it."""
    values = run.pop("granted", None) or {}
    names = run.get("secrets") or []
    is_right = isinstance(values, dict) and isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_right or not all(isinstance(value, str) for value in values.values()):
        raise Refused("invalid", "`secrets` lists names, and `granted` maps them to values.")
    if set(values) != (set() if run.get("hold") else set(names)):
        raise Refused("invalid", "A job is started with the values of all `secrets`, and held ready without them.")
    return values


def _open(folder: str) -> int:
    try:
        return os.memfd_create("windlass-secrets", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):  # not Linux, or forbidden there
        path = f"{folder}/{os.urandom(16).hex()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
        return fd
