"""TensorflowConfiguration: workers and parameter servers that find each other by TF_CONFIG."""

from __future__ import annotations

import json
from typing import List, Mapping, Sequence

from .ranks import HOST, Rank, Settings, TakePorts

_FIRST_PORT = 2222


def ranks(settings: Settings, take_ports: TakePorts) -> List[Rank]:
    """Workers first, then parameter servers; each kind goes round the nodes."""
    count = settings.workers + settings.parameter_servers
    addresses = [f"{HOST}:{port}" for port in take_ports(_FIRST_PORT, count)]
    cluster = {"worker": addresses[: settings.workers]}
    if settings.parameter_servers:
        cluster["ps"] = addresses[settings.workers :]
    tasks = [(kind, index) for kind, members in cluster.items() for index in range(len(members))]
    return [
        Rank(number, index % len(settings.nodes), {"TF_CONFIG": _config(cluster, kind, index)}, kind == "worker")
        for number, (kind, index) in enumerate(tasks)
    ]


def _config(cluster: Mapping[str, Sequence[str]], kind: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"})
