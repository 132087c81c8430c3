"""What a machine lacks, and what is doubtful about it, each with the command that fixes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LITTLE_DISK_MB = 2000
_START = "sudo systemctl start docker"


def problems(inventory: Mapping[str, Any], root: str) -> list[dict[str, str]]:
    names = ("level", "about", "message", "fix")
    return [dict(zip(names, problem, strict=True)) for problem in _all(inventory, root)]


def _all(inventory: Mapping[str, Any], root: str) -> Iterator[tuple[str, str, str, str]]:
    """Whether it is missing or a warning, what it is about, what is wrong, and what to type."""
    free = inventory.get("disk_free_mb")
    if isinstance(free, (int, float)) and free < LITTLE_DISK_MB:
        yield (
            "warning",
            "disk",
            f"Only {free:g} MB are free in {root}.",
            f"df -h {root}   # make room there, or name another folder: --root",
        )
    docker = inventory.get("docker")
    if not isinstance(docker, Mapping):
        return
    if docker.get("missing"):
        # The engine's own words end in the line to type, after the last colon.
        what, colon, fix = str(docker["missing"]).partition(": ")
        message, line = (f"{what}.", fix.partition(" (")[0]) if colon else (what, _START)
        yield "missing", "docker", message, line
    if docker.get("warning"):
        yield "warning", "docker", str(docker["warning"]), "sudo apt-get install --only-upgrade runc"
