"""Placement of a run's snapshot from the machine's files. Each run has its own copy, as scripts write beside them."""

from __future__ import annotations

import os
from typing import Any, List, Set

from .. import failpoints
from ..system import kernel
from . import source_tree_reuse
from .machine_folder import Machine, check_digest
from .run_folder import is_path, write_all

_SMALL = 1 << 17
# Files that come with a snapshot for its environment. Scripts have no use for them, and wheels may be large.
_FOR_ENVIRONMENT = ".windlass/wheels/"


class CannotPlace(Exception):
    """The snapshot cannot be put on this disk; the message says which file, and why."""


def for_script(files: List[List[Any]]) -> List[List[Any]]:
    return [file for file in files if not str(file[0]).startswith(_FOR_ENVIRONMENT)]


def place(
    machine: Machine, files: List[List[Any]], folders: List[str], boot_id: str, target: str
) -> source_tree_reuse.Index:
    """Make `target` hold exactly these files; returns their inode, size and times."""
    existing, made = source_tree_reuse.take(machine, files, folders, boot_id, target)
    index = dict(existing)
    copy = _Copy()
    for count, (path, digest, _, executable) in enumerate(files):
        if count == len(files) // 2:
            failpoints.reach("F08")
        if path in existing:
            continue
        if not is_path(path):
            raise CannotPlace(f"The snapshot has a file named {ascii(path)[:120]}.")
        try:
            _make_parents(f"{target}/{path}", made)
            seen = copy(f"{machine.files}/{check_digest(digest)}", f"{target}/{path}", 0o755 if executable else 0o644)
        except OSError as e:
            raise CannotPlace(f"The file {path} of the snapshot could not be placed: {e.strerror or e}.") from e
        index[path] = source_tree_reuse.entry(digest, bool(executable), seen)
    for name in folders:
        if is_path(name):
            _make_folder(f"{target}/{name}")
    return index


def _make_parents(path: str, made: Set[str]) -> None:
    parent = path[: path.rindex("/")]
    if parent not in made:
        _make_parents(parent, made)
        os.mkdir(parent, 0o755)
        made.add(parent)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, 0o755, exist_ok=True)
    except OSError:
        pass  # the snapshot has a file of that name


class _Copy:
    """Copies files by reflink; after the first refusal by the file system, by bytes."""

    def __init__(self) -> None:
        self._may_share = True

    def __call__(self, source: str, target: str, mode: int) -> os.stat_result:
        source_fd = os.open(source, os.O_RDONLY)
        try:
            target_fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            try:
                self._may_share = self._may_share and kernel.reflink(source_fd, target_fd)
                if not self._may_share:
                    _copy_bytes(source_fd, target_fd)
                return os.fstat(target_fd)
            finally:
                os.close(target_fd)
        finally:
            os.close(source_fd)


def _copy_bytes(source: int, target: int) -> None:
    # One read and one write are the quickest way for the small files that sources are made of.
    data = os.read(source, _SMALL)
    write_all(target, data)
    if len(data) < _SMALL:
        return
    try:
        while os.copy_file_range(source, target, 1 << 30):
            pass
    except (AttributeError, OSError):  # another system, or two disks: go on where it stopped
        while data:
            data = os.read(source, 1 << 20)
            write_all(target, data)
