"""PyTorchConfiguration: ranks that find each other at MASTER_ADDR and MASTER_PORT."""

from __future__ import annotations

from typing import List

from .ranks import MASTER_PORT, Rank, Settings, TakePorts, master


def ranks(settings: Settings, take_ports: TakePorts) -> List[Rank]:
    """`process_count` is the total; by default one rank on each node. A remainder goes to the first nodes."""
    nodes = len(settings.nodes)
    size = settings.process_count or nodes * settings.processes_per_node
    counts = [size // nodes + (node < size % nodes) for node in range(nodes)]
    places = [(node, local) for node in range(nodes) for local in range(counts[node])]
    found = master(take_ports(MASTER_PORT, 1)[0])
    return [
        Rank(number, node, {
            **found, "WORLD_SIZE": str(size), "RANK": str(number), "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(counts[node]),
        })
        for number, (node, local) in enumerate(places)
    ]  # fmt: skip
