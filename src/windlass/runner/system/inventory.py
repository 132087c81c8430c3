"""What this machine offers to runs."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Dict, List, Optional

from ..containers import docker_api
from ..supervisor.launch import find_command
from . import limits

_NVIDIA = "/proc/driver/nvidia/gpus"
_LENDER = "nvidia-container-runtime-hook"  # of NVIDIA's container toolkit: an engine calls it
_PROGRAMS = "/usr/bin:/usr/local/bin"  # where engines look, whatever the PATH of this account is
_ASK_SECONDS = 5.0


def look(root: str, socket: Optional[str]) -> Dict[str, Any]:
    """`root` is the machine's folder, `socket` the engine's if it is not the usual one."""
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
        "docker": docker_api.offer(socket),
    }


def _distribution() -> Optional[str]:
    """As it calls itself: "Debian GNU/Linux 12 (bookworm)"."""
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
    """Whether a container can have the GPUs of this machine: it has some, and what hands them out."""
    path = f"{os.environ.get('PATH', '')}:{_PROGRAMS}"
    return find_command(_LENDER, path) is not None and bool(_gpus())


def _gpus() -> List[str]:
    """Models, as NVIDIA's driver tells them at once; nvidia-smi, which takes a second, only where that does not."""
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
        told = subprocess.run(
            [program, "--query-gpu=name", "--format=csv,noheader"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=_ASK_SECONDS, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in told.decode("utf-8", "replace").splitlines() if line.strip()]
