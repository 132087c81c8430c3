"""How many cores of a family of VM sizes a workspace may have. A cluster takes those of all the nodes that it may have.

A workspace has no quotas unless an administrator sets some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from windlass.core import vm_sizes
from windlass.core.entities import Target
from windlass.core.errors import Conflict
from windlass.store.catalog.attachments import Check


def cores_in_use(targets: Iterable[Target]) -> dict[str, int]:
    """The cores of clusters by family."""
    used: dict[str, int] = {}
    for target in targets:
        family, cores = _demand(target.config)
        if cores:
            used[family] = used.get(family, 0) + cores
    return used


def cluster_check(name: str, config: Mapping[str, Any]) -> Check | None:
    """Refuses the configuration of a cluster that is created or updated if the quota of its family does not allow it.
    None for targets that are no clusters.
    """
    family, cores = _demand(config)
    return partial(_refuse_beyond, name, family, cores) if cores else None


def _refuse_beyond(
    name: str, family: str, cores_wanted: int, targets: Sequence[Target], limits: Mapping[str, int]
) -> None:
    limit = limits.get(family)
    if limit is None:
        return
    used = cores_in_use(each for each in targets if each.name != name).get(family, 0)
    if used + cores_wanted > limit:
        raise Conflict(
            f"The quota of {family} is {limit} cores: {used} are in use by other clusters, {cores_wanted} are needed, "
            f"and {max(0, limit - used)} are left.",
            f"Take fewer or smaller nodes, or let an administrator raise it: "
            f'windlass quota set "{family}" {used + cores_wanted}',
            {"family": family, "limit": limit, "used": used, "wanted": cores_wanted},
        )


def _demand(config: Mapping[str, Any]) -> tuple[str, int]:
    """The family and the cores of all nodes that a target may have; no cores of one that is no cluster."""
    size = vm_sizes.find(str(config.get("vm_size") or ""))
    nodes = config.get("max_nodes")
    return (size.family, size.cores * nodes) if size is not None and isinstance(nodes, int) else ("", 0)
