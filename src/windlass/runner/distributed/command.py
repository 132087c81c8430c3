"""Command line of the launcher, which the supervisor executes in place of the script of a distributed run."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..shared_folder.placement import runner_of
from ..supervisor.launch import CannotStart, find_command
from ..system import gpus
from ..workdir.run_folder import RunFolder, read_json
from .mpi import NO_MPIRUN, find_mpirun

REPORT = "launcher.json"
_DEFAULT_GRACE = 30.0


def is_launched(run: Mapping[str, Any]) -> bool:
    """Whether the script of a run is started by the launcher, once for each of its processes."""
    return bool(run.get("distribution")) or len(_shares(run)) > 1


def launcher_command(
    run: Mapping[str, Any],
    folder: RunFolder,
    command: Sequence[str],
    env: Mapping[str, str],
    cgroup_files: List[List[str]],
) -> List[str]:
    """The launcher's argv on this machine; `cgroup_files` are the cgroup.procs files to join, for each node."""
    if (run.get("distribution") or {}).get("framework") == "mpi" and find_mpirun(env, find_command) is None:
        raise CannotStart(NO_MPIRUN.format("this machine"))
    return [sys.executable, "-I", "-S", *_arguments(run, folder, "claim", cgroup_files), *command]


def launcher_in_container(
    run: Mapping[str, Any], folder: RunFolder, command: Sequence[str], python: str, place: str
) -> List[str]:
    """The launcher's argv in a container, with the image's Python and mpirun; it reports to the folder `place`."""
    return [python, "-I", "-S", *_arguments(run, folder, place, []), *command]


def failed_rank(folder: RunFolder, place: str) -> str:
    """The launcher's message on the rank that failed first; "" if none has."""
    return str((read_json(folder.at(f"{place}/{REPORT}")) or {}).get("message") or "")[:1000]


def _arguments(run: Mapping[str, Any], folder: RunFolder, place: str, cgroup_files: List[List[str]]) -> List[str]:
    settings = {
        **(run.get("distribution") or {"framework": ""}),
        "nodes": _nodes(run, cgroup_files),
        "logs": folder.at("user_logs"),
        "reports": folder.at(place),
        "grace": float(run.get("grace") or _DEFAULT_GRACE),
    }
    return [runner_of(folder), "launch", json.dumps(settings, separators=(",", ":")), "--"]


def _nodes(run: Mapping[str, Any], cgroup_files: List[List[str]]) -> List[Dict[str, Any]]:
    shares = _shares(run) or [{}]
    return [
        {
            "name": str(share.get("node") or ""),
            "env": (gpus.on_node(run, number) if run.get("allocation") else None) or {},
            "join": cgroup_files[number] if number < len(cgroup_files) else [],
        }
        for number, share in enumerate(shares)
    ]


def _shares(run: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    allocation: Optional[Mapping[str, Any]] = run.get("allocation")
    return allocation["shares"] if allocation else ()
