"""What a submit asks of its target, and how its processes are started: from options to the words of a RunSpec."""

from __future__ import annotations

from typing import Any

from windlass.cli.submit.options import FRAMEWORKS
from windlass.core.errors import InvalidRequest

_KEYS = {"nodes": "nodes", "cpus": "cpus", "memory": "memory_mb", "gpus": "gpus"}


def resources(values: dict[str, Any]) -> dict[str, Any]:
    """As far as the command line says it."""
    return {key: values[option] for option, key in _KEYS.items() if values[option] is not None}


def distribution(values: dict[str, Any], nodes: int | None) -> dict[str, Any] | None:
    framework, each = values["distribution"], values["processes_per_node"]
    if framework is None and each is not None:
        raise InvalidRequest(
            "--processes-per-node says how many processes --distribution starts, which is not given.",
            f"Add --distribution {'|'.join(FRAMEWORKS)}.",
        )
    if framework is None:
        return None
    count = (nodes or 1) * (each or 1)
    more: dict[str, dict[str, Any]] = {
        "pytorch": {"process_count": count, "backend": "nccl"},
        "tensorflow": {"workers": count},
    }
    return {"framework": framework, "processes_per_node": each or 1, **more.get(framework, {})}


def definition_of(found: dict[str, Any] | None) -> dict[str, Any]:
    """The same in the words of Azure's run definition."""
    if found is None:
        return {"framework": "Python", "communicator": "None"}
    if found["framework"] == "mpi":
        section = {"processCountPerNode": found["processes_per_node"]}
        return {"framework": "Python", "communicator": "IntelMpi", "mpi": section}
    if found["framework"] == "pytorch":
        section = {"communicationBackend": found["backend"], "processCount": found["process_count"]}
        return {"framework": "PyTorch", "communicator": found["backend"], "pytorch": section}
    section = {"workerCount": found["workers"], "parameterServerCount": 0}
    return {"framework": "TensorFlow", "communicator": "ParameterServer", "tensorflow": section}
