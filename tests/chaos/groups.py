"""Control groups: whether runs can have their own, and one that a machine's account may divide further, as a login
session has where systemd delegates one.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.hosts.host import Host


def own_group() -> Path | None:
    """The group of this process in the unified hierarchy, if groups can be made in it."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        own = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
        path = Path(next(words[1] for words in mounts if words[2] == "cgroup2") + own[0])
    except (OSError, StopIteration, IndexError):
        return None
    return path if os.access(path / "cgroup.procs", os.W_OK) else None


def can_divide() -> bool:
    """Whether this process may make groups, of either version."""
    first = (Path("/sys/fs/cgroup") / name for name in ("freezer", "pids"))
    return own_group() is not None or any(os.access(path / "cgroup.procs", os.W_OK) for path in first)


def delegate(host: Host, name: str) -> Path | None:
    """Put a host's sshd, and so all that is started by it, into a group that its account may divide."""
    above = own_group()
    if above is None:
        return None
    group = above / name
    group.mkdir()
    for path in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
        os.chown(path, host.uid, host.uid)
    for process in host.processes():
        (group / "cgroup.procs").write_text(str(process.pid))
    return group


def remove(group: Path) -> None:
    """A group without processes, and those in it."""
    for path in sorted((Path(folder) for folder, _, _ in os.walk(group)), reverse=True):
        try:
            path.rmdir()
        except OSError:
            continue  # a process in it has not ended yet
