"""Reuse of source trees of ended runs for the next run: only files that differ are written, since creating a file costs
many times as much as a stat.

A file counts as unchanged if its inode, size and times are those from before the script began: writing, replacing,
linking and changing permissions all change one of them. Other files that a script has left are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
import traceback
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ..containers.container import remove_leftover
from . import emptied_folders
from .machine_folder import Machine, remove
from .run_folder import RunFolder, read_json, write_json

_FEWEST_FILES = 50
_MOST_SPARES = 4
_LONGEST_SECONDS = 7 * 86400
# MinHash of a tree: its 16 smallest file digests. The overlap of two sketches estimates the overlap of the trees.
_PIECES, _PIECE = 16, 8
# Writes within a tick of the file system's clock before the script began cannot be distinguished from the script's.
_TICK_NS = 20_000_000

Index = Dict[str, List[Any]]  # path: digest, executable, inode, size, times


class ExistingTree(NamedTuple):
    """The part of a source tree that exists already: unchanged files, and folders."""

    files: Index
    folders: Set[str]


def entry(digest: str, executable: bool, seen: os.stat_result) -> List[Any]:
    return [digest, executable, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]


def note(machine: Machine, folder: RunFolder, index: Index, boot_id: str, began_ns: int) -> None:
    """Record inode, size and times of the files before the script began. The record is valid until the next boot."""
    if len(index) >= _FEWEST_FILES:
        sure = {path: row for path, row in index.items() if row[-1] < began_ns - _TICK_NS}
        write_json(f"{machine.placed}/{folder.job}", {"boot_id": boot_id, "files": sure})


def take(machine: Machine, files: List[List[Any]], folders: List[str], boot_id: str, target: str) -> ExistingTree:
    """Make `target`, from the most similar spare tree if there is one, else empty."""
    aside = f"{target}.spare"
    remove(aside)  # left by an interrupted placement
    for name in _similar(machine, files):
        try:
            os.rename(f"{machine.spares}/{name}", aside)
            remove(target)
            os.rename(f"{aside}/source", target)
            return _prune(target, _known(f"{aside}/index.json", boot_id), _wanted(files), folders)
        except OSError:  # another run was quicker, or the tree cannot be pruned
            remove(target)
        finally:
            remove(aside)
    try:
        os.mkdir(target, 0o755)
    except FileExistsError:
        if not os.path.islink(target) and os.path.isdir(target):
            return _prune(target, {}, _wanted(files), folders)
        remove(target)
        os.mkdir(target, 0o755)
    return ExistingTree({}, {target})


def empty_trash(machine: Machine, boot_id: str) -> None:
    """Empty the trash; keep trees and folders that the next run could reuse."""
    for name in os.listdir(machine.trash):
        try:
            _empty_folder(machine, name, boot_id)
        except OSError:
            pass  # the script has left something that only root can remove
        except Exception:  # our bug, or a run.json changed by a script: keep this folder, go on
            _record_error(f"{machine.trash}/{name}")
    for name in os.listdir(machine.spares):
        try:
            if time.time() - os.stat(f"{machine.spares}/{name}").st_mtime > _LONGEST_SECONDS:
                _drop(machine, name)
        except OSError:
            pass  # a run has taken it


def _empty_folder(machine: Machine, name: str, boot_id: str) -> None:
    path = f"{machine.trash}/{name}"
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another process removes this folder
        remove_leftover(machine, path)
        try:
            _keep(machine, path, name.rpartition(".")[0], boot_id)
            emptied_folders.keep(machine, path)
        finally:
            remove(path)
    finally:
        os.close(lock)


def _record_error(path: str) -> None:
    """Write the traceback into the folder itself: the cleanup process has no output."""
    with contextlib.suppress(OSError):
        write_json(f"{path}/trouble.json", {"trouble": traceback.format_exc()})


def _keep(machine: Machine, folder: str, job: str, boot_id: str) -> None:
    noted = f"{machine.placed}/{job}"
    index = _known(noted, boot_id)
    remove(noted)
    if len(index) < _FEWEST_FILES:
        return
    kept = _prune(f"{folder}/source", index, {path: (row[0], row[1]) for path, row in index.items()}, []).files
    made = f"{machine.spares}/.{job}"
    os.mkdir(made, 0o700)
    os.rename(f"{folder}/source", f"{made}/source")
    write_json(f"{made}/index.json", {"boot_id": boot_id, "files": kept})
    os.rename(made, f"{machine.spares}/{_sketch({row[0] for row in kept.values()})}.{time.time_ns()}")
    for name in sorted(_spares(machine), key=lambda name: name.rpartition(".")[2])[:-_MOST_SPARES]:
        _drop(machine, name)


def _drop(machine: Machine, name: str) -> None:
    """Remove a spare tree. Renamed first, so that no run takes it meanwhile."""
    aside = f"{machine.trash}/{name}"
    os.rename(f"{machine.spares}/{name}", aside)
    remove(aside)


def _known(path: str, boot_id: str) -> Index:
    noted = read_json(path)
    if noted is None or noted.get("boot_id") != boot_id:
        return {}
    files: Index = noted["files"]
    return files


def _wanted(files: List[List[Any]]) -> Dict[str, Tuple[str, bool]]:
    return {path: (digest, bool(executable)) for path, digest, _, executable in files}


def _prune(root: str, index: Index, wanted: Dict[str, Tuple[str, bool]], folders: List[str]) -> ExistingTree:
    """Remove all but the wanted files that are unchanged, their folders, and `folders`."""
    if os.path.islink(root):  # replaced by a script: the link's target is not ours
        raise NotADirectoryError(root)
    needed = _parents([*wanted, *(f"{folder}/" for folder in folders)])
    existing = ExistingTree({}, {root})
    pending = [""]
    while pending:
        prefix = pending.pop()
        for found in list(os.scandir(f"{root}/{prefix}")):
            path = prefix + found.name
            seen = found.stat(follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                if path in needed and stat.S_IMODE(seen.st_mode) == 0o755:
                    existing.folders.add(f"{root}/{path}")
                    pending.append(path + "/")
                else:
                    remove(found.path)
            elif _is_unchanged(index.get(path), wanted.get(path), seen):
                existing.files[path] = index[path]
            else:
                os.unlink(found.path)
    return existing


def _is_unchanged(noted: Optional[List[Any]], wanted: Optional[Tuple[str, bool]], seen: os.stat_result) -> bool:
    return noted is not None and wanted is not None and noted == entry(*wanted, seen)


def _parents(paths: List[str]) -> Set[str]:
    found: Set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def _sketch(digests: Set[str]) -> str:
    return "".join(digest[:_PIECE] for digest in sorted(digests)[:_PIECES])


def _spares(machine: Machine) -> List[str]:
    return [name for name in os.listdir(machine.spares) if not name.startswith(".")]


def _similar(machine: Machine, files: List[List[Any]]) -> List[str]:
    """The spares that share at least half of these files, the most similar first."""
    if len(files) < _FEWEST_FILES:
        return []
    ours = _split(_sketch({digest for _, digest, _, _ in files}))
    shares = {name: len(ours & _split(name.partition(".")[0])) for name in _spares(machine)}
    return sorted((name for name in shares if shares[name] * 2 >= len(ours)), key=lambda name: -shares[name])


def _split(sketch: str) -> Set[str]:
    return {sketch[at : at + _PIECE] for at in range(0, len(sketch), _PIECE)}
