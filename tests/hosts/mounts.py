"""What a host sees differently from the machine that it is on. Each mount: source, target, kind, flags, data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

Mount = tuple[str, str, str, int, str]

_READ_ONLY, _NOEXEC, _REMOUNT, _BIND = 1, 8, 32, 4096
_ROOTS_HOME = "/root"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PROGRAMS = (Path("/usr/local/bin"), Path("/usr/bin"))


def bind(source: Path, target: str | Path) -> Mount:
    return str(source), str(target), "", _BIND, ""


def restricted(folder: Path, is_read_only: bool, is_noexec: bool) -> Iterator[Mount]:
    flags = is_read_only * _READ_ONLY | is_noexec * _NOEXEC
    yield bind(folder, folder)
    yield "none", str(folder), "", _BIND | _REMOUNT | flags, ""


def small_disk(folder: Path, size_kb: int, uid: int) -> Mount:
    return "disk", str(folder), "tmpfs", 0, f"size={size_kb}k,mode=700,uid={uid},gid={uid}"


def private_tmp(is_noexec: bool) -> Mount:
    return "tmp", "/tmp", "tmpfs", is_noexec * _NOEXEC, "mode=1777"


def own_files(folder: Path) -> Iterator[Mount]:
    """Its own processes, accounts, and boot id."""
    yield "proc", "/proc", "proc", 0, ""
    for name in ("passwd", "group", "shadow"):
        yield bind(folder / name, f"/etc/{name}")
    yield bind(folder / "boot_id", BOOT_ID)


def programs_with_other_python(folder: Path, prefix: Path | None) -> Iterator[Mount]:
    """Programs as they are here, but no Python; or no Python but the one that is installed under a prefix."""
    for place in _PROGRAMS:
        above, work = folder / f"above{place.parent.name}", folder / f"work{place.parent.name}"
        above.mkdir(mode=0o755)
        work.mkdir()
        for program in place.glob("python*"):
            os.mknod(above / program.name, 0o20000, 0)  # to an overlay: it is not there
        if prefix is not None and place == _PROGRAMS[-1]:
            (above / "python3").unlink(missing_ok=True)
            (above / "python3").symlink_to(prefix / "bin" / "python3")
        yield "programs", str(place), "overlay", 0, f"lowerdir={place},upperdir={above},workdir={work}"


def reachable(folder: Path, place: Path) -> Iterator[Mount]:
    """A folder that may lie in root's home, where other accounts cannot go: on the host they can, to this one."""
    if place.is_relative_to(_ROOTS_HOME):
        aside = folder / "aside"
        yield bind(place, aside)
        yield "cover", _ROOTS_HOME, "tmpfs", 0, "mode=755"
        yield bind(aside, place)
