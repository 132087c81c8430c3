"""The command line of the launcher, which a supervisor executes in place of the script of a distributed run."""

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
    run: Mapping[str, Any], folder: RunFolder, words: Sequence[str], env: Mapping[str, str], parts: List[List[str]]
) -> List[str]:
    """The launcher of a run on this machine; `parts` are the files by which processes join the group of each node."""
    if (run.get("distribution") or {}).get("framework") == "mpi" and find_mpirun(env, find_command) is None:
        raise CannotStart(NO_MPIRUN.format("this machine"))
    return [sys.executable, "-I", "-S", *_words(run, folder, "claim", parts), *words]


def launcher_in_container(
    run: Mapping[str, Any], folder: RunFolder, words: Sequence[str], python: str, place: str
) -> List[str]:
    """The same in a container, whose Python and whose mpirun are the image's; it reports to that folder."""
    return [python, "-I", "-S", *_words(run, folder, place, []), *words]


def failed_rank(folder: RunFolder, place: str) -> str:
    """What the launcher says of the process that failed first; "" if none has."""
    return str((read_json(folder.at(f"{place}/{REPORT}")) or {}).get("message") or "")[:1000]


def _words(run: Mapping[str, Any], folder: RunFolder, place: str, parts: List[List[str]]) -> List[str]:
    settings = {
        **(run.get("distribution") or {"framework": ""}),
        "nodes": _nodes(run, parts),
        "logs": folder.at("user_logs"),
        "reports": folder.at(place),
        "grace": float(run.get("grace") or _DEFAULT_GRACE),
    }
    return [runner_of(folder), "launch", json.dumps(settings, separators=(",", ":")), "--"]


def _nodes(run: Mapping[str, Any], parts: List[List[str]]) -> List[Dict[str, Any]]:
    shares = _shares(run) or [{}]
    return [
        {
            "name": str(share.get("node") or ""),
            "env": (gpus.on_node(run, number) if run.get("allocation") else None) or {},
            "join": parts[number] if number < len(parts) else [],
        }
        for number, share in enumerate(shares)
    ]


def _shares(run: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    allocation: Optional[Mapping[str, Any]] = run.get("allocation")
    return allocation["shares"] if allocation else ()
