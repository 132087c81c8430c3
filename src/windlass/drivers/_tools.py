"""Programs that build environments, as far as this computer has them: for itself, and for machines that lack them."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO


@dataclass(frozen=True, slots=True)
class Program:
    """One file that runs by itself, on machines of the same kind."""

    path: Path
    digest: str
    size: int

    def open(self) -> BinaryIO:
        return self.path.open("rb")

    def told(self) -> dict[str, Any]:
        """What run.json says of it; a machine that needs it asks for the bytes."""
        system = os.uname()
        return {"digest": self.digest, "size": self.size, "platform": f"{system.sysname} {system.machine}"}


@functools.cache
def beside_us() -> Mapping[str, str]:
    """`pip install windlass[environments]` puts uv beside our Python, where no PATH need lead, and rattler into it."""
    uv = Path(sysconfig.get_path("scripts"), "uv")
    found = {"uv": str(uv)} if uv.exists() else {}
    return found | ({"rattler": sys.executable} if importlib.util.find_spec("rattler") else {})


@functools.cache
def to_send() -> Mapping[str, Program]:
    """What another machine may get from us."""
    uv = beside_us().get("uv")
    if uv is None:
        return {}
    path = Path(uv)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"uv": Program(path, digest, path.stat().st_size)}
