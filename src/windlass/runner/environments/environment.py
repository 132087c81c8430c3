"""The interpreter that a script runs on: one that is there, or one built with its packages, once for all who ask."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ..supervisor.launch import CannotStart, find_command
from ..workdir.machine_folder import Machine, check_digest
from ..workdir.run_folder import BUILD_LOG, RunFolder
from . import builder
from .build_context import Workshop
from .build_once import EnvironmentFailed, Once, Tools, whole

__all__ = [
    "Building", "EnvironmentFailed", "Ready", "Tools", "find_interpreter", "is_built", "is_prepared", "ready_as_it_is",
    "spec_of",
]  # fmt: skip


class Ready(NamedTuple):
    python: str
    prefix: Optional[str] = None  # of a virtual or conda environment: its other programs are meant too
    variables: Mapping[str, str] = {}
    replaced: Mapping[str, str] = {}  # what it has in place of what was asked for: see environments/era.py


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
    path = os.path.join(source, os.path.expanduser(name))
    if not os.path.isfile(path):
        raise CannotStart(f"There is no interpreter {name} on this machine.")
    if not os.access(path, os.X_OK):
        raise CannotStart(f"The interpreter {name} may not be executed (permission denied).")
    return path


def ready_as_it_is(python: str) -> Ready:
    """An interpreter that is there, with the environment that it belongs to."""
    above = os.path.dirname(os.path.dirname(python))
    if os.path.isfile(f"{above}/pyvenv.cfg") or os.path.isdir(f"{above}/conda-meta"):
        return Ready(python, above, builder.variables_of(above))
    return Ready(python)


def digest_of(spec: Mapping[str, Any]) -> str:
    """As `core/digests.py` counts it, unless the sender said it."""
    if spec.get("digest"):
        return check_digest(spec["digest"])
    parts = [
        spec.get("python_version"),
        *(list(spec.get(k) or ()) for k in ("pip", "pip_options", "conda", "channels")),
        *([["strict"]] if spec.get("strict") else []),
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def is_prepared(machine: Machine, run: Mapping[str, Any]) -> bool:
    """Whether it would begin without building anything."""
    spec = spec_of(run)
    return spec.get("interpreter") is not None or whole(_place(machine, spec)) is not None


class Building:
    """One run's wish for a built environment."""

    def __init__(self, machine: Machine, run: Mapping[str, Any], folder: RunFolder, tools: Tools) -> None:
        self._spec = spec_of(run)
        self._once = Once(_place(machine, self._spec), folder.at(BUILD_LOG), tools)
        self._shop = Workshop(machine, run.get("tools"), self._once)

    def ready(self) -> Optional[Ready]:
        """If it can be used as it is."""
        known = self._once.whole()
        return self._ready(known) if known is not None else None

    def wait(self) -> Ready:
        """Build it, or wait for whoever does."""
        return self._ready(self._once.get(self._build))

    def _build(self) -> Dict[str, Any]:
        built = builder.build(self._once.path, self._spec, self._shop)
        self._shop.say("The environment is ready.")
        return {"python": built.version, "variables": built.variables, "replaced": built.replaced}

    def _ready(self, known: Mapping[str, Any]) -> Ready:
        where = self._once.path
        variables = known.get("variables") or {"VIRTUAL_ENV": where}
        return Ready(f"{where}/bin/python", where, variables, known.get("replaced") or {})


def _place(machine: Machine, spec: Mapping[str, Any]) -> str:
    return f"{machine.environments}/{digest_of(spec)}"
