"""Limits of a run on its machine: processor time and memory, as its allocation says (docs/dev/clusters.md).

Control groups limit a run as a whole: its processors by a quota (hard) or a weight (soft), its memory by a limit.
Where there are none, a hard limit of processors is an affinity to whole cores, and memory is limited per process
(RLIMIT_AS). The limits are set on the forked process that waits to exec the script.
"""

from __future__ import annotations

import resource
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..workdir.machine_folder import Machine
from . import affinity
from .cgroup import Group, Groups
from .process_tree import Process

_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1_000
_MB = 1 << 20
_SHARES = 1024  # of one core: on v1, and in Docker's API
_WEIGHT = 100  # of one core, on v2
_LARGEST_SHARES, _LARGEST_WEIGHT = 262_144, 10_000
NOTHING = "nothing"
_SWAP = {"v1": "memory.memsw.limit_in_bytes", "v2": "memory.swap.max"}


class Limits(NamedTuple):
    cores: float = 0.0  # 0: as many as there are
    memory_mb: int = 0  # 0: as much as there is
    is_hard: bool = False
    has_gpus: bool = False

    @property
    def is_urgent(self) -> bool:
        """Whether the limits must be set before the script begins. A weight matters only to long runs."""
        return bool(self.memory_mb or (self.is_hard and self.cores))


def limits_of(run: Mapping[str, Any]) -> Optional[Limits]:
    """The sum of the run's shares; None if it has no allocation."""
    allocation = run.get("allocation")
    if not allocation:
        return None
    shares = [share_limits(allocation, share) for share in allocation["shares"]]
    has_memory = all(share.memory_mb for share in shares)
    return Limits(
        cores=sum(share.cores for share in shares),
        memory_mb=sum(share.memory_mb for share in shares) if has_memory else 0,
        is_hard=bool(allocation.get("is_hard")),
        has_gpus=any(share.has_gpus for share in shares),
    )


def share_limits(allocation: Mapping[str, Any], share: Mapping[str, Any]) -> Limits:
    return Limits(
        float(share.get("cores") or 0.0),
        int(share.get("memory_mb") or 0),
        bool(allocation.get("is_hard")),
        bool(share.get("gpus")),
    )


def available() -> Dict[str, str]:
    """The mechanisms that can limit runs on this machine."""
    groups = Groups.find()
    versions = groups.limits() if groups is not None else {}
    without = affinity.NAME if affinity.IS_AVAILABLE else NOTHING
    cpu = f"cgroup {versions['cpu']} quota" if "cpu" in versions else without
    memory = f"cgroup {versions['memory']} limit" if "memory" in versions else "RLIMIT_AS"
    return {"cpu": cpu, "memory": memory}


def enforce(limits: Limits, process: Process, group: Optional[Group], machine: Machine) -> Dict[str, str]:
    """Limit a process and all that it will start. Returns what is enforced, and by what."""
    found = {"cpu": _limit_cpu(limits, process, group, machine), "memory": _limit_memory(limits, process, group)}
    is_grouped = any(word.startswith("cgroup") for word in found.values())
    if group is not None and is_grouped and limits.is_urgent:
        try:
            group.join(process.pid)
        except OSError as e:
            return {name: f"{NOTHING}: {e}" for name in found}
    return found


def split(group: Optional[Group], allocation: Mapping[str, Any], launcher: int) -> List[List[str]]:
    """Limit each node of a run. Returns the files by which a process joins each node; none where there are no control
    groups."""
    shares: Sequence[Mapping[str, Any]] = allocation["shares"]
    if group is None or not group.controllers or len(shares) < 2:
        return [[] for _ in shares]
    try:
        group.split(launcher)
        for number, share in enumerate(shares):
            limits = share_limits(allocation, share)
            for controller in group.controllers:
                values = _cpu_values(limits, group) if controller == "cpu" else _memory_values(limits, group)
                group.write_limit(controller, values, node_part(number))
    except OSError:
        return [[] for _ in shares]  # then the sum of the shares limits them
    return [group.parts(node_part(number)) for number in range(len(shares))]


def node_part(number: int) -> str:
    return f"node-{number}"


def for_container(limits: Optional[Limits]) -> Dict[str, int]:
    """The limits as HostConfig of the Docker Engine's API."""
    if limits is None:
        return {}
    memory = limits.memory_mb * _MB
    return {
        **({"NanoCpus": round(limits.cores * 1e9)} if limits.cores and limits.is_hard else {}),
        **({"CpuShares": _shares(limits)} if limits.cores and not limits.is_hard else {}),
        **({"Memory": memory, "MemorySwap": memory} if memory else {}),
    }


def _limit_cpu(limits: Limits, process: Process, group: Optional[Group], machine: Machine) -> str:
    if not limits.cores:
        return NOTHING
    if group is not None and "cpu" in group.controllers:
        try:
            group.write_limit("cpu", _cpu_values(limits, group))
            return f"cgroup {group.version('cpu')} {'quota' if limits.is_hard else 'weight'}"
        except OSError:
            pass  # a group above it may have less
    return affinity.restrict(process, limits.cores, machine.root) if limits.is_hard else NOTHING


def _limit_memory(limits: Limits, process: Process, group: Optional[Group]) -> str:
    if not limits.memory_mb:
        return NOTHING
    if group is not None and "memory" in group.controllers:
        try:
            whole = (
                {"memory.oom.group": "1"} if group.version("memory") == "v2" else {}
            )  # kill the whole run, not a part
            group.write_limit("memory", {**_memory_values(limits, group), **whole})
            return f"cgroup {group.version('memory')} limit"
        except OSError:
            pass
    if limits.has_gpus or not hasattr(resource, "prlimit"):
        return NOTHING  # GPU programs map far more addresses than they use memory
    size = limits.memory_mb * _MB
    resource.prlimit(process.pid, resource.RLIMIT_AS, (size, size))
    return "RLIMIT_AS"


def _cpu_values(limits: Limits, group: Group) -> Dict[str, str]:
    quota = max(_LEAST_QUOTA_US, round(limits.cores * _PERIOD_US)) if limits.is_hard else None
    if group.version("cpu") == "v2":
        weight = min(_LARGEST_WEIGHT, max(1, round(limits.cores * _WEIGHT)))
        return {"cpu.weight": str(weight), "cpu.max": f"{quota or 'max'} {_PERIOD_US}"}
    hard = {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota)} if quota else {}
    return {"cpu.shares": str(_shares(limits)), **hard}


def _memory_values(limits: Limits, group: Group) -> Dict[str, str]:
    if not limits.memory_mb:
        return {}
    size, version = str(limits.memory_mb * _MB), group.version("memory")
    name, swap = ("memory.max", "0") if version == "v2" else ("memory.limit_in_bytes", size)  # v1 counts both together
    return {name: size, **({_SWAP[version]: swap} if group.has_limit("memory", _SWAP[version]) else {})}


def _shares(limits: Limits) -> int:
    return min(_LARGEST_SHARES, max(2, round(limits.cores * _SHARES)))
