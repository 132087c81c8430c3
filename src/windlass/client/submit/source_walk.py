"""Walk a source folder: the files that are sent with a run. Symbolic links are not followed out of the folder."""

from __future__ import annotations

import os
import re
import stat
import sys
from typing import TYPE_CHECKING, NamedTuple

from windlass.client.exceptions import SnapshotException
from windlass.client.submit.gitignore import Rules
from windlass.core.names import MAX_PATH_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

_IGNORE_HINT = "Name it in .amlignore to leave it out."
# Not allowed in names of a snapshot: control characters, backslashes, bytes that are not UTF-8.
_UNFIT = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]|://")
# A folder with this file is a Python environment: large, and of no use on another machine.
_ENVIRONMENT_MARK = "pyvenv.cfg"


class SourceEntry(NamedTuple):
    """A file: its path in the snapshot, its location here, and a stamp that changes with its content."""

    path: str
    location: str
    size: int
    stamp: str
    mtime_ns: int
    executable: bool


def walk(folder: str, home: str) -> Iterator[SourceEntry]:
    """The files of a folder, except for ignored ones, and the home of Windlass, whose keys and tokens are not sent even
    if the user's home folder is submitted.
    """
    yield from _Walk(folder, home).folder(folder, "")


def describe(path: str, location: str, seen: os.stat_result) -> SourceEntry:
    stamp = f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino}"
    return SourceEntry(path, location, seen.st_size, stamp, seen.st_mtime_ns, bool(seen.st_mode & stat.S_IXUSR))


class _Walk:
    def __init__(self, folder: str, home: str) -> None:
        self.rules = Rules.of_folder(folder)
        self.root = os.path.realpath(folder)
        self.home = os.path.relpath(os.path.realpath(home), self.root)

    def folder(self, location: str, prefix: str) -> Iterator[SourceEntry]:
        if prefix.count("/") >= MAX_PATH_PARTS:
            raise SnapshotException(f"{location[:60]}... is more than {MAX_PATH_PARTS} folders deep.", _IGNORE_HINT)
        try:
            with os.scandir(location) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as e:
            raise SnapshotException(f"Cannot read the folder {location}: {e.strerror}", _IGNORE_HINT) from e
        if prefix and any(entry.name == _ENVIRONMENT_MARK for entry in entries):
            return
        for entry in entries:
            path = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if self.rules.ignores(path, entry.name, is_folder) or (is_folder and path == self.home):
                continue
            if _UNFIT.search(entry.name):
                raise SnapshotException(f"The name of {ascii(path)} cannot be part of a snapshot.", _IGNORE_HINT)
            if is_folder:
                yield from self.folder(entry.path, path + "/")
            elif entry.is_symlink():
                yield from self.link(entry.path, path)
            else:
                yield self.file(entry, path)

    def file(self, entry: os.DirEntry[str], path: str) -> SourceEntry:
        try:
            seen = entry.stat(follow_symlinks=False)
        except OSError as e:
            raise SnapshotException(f"Cannot read {entry.path}: {e.strerror}", _IGNORE_HINT) from e
        if not stat.S_ISREG(seen.st_mode):
            raise SnapshotException(f"{entry.path} is not a file but a pipe, socket or device.", _IGNORE_HINT)
        return describe(path, entry.path, seen)

    def link(self, location: str, path: str) -> Iterator[SourceEntry]:
        """A link to a file of this folder becomes a copy of that file; other links are left out, with a warning."""
        target = os.path.realpath(location)
        if not target.startswith(self.root + os.sep):
            _warn(f"{path} is a link out of the folder and is not part of the snapshot.")
        elif not os.path.isfile(target):
            what = "a folder" if os.path.isdir(target) else "nothing"
            _warn(f"{path} is a link to {what} and is not part of the snapshot.")
        else:
            yield describe(path, target, os.stat(target))


def _warn(line: str) -> None:
    print(f"Warning: {line}", file=sys.stderr)
