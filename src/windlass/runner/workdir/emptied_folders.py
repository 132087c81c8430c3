"""Pool of emptied folders of ended runs, for the next runs: making a folder can take far longer than renaming one.

A folder whose mode or attributes a script has changed is removed, not kept.
"""

from __future__ import annotations

import os
import stat

from .machine_folder import Machine, remove
from .run_folder import RunFolder

_MOST = 8
# Folders that nearly every run has, and their modes.
_FOLDERS = {
    "user_logs": 0o700, "metrics": 0o700, "calls": 0o700, "uploads": 0o700,
    "source": 0o755, "source/outputs": 0o755, "source/logs": 0o755,
}  # fmt: skip


def take(machine: Machine, folder: RunFolder) -> None:
    """Use an emptied folder as the run's folder, if the pool has one."""
    for name in os.listdir(machine.blanks) if not folder.exists else ():
        try:
            os.rename(f"{machine.blanks}/{name}", folder.path)
            return
        except OSError:
            pass  # another host was quicker


def keep(machine: Machine, path: str) -> None:
    """Empty an ended run's folder and keep it, unless there are enough."""
    if len(os.listdir(machine.blanks)) >= _MOST or not _is_as_made(path, 0o700):
        return
    _empty(path, "")
    os.rename(path, f"{machine.blanks}/{os.urandom(8).hex()}")


def _empty(path: str, prefix: str) -> None:
    for name in os.listdir(path):
        mode = _FOLDERS.get(prefix + name)
        if mode is not None and _is_as_made(f"{path}/{name}", mode):
            _empty(f"{path}/{name}", f"{prefix}{name}/")
        else:
            remove(f"{path}/{name}")


def _is_as_made(path: str, mode: int) -> bool:
    seen = os.lstat(path)
    if not stat.S_ISDIR(seen.st_mode) or stat.S_IMODE(seen.st_mode) != mode:
        return False
    return not hasattr(os, "listxattr") or not os.listxattr(path)  # such as default ACLs
