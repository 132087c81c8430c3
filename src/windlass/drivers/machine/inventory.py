"""What a machine says of itself, as far as it can be believed: it is kept, shown and reckoned with.

Runs live in the account of the runner, so that this may be the word of any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_LONGEST = 1024  # bytes of a text
_LONGEST_NAME = 256
_MOST_NAMES = 64
_MOST = 100_000  # of what is counted
_MOST_MB = 1 << 40


def offers(told: object) -> dict[str, Any]:
    """What is known, of the right type and in range. All of it together has less than 32 KB."""
    return _kept(told, _READ)


def _kept(told: object, read: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    if not isinstance(told, dict):
        return {}
    found = {name: read[name](told[name]) for name in read if name in told}
    return {name: value for name, value in found.items() if value is not None}


def _text(told: object, longest: int = _LONGEST) -> str | None:
    if not isinstance(told, str):
        return None
    printable = "".join(sign if sign.isprintable() else " " for sign in told[:longest])
    return printable.encode()[:longest].decode("utf-8", "ignore")


def _count(told: object) -> int | float | None:
    return _number(told, _MOST)


def _size(told: object) -> int | float | None:
    return _number(told, _MOST_MB)


def _number(told: object, most: int) -> int | float | None:
    if not isinstance(told, (int, float)) or isinstance(told, bool):
        return None
    return told if 0 <= told <= most else None  # NaN is neither


def _names(told: object) -> list[str] | None:
    if not isinstance(told, list):
        return None
    return [name for name in (_text(each, _LONGEST_NAME) for each in told[:_MOST_NAMES]) if name is not None]


def _engine(told: object) -> dict[str, Any]:
    return _kept(told, dict.fromkeys(("version", "runc", "missing", "warning"), _text))


def _limits(told: object) -> dict[str, Any]:
    return _kept(told, dict.fromkeys(("cpu", "memory"), _text))


_READ: Mapping[str, Callable[[Any], Any]] = {
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
