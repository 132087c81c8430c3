"""Environment of a run: an interpreter of the machine, or an environment that is built once and shared by runs."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ..supervisor.launch import CannotStart, find_command
from ..workdir.machine_folder import Machine, check_digest
from ..workdir.run_folder import BUILD_LOG, RunFolder
from . import builder, pyenv
from .build_context import BuildContext
from .build_once import BuildHooks, BuildOnce, EnvironmentFailed, completed

__all__ = [
    "BuildHooks", "EnvironmentBuild", "EnvironmentFailed", "ReadyEnvironment", "existing_environment",
    "find_interpreter", "interpreter_of", "is_built", "is_prepared", "ready_environment", "spec_of",
]  # fmt: skip


class ReadyEnvironment(NamedTuple):
    """The interpreter of a run, and the environment that it belongs to."""

    python: str
    prefix: Optional[str] = None  # of a virtual or conda environment: its bin/ goes on the PATH
    variables: Mapping[str, str] = {}
    replaced: Mapping[str, str] = {}  # packages that differ from the request: see environments/era.py


def is_built(run: Mapping[str, Any]) -> bool:
    """Whether the run needs an environment with packages, as opposed to an interpreter of the machine."""
    return spec_of(run).get("interpreter") is None


def spec_of(run: Mapping[str, Any]) -> Dict[str, Any]:
    """The environment part of run.json."""
    return run.get("environment") or {"interpreter": "python3"}


def find_interpreter(name: str, source: str) -> str:
    """Find an interpreter of the machine by its path or its command on the PATH. CannotStart if there is none."""
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


def interpreter_of(run: Mapping[str, Any], source: str) -> str:
    """The interpreter of a run that needs no packages; a shim of pyenv is resolved."""
    spec = spec_of(run)
    variables = {**(spec.get("variables") or {}), **(run.get("env") or {})}
    script = next(iter(run["command"][1:]), "")
    folder = source if script.startswith("-") else os.path.join(source, os.path.dirname(script))
    return pyenv.program_of(find_interpreter(spec["interpreter"], source), folder, variables)


def existing_environment(python: str) -> ReadyEnvironment:
    """An interpreter of the machine, with the virtual or conda environment that it belongs to."""
    above = os.path.dirname(os.path.dirname(python))
    if os.path.isfile(f"{above}/pyvenv.cfg") or os.path.isdir(f"{above}/conda-meta"):
        return ReadyEnvironment(python, above, builder.variables_of(above))
    return ReadyEnvironment(python)


def digest_of(spec: Mapping[str, Any]) -> str:
    """The digest that the server sent, or else the one that `core/digests.py` would compute."""
    if spec.get("digest"):
        return check_digest(spec["digest"])
    parts = [
        spec.get("python_version"),
        *(list(spec.get(k) or ()) for k in ("pip", "pip_options", "conda", "channels")),
        *([["strict"]] if spec.get("strict") else []),
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def is_prepared(machine: Machine, run: Mapping[str, Any]) -> bool:
    """Whether the run could start without a build."""
    spec = spec_of(run)
    return spec.get("interpreter") is not None or completed(_path_of(machine, spec)) is not None


def ready_environment(machine: Machine, run: Mapping[str, Any], source: str) -> ReadyEnvironment:
    """The environment of a run whose script was started: if it was built, that is done. CannotStart if it is gone."""
    if not is_built(run):
        return existing_environment(interpreter_of(run, source))
    path = _path_of(machine, spec_of(run))
    known = completed(path)
    if known is None:
        raise CannotStart(f"The environment of this run is not on this machine any more: {path}")
    return _built_environment(path, known)


class EnvironmentBuild:
    """The built environment that one run needs."""

    def __init__(self, machine: Machine, run: Mapping[str, Any], folder: RunFolder, hooks: BuildHooks) -> None:
        self._spec = spec_of(run)
        self._once = BuildOnce(_path_of(machine, self._spec), folder.at(BUILD_LOG), hooks)
        self._context = BuildContext(machine, run.get("tools"), self._once)

    def ready(self) -> Optional[ReadyEnvironment]:
        """The environment, if it is built already."""
        known = self._once.completed()
        return self._ready(known) if known is not None else None

    def wait(self) -> ReadyEnvironment:
        """Build it, or wait for the process that builds it."""
        return self._ready(self._once.get_or_build(self._build))

    def _build(self) -> Dict[str, Any]:
        built = builder.build(self._once.path, self._spec, self._context)
        self._context.log_line("The environment is ready.")
        return {"python": built.version, "variables": built.variables, "replaced": built.replaced}

    def _ready(self, known: Mapping[str, Any]) -> ReadyEnvironment:
        return _built_environment(self._once.path, known)


def _built_environment(path: str, known: Mapping[str, Any]) -> ReadyEnvironment:
    variables = known.get("variables") or {"VIRTUAL_ENV": path}
    return ReadyEnvironment(f"{path}/bin/python", path, variables, known.get("replaced") or {})


def _path_of(machine: Machine, spec: Mapping[str, Any]) -> str:
    return f"{machine.environments}/{digest_of(spec)}"
