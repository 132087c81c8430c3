"""Calls of the kernel that Python's standard library lacks. Where the kernel lacks them, they return False or None."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import sys
from typing import Iterator, Optional, Tuple

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2
_FICLONE = 0x40049409

IN_MODIFY = 0x2
IN_CLOSE_WRITE = 0x8
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ISDIR = 0x40000000
_IN_DONT_FOLLOW = 0x2000000
_IN_NONBLOCK = os.O_NONBLOCK
_IN_CLOEXEC = os.O_CLOEXEC
# Errors of one path only.
_OF_THE_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG)


def become_subreaper() -> bool:
    """From now on orphans among our descendants become our children, not init's."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> bool:
    return _prctl(_PR_SET_PDEATHSIG, number)


def punch_hole(fd: int, offset: int, length: int) -> bool:
    """Free the blocks of a part of a file; it then reads as zeros, and the size stays."""
    call = getattr(_libc, "fallocate", None)
    if call is None:
        return False
    mode = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
    return bool(call(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0)


def reserve_space(fd: int, length: int) -> None:
    """Reserve disk space for that many bytes of a file, whose size stays. OSError if there is none."""
    call = getattr(_libc, "fallocate", None)
    if call is not None and call(fd, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(length)) != 0:
        code = ctypes.get_errno()
        if code != errno.EOPNOTSUPP:
            raise OSError(code, os.strerror(code))


def sync_file_system(path: str) -> None:
    """Sync the file system of a folder. This may take seconds."""
    call = getattr(_libc, "syncfs", None)
    fd = os.open(path, os.O_RDONLY)
    try:
        code = errno.ENOSYS if call is None else 0 if call(fd) == 0 else ctypes.get_errno()
    finally:
        os.close(fd)
    if code == errno.ENOSYS:
        os.sync()
    elif code:
        raise OSError(code, os.strerror(code), path)


def reflink(source: int, target: int) -> bool:
    """Make `target` share the blocks of `source`, where the file system can (btrfs, xfs, and their like)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _prctl(option: int, value: int) -> bool:
    call = getattr(_libc, "prctl", None)
    return call is not None and call(option, ctypes.c_ulong(value), 0, 0, 0) == 0


class Inotify:
    """An inotify descriptor: events of files that change. On network disks only changes by this machine are seen."""

    _HEADER = struct.Struct("iIII")

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def add(self, path: str, mask: int) -> Optional[int]:
        """Watch a folder or a file; None if it does not exist or may not be read, OSError if the system's limit of
        watches is reached."""
        number = _libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask | _IN_DONT_FOLLOW))
        if number >= 0:
            return int(number)
        code = ctypes.get_errno()
        if code in _OF_THE_PATH:
            return None
        raise OSError(code, os.strerror(code), path)

    def remove(self, number: int) -> None:
        _libc.inotify_rm_watch(self.fd, number)

    def read(self) -> Iterator[Tuple[int, int, str]]:
        """The events since the last read: number of the watch, bits of the event, name of the file."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, _, length = self._HEADER.unpack_from(data, at)
            at += self._HEADER.size
            yield number, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
            at += length


def open_inotify() -> Optional[Inotify]:
    call = getattr(_libc, "inotify_init1", None)
    fd = call(_IN_NONBLOCK | _IN_CLOEXEC) if call is not None else -1
    return Inotify(fd) if fd >= 0 else None
