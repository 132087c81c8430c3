"""Inventory of the machine: system, processors, memory, disk, GPUs, limits, Docker engine."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Dict, List, Optional

from ..containers import docker_api
from ..supervisor.launch import find_command
from . import limits

_NVIDIA = "/proc/driver/nvidia/gpus"
_GPU_HOOK = "nvidia-container-runtime-hook"  # of NVIDIA's container toolkit: engines call it
_PROGRAMS = "/usr/bin:/usr/local/bin"  # where engines look, whatever the PATH of this account is
_ASK_SECONDS = 5.0


def collect(root: str, socket: Optional[str]) -> Dict[str, Any]:
    """The inventory. `root` is the machine's folder, `socket` that of the Docker engine if it is not the usual one."""
    disk = os.statvfs(root)
    gpus = _gpus()
    return {
        "os": _distribution() or os.uname().sysname,
        "machine": os.uname().machine,
        "cores": _cores(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "disk_free_mb": disk.f_bavail * disk.f_frsize >> 20,
        "gpus": len(gpus),
        "gpu_names": gpus,
        "limits": limits.available(),
        "docker": docker_api.describe_engine(socket),
    }


def _distribution() -> Optional[str]:
    """The name of the distribution, such as "Debian GNU/Linux 12 (bookworm)"."""
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as file:
            names = [line.partition("=")[2].strip().strip("\"'") for line in file if line.startswith("PRETTY_NAME=")]
    except OSError:
        return None
    return names[0] if names else None


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def lends_gpus() -> bool:
    """Whether containers can use GPUs of this machine: it has some, and NVIDIA's container toolkit."""
    path = f"{os.environ.get('PATH', '')}:{_PROGRAMS}"
    return find_command(_GPU_HOOK, path) is not None and bool(_gpus())


def _gpus() -> List[str]:
    """Models of the GPUs, from the driver's files in /proc; else from nvidia-smi, which takes a second."""
    if not os.path.isdir(_NVIDIA):
        return _ask_for_gpus()
    found = []
    for name in sorted(os.listdir(_NVIDIA)):
        with open(f"{_NVIDIA}/{name}/information", encoding="utf-8", errors="replace") as file:
            models = [line.partition(":")[2].strip() for line in file if line.startswith("Model:")]
        found.append(models[0] if models else "NVIDIA")
    return found


@lru_cache(maxsize=None)
def _ask_for_gpus() -> List[str]:
    program = find_command("nvidia-smi", os.environ.get("PATH"))
    if program is None:
        return []
    import subprocess

    try:
        output = subprocess.run(
            [program, "--query-gpu=name", "--format=csv,noheader"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=_ASK_SECONDS, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
