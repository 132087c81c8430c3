"""The secrets of a run: in an in-memory file (memfd) without a name, whose descriptor the script inherits.

The host creates it before it forks a supervisor, and fills it when the job is started: at once, or later if the job is
pre-staged. So a supervisor that resumes a job from its folder alone has no values, and must not start the script.
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


class SecretsFile:
    def __init__(self, run: str, folder: str) -> None:
        """`folder` is where a system without memfd keeps the file, unlinked."""
        self.fd = _open(folder)
        self._run = run

    def fill(self, values: Dict[str, str]) -> None:
        """Write the values, once, and seal the file against changes where the kernel can."""
        content = json.dumps({"run": self._run, "secrets": values}, separators=(",", ":"))
        write_all(self.fd, content.encode("ascii"))
        try:
            fcntl.fcntl(self.fd, _ADD_SEALS, _NO_MORE_CHANGES)
        except OSError:
            pass  # not a memfd

    @property
    def is_filled(self) -> bool:
        return os.fstat(self.fd).st_size > 0

    def content(self) -> bytes:
        """The content for the script: {"run": id, "secrets": {name: value}}."""
        return os.pread(self.fd, os.fstat(self.fd).st_size, 0)

    def make_inheritable(self) -> None:
        """Keep the descriptor open over exec. Called in the child that becomes the script."""
        os.set_inheritable(self.fd, True)

    def close(self) -> None:
        os.close(self.fd)


def take_values(run: Dict[str, Any]) -> Dict[str, str]:
    """Remove the values from a run.json that is about to be written, and return them; the names stay in it."""
    values = run.pop("granted", None) or {}
    names = run.get("secrets") or []
    is_right = isinstance(values, dict) and isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_right or not all(isinstance(value, str) for value in values.values()):
        raise Refused("invalid", "`secrets` lists names, and `granted` maps them to values.")
    if set(values) != (set() if run.get("hold") else set(names)):
        raise Refused("invalid", "A start has the values of all `secrets`; with `hold` it has none.")
    return values


def _open(folder: str) -> int:
    try:
        return os.memfd_create("windlass-secrets", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):  # not Linux, or forbidden there
        path = f"{folder}/{os.urandom(16).hex()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
        return fd
