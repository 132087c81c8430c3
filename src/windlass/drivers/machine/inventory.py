"""Inventory of a machine: validation of what its host reports, and a list of problems with their fixes.

The report is stored, shown and used in decisions. Scripts run in the same account as the runner and may forge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_LONGEST = 1024  # bytes of a text
_LONGEST_NAME = 256
_MOST_NAMES = 64
_MOST = 100_000  # of what is counted
_MOST_MB = 1 << 40


def parse_inventory(reported: object) -> dict[str, Any]:
    """The known fields that have the right type and range. Together they have less than 32 KB."""
    return _parse(reported, _FIELDS)


def _parse(value: object, read: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    found = {name: read[name](value[name]) for name in read if name in value}
    return {name: value for name, value in found.items() if value is not None}


def _text(value: object, longest: int = _LONGEST) -> str | None:
    if not isinstance(value, str):
        return None
    printable = "".join(c if c.isprintable() else " " for c in value[:longest])
    return printable.encode()[:longest].decode("utf-8", "ignore")


def _count(value: object) -> int | float | None:
    return _number(value, _MOST)


def _size(value: object) -> int | float | None:
    return _number(value, _MOST_MB)


def _number(value: object, most: int) -> int | float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if 0 <= value <= most else None  # NaN is neither


def _names(value: object) -> list[str] | None:
    if not isinstance(value, list):
        return None
    return [name for name in (_text(each, _LONGEST_NAME) for each in value[:_MOST_NAMES]) if name is not None]


def _engine(value: object) -> dict[str, Any]:
    return _parse(value, dict.fromkeys(("version", "runc", "missing", "warning"), _text))


def _limits(value: object) -> dict[str, Any]:
    return _parse(value, dict.fromkeys(("cpu", "memory"), _text))


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "os": _text,
    "machine": _text,
    "cores": _count,
    "memory_mb": _size,
    "disk_free_mb": _size,
    "gpus": _count,
    "gpu_names": _names,
    "limits": _limits,
    "docker": _engine,
    "python": _text,
    "boot_id": _text,
}


LITTLE_DISK_MB = 2000
_START = "sudo systemctl start docker"


def problems(inventory: Mapping[str, Any], root: str) -> list[dict[str, str]]:
    """Problems of a machine, each with its level ("missing" or "warning"), subject, message and fix."""
    names = ("level", "about", "message", "fix")
    return [dict(zip(names, problem, strict=True)) for problem in _all(inventory, root)]


def _all(inventory: Mapping[str, Any], root: str) -> Iterator[tuple[str, str, str, str]]:
    """Level, subject, message and fix of each problem."""
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
        # The message of the runner ends with the command that fixes it, after a colon.
        what, colon, fix = str(docker["missing"]).partition(": ")
        message, line = (f"{what}.", fix.partition(" (")[0]) if colon else (what, _START)
        yield "missing", "docker", message, line
    if docker.get("warning"):
        yield "warning", "docker", str(docker["warning"]), "sudo apt-get install --only-upgrade runc"
