"""A machine's folder: files, SDKs and environments that runs share, and records of started and ended jobs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from typing import Any, Dict, Iterable, List, Optional

from ..system import kernel
from ..system.private import check_private
from .run_folder import Refused, RunFolder, is_path, read_whole, taken, write_all, write_json

# Longer than a server can take to notice that it has lost a lease.
_ENDED_SECONDS = 7 * 86400
# A file that no run has needed for this long is not kept; one that is needed becomes young again, once a day.
_FILE_SECONDS = 30 * 86400
_YOUNG_SECONDS = 86400
RELAY_SOCKET = "relay.sock"
_HAS_ENDED = b"\nended"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_SERVER = re.compile(r"[0-9a-f]{16}\Z")
# How deep a folder may lie, and how long its path may be, to be removed where it is.
_DEEPEST = 100
_LONGEST = 3000


def check_digest(text: object) -> str:
    if not isinstance(text, str) or not _DIGEST.match(text):
        raise Refused("invalid", f"Not a digest: {ascii(text)[:80]}")
    return text


class Machine:
    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.files = f"{self.root}/files"
        self.sdks = f"{self.root}/sdk"
        self.environments = f"{self.root}/environments"
        self.tools = f"{self.root}/tools"
        self.runs = f"{self.root}/runs"
        self.trash = f"{self.root}/trash"
        self.placed = f"{self.root}/placed"
        self.spares = f"{self.root}/spares"
        self.blanks = f"{self.root}/blanks"
        self.started = f"{self.root}/started"
        self.ended = f"{self.root}/ended"
        self.relays = f"{self.root}/relays"
        self._uploads: Dict[str, _Upload] = {}

    def make(self) -> None:
        """Make the folders that are missing; NotPrivate if other accounts could write them."""
        served = (self.files, self.sdks, self.environments, self.tools, self.spares, self.blanks)
        known = (self.runs, self.trash, self.started, self.placed, self.ended)
        for path in (self.root, *served, *known):
            os.makedirs(path, 0o700, exist_ok=True)
            if path == self.root:
                check_private(path)
        self._forget_ended()
        self._forget_files()

    def folder(self, job: str) -> RunFolder:
        return RunFolder(self.runs, job)

    def relay(self, server: object) -> str:
        """The folder with the relay's socket and URL for scripts of a server."""
        if not isinstance(server, str) or not _SERVER.match(server):
            raise Refused("invalid", f"Not a server's id: {ascii(server)[:80]}")
        return f"{self.relays}/{server}"

    def note_start(self, folder: RunFolder, supervisor: Dict[str, Any]) -> None:
        """Record the supervisor of a script that was executed. Not in the run's folder, which the script may remove."""
        write_json(f"{self.started}/{folder.job}", supervisor)

    def note_script_end(self, folder: RunFolder) -> None:
        fd = os.open(f"{self.started}/{folder.job}", os.O_WRONLY | os.O_APPEND)
        try:
            write_all(fd, _HAS_ENDED)
        finally:
            os.close(fd)

    def supervisor_of(self, folder: RunFolder) -> Optional[Dict[str, Any]]:
        """The last supervisor of a job whose script was executed; None means that it never was."""
        return _read_started(f"{self.started}/{folder.job}")

    def nonce_of(self, folder: RunFolder) -> Optional[str]:
        """The nonce of the job that is here under this id; None if it is unknown, or if there is none.

        Once the script was executed, this does not depend on the run's folder, which the script may change.
        """
        record = self.supervisor_of(folder)
        return (record["nonce"] if record is not None else None) or folder.nonce()

    def has_nonce(self, folder: RunFolder, nonce: str) -> bool:
        """False if the job here is another server's. After a power cut nothing may be left that names its nonce: such
        a job is the caller's, which would otherwise start it a second time."""
        return self.nonce_of(folder) in (None, nonce)

    def note_end(self, folder: RunFolder, nonce: str) -> None:
        """Record that a job is never started again, not even by a server that lost its lease and does not know it."""
        try:
            os.rename(f"{self.started}/{folder.job}", f"{self.ended}/{folder.job}")
            os.utime(f"{self.ended}/{folder.job}")  # it counts from now
        except FileNotFoundError:
            if not os.path.exists(f"{self.ended}/{folder.job}"):
                write_json(f"{self.ended}/{folder.job}", {"nonce": nonce})

    def refuse_ended(self, folder: RunFolder, nonce: str) -> None:
        """Refuse to start a job that was cleaned up. Its id is not used again by another server either, since its
        supervisor may still be about to remove what it has left."""
        ended = _read_started(f"{self.ended}/{folder.job}")
        if ended is not None and ended["nonce"] not in (None, nonce):
            raise taken(folder)
        if ended is not None or os.path.exists(f"{self.ended}/{folder.job}"):
            raise Refused("stale", f"The job {folder.job} has ended and was cleaned up.")

    def _forget_ended(self) -> None:
        for entry in (*os.scandir(self.ended), *os.scandir(self.started), *os.scandir(self.placed)):
            try:
                is_old = time.time() - entry.stat().st_mtime > _ENDED_SECONDS
                if is_old and not os.path.exists(f"{self.runs}/{entry.name}"):
                    os.unlink(entry.path)
            except FileNotFoundError:
                pass  # another host was quicker

    def _forget_files(self) -> None:
        """Remove files that no run has needed for long. If one is needed after all, it is sent again."""
        for entry in os.scandir(self.files):
            try:
                if time.time() - entry.stat().st_mtime > _FILE_SECONDS:
                    os.unlink(entry.path)
            except FileNotFoundError:
                pass  # another host was quicker

    def missing(self, digests: Iterable[str]) -> List[str]:
        return [digest for digest in digests if self._size(check_digest(digest)) is None]

    def missing_files(self, files: Iterable[List[Any]]) -> List[str]:
        """The digests that a snapshot still needs."""
        return sorted({digest for _, digest, size, _ in files if not self._has(check_digest(digest), size)})

    def _has(self, digest: str, size: int) -> bool:
        path = f"{self.files}/{digest}"
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return False
        if found.st_size != size:
            os.unlink(path)  # truncated by a power loss: it must be sent again
        elif time.time() - found.st_mtime > _YOUNG_SECONDS:
            os.utime(path)  # in use: its age starts again
        return found.st_size == size

    def _size(self, digest: str) -> Optional[int]:
        try:
            return os.stat(f"{self.files}/{digest}").st_size
        except FileNotFoundError:
            return None

    def put(self, digest: str, offset: int, is_last: bool, data: bytes) -> None:
        """Write the next bytes of a file; after the last ones its digest is checked. Repeated calls do no harm."""
        if self._size(check_digest(digest)) is not None:
            return
        upload = self._uploads.get(digest)
        if upload is None:
            upload = self._uploads[digest] = _Upload(digest, f"{self.files}/{digest}.{os.getpid()}.tmp")
        try:
            upload.write(offset, data)
            if is_last:
                upload.finish(f"{self.files}/{digest}")
                del self._uploads[digest]
        except (OSError, Refused):
            upload.drop()
            del self._uploads[digest]
            raise

    def sdk(self, digest: str) -> str:
        return f"{self.sdks}/{check_digest(digest)}"

    def has_sdk(self, digest: Optional[str]) -> bool:
        return not digest or os.path.isdir(self.sdk(digest))

    def unpack_sdk(self, digest: str, data: bytes) -> None:
        if self.has_sdk(digest):
            return
        if hashlib.sha256(data).hexdigest() != digest:
            raise Refused("invalid", f"These bytes are not {digest}.")
        aside = f"{self.sdk(digest)}.{os.getpid()}.tmp"
        try:
            _unzip(data, aside)
            kernel.sync_file_system(aside)  # a folder of that name counts as complete: sync its files first
            os.rename(aside, self.sdk(digest))
        except OSError:
            if not self.has_sdk(digest):  # else another host was quicker
                raise
        finally:
            remove(aside)


def _read_started(path: str) -> Optional[Dict[str, Any]]:
    """What `note_start` wrote, and whether `note_script_end` came after it."""
    try:
        written, *more = read_whole(path).split(b"\n")
        return {"nonce": None, **json.loads(written), "has_ended": bool(more)}
    except (OSError, ValueError):
        return None


class _Upload:
    """A file that is being received, under a temporary name."""

    def __init__(self, digest: str, path: str) -> None:
        self.digest = digest
        self._path = path
        self._sum = hashlib.sha256()
        self._size = 0
        remove(path)  # left by a host that died, and had our pid
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)

    def write(self, offset: int, data: bytes) -> None:
        if offset > self._size:
            raise Refused("invalid", f"The next byte of {self.digest} is {self._size}, not {offset}.")
        data = data[self._size - offset :]  # two senders may send the same file
        write_all(self._fd, data)
        self._sum.update(data)
        self._size += len(data)

    def finish(self, path: str) -> None:
        if self._sum.hexdigest() != self.digest:
            raise Refused("invalid", f"These bytes are not {self.digest}.")
        os.close(self._fd)
        self._fd = -1
        os.rename(self._path, path)

    def drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass


def _unzip(data: bytes, folder: str) -> None:
    import io
    import zipfile

    remove(folder)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith("/"):
                continue
            if not is_path(name):
                raise Refused("invalid", f"The archive has a file named {ascii(name)[:80]}.")
            os.makedirs(os.path.dirname(f"{folder}/{name}"), 0o700, exist_ok=True)
            with open(f"{folder}/{name}", "wb") as file:
                file.write(archive.read(name))


def remove(path: str) -> None:
    """Delete a file, or a folder and all in it, also where a script has removed permissions."""
    import shutil

    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
        os.unlink(path)
        return
    try:
        shutil.rmtree(path, ignore_errors=True)
    except RecursionError:
        pass  # the tree is too deep for rmtree
    if not os.path.lexists(path):
        return
    os.chmod(path, 0o700)
    _open_up(path)
    shutil.rmtree(path)


def _open_up(path: str) -> None:
    """Make a folder removable: restore permissions, and move up folders that are too deep for a path."""
    waiting = [path]
    while waiting:
        top = waiting.pop()
        for folder, names, _ in os.walk(top):
            is_deep = folder.count("/") - top.count("/") >= _DEEPEST or len(folder) >= _LONGEST
            for name in names:
                below = f"{folder}/{name}"
                if os.path.islink(below):
                    continue
                os.chmod(below, 0o700)
                if is_deep:
                    waiting.append(f"{path}/{os.urandom(16).hex()}")
                    os.rename(below, waiting[-1])
            if is_deep:
                names.clear()
