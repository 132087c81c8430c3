"""Source trees of ended runs, made over for the next one: only what differs is written, for making a file costs a disk
many times what a look at one does.

A file counts as unchanged if its inode, size and times are those that it had before the script began; whoever writes
to it, replaces it, links it or takes a right away changes one of them. What a script has left beside is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
import traceback
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ..containers.container import forget
from . import emptied_folders
from .machine_folder import Machine, remove
from .run_folder import RunFolder, read_json, write_json

_FEWEST_FILES = 50
_MOST_SPARES = 4
_LONGEST_SECONDS = 7 * 86400
# A sketch is made of the smallest digests: the share that two of them have in common is that of the trees.
_PIECES, _PIECE = 16, 8
# What was written within a tick of the file system's clock before the script began cannot be told from its writes.
_TICK_NS = 20_000_000

Index = Dict[str, List[Any]]  # path: digest, executable, inode, size, times


class There(NamedTuple):
    """What is in place already: unchanged files, and the folders that there are."""

    files: Index
    folders: Set[str]


def entry(digest: str, executable: bool, seen: os.stat_result) -> List[Any]:
    return [digest, executable, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]


def note(machine: Machine, folder: RunFolder, index: Index, boot_id: str, began_ns: int) -> None:
    """Remember how the files were before the script began. A machine that was switched off knows nothing of them."""
    if len(index) >= _FEWEST_FILES:
        sure = {path: row for path, row in index.items() if row[-1] < began_ns - _TICK_NS}
        write_json(f"{machine.placed}/{folder.job}", {"boot_id": boot_id, "files": sure})


def take(machine: Machine, files: List[List[Any]], folders: List[str], boot_id: str, target: str) -> There:
    """Make `target`, of the most similar spare if there is one; what is there already is emptied."""
    aside = f"{target}.spare"
    remove(aside)  # what an interrupted placing left
    for name in _similar(machine, files):
        try:
            os.rename(f"{machine.spares}/{name}", aside)
            remove(target)
            os.rename(f"{aside}/source", target)
            return _prune(target, _known(f"{aside}/index.json", boot_id), _wanted(files), folders)
        except OSError:  # another run was quicker, or it cannot be tidied up
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
    return There({}, {target})


def clear_away(machine: Machine, boot_id: str) -> None:
    """Empty the trash; keep what the next run could use."""
    for name in os.listdir(machine.trash):
        try:
            _clear(machine, name, boot_id)
        except OSError:
            pass  # the script left something that only root can remove
        except Exception:  # a bug of ours, or what a script made of run.json, keeps this folder here, and no other
            _note_trouble(f"{machine.trash}/{name}")
    for name in os.listdir(machine.spares):
        try:
            if time.time() - os.stat(f"{machine.spares}/{name}").st_mtime > _LONGEST_SECONDS:
                _drop(machine, name)
        except OSError:
            pass  # taken


def _clear(machine: Machine, name: str, boot_id: str) -> None:
    path = f"{machine.trash}/{name}"
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another one is at it, and must not remove below our hands, nor we below its
        forget(machine, path)
        try:
            _keep(machine, path, name.rpartition(".")[0], boot_id)
            emptied_folders.keep(machine, path)
        finally:
            remove(path)
    finally:
        os.close(lock)


def _note_trouble(path: str) -> None:
    """In the folder itself: nobody hears what a cleaner says."""
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
    """By way of the trash, for a run may want to take it."""
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


def _prune(root: str, index: Index, wanted: Dict[str, Tuple[str, bool]], folders: List[str]) -> There:
    """Remove all but the wanted files that are unchanged, and the folders of these and of that name."""
    if os.path.islink(root):  # a script has put it elsewhere, and what is there is not ours
        raise NotADirectoryError(root)
    needed = _parents([*wanted, *(f"{folder}/" for folder in folders)])
    there = There({}, {root})
    pending = [""]
    while pending:
        prefix = pending.pop()
        for found in list(os.scandir(f"{root}/{prefix}")):
            path = prefix + found.name
            seen = found.stat(follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                if path in needed and stat.S_IMODE(seen.st_mode) == 0o755:
                    there.folders.add(f"{root}/{path}")
                    pending.append(path + "/")
                else:
                    remove(found.path)
            elif _is_unchanged(index.get(path), wanted.get(path), seen):
                there.files[path] = index[path]
            else:
                os.unlink(found.path)
    return there


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
