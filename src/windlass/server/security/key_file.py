"""Key file: the keys that secrets are sealed with, in a file that only the server's user can read.

Envelope encryption: a secret is sealed with a key of its own, and that key with the last one of the file (AES-256-GCM
both times). Both are bound to the secret's workspace, name and version: bytes that were changed, or moved to another
row, do not open. The older keys of the file open what was not resealed since. A key's id is derived from the key, so a
file with other keys is detected.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from windlass.core.errors import InternalError, ServerUnavailable, WindlassError
from windlass.server.security import private_file

log = logging.getLogger(__name__)

_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_FORMAT = b"\x01"
_WRAPPED = _NONCE_BYTES + _KEY_BYTES + _TAG_BYTES
# Errors that last until a person repairs the file; others, such as too many open files, are transient.
_LASTING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM)
_HEAD = "# The keys of Windlass's secrets, the newest last. Who has them and the database can read every secret.\n"


class KeyFileError(InternalError):
    """The keys cannot be used. The message never contains a key."""


class CannotUnseal(KeyFileError):
    """Sealed bytes cannot be opened by the keys of the file: a permanent error."""


class Owner(NamedTuple):
    """The secret that sealed bytes are bound to."""

    workspace: str
    name: str
    version: int


class KeyFile:
    """Cached; read again when the file has changed, since another server may have added a key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._keys: dict[str, bytes] = {}

    def check(self, needed: set[str]) -> None:
        """Raise an error if needed keys are missing or wrong, or others can read the file."""
        self._check_missing(needed - set(self._read() if self._is_there() else ()))

    def make(self, needed: set[str]) -> None:
        """Make the first key if there is no file. Raises CannotUnseal if secrets are sealed with keys that are lost."""
        if not self._is_there():
            self._check_missing(needed)
            self._add(is_first=True)

    def add(self) -> str:
        """Add a key, which seals everything from now on. Returns its id."""
        self._read()
        return self._add()

    @property
    def current(self) -> str:
        return list(self._read())[-1]

    def seal(self, value: bytes, owner: Owner) -> tuple[bytes, str]:
        """The sealed bytes, and the id of the key that opens them."""
        keys = self._read()
        key_id = list(keys)[-1]
        own = secrets.token_bytes(_KEY_BYTES)
        wrapped = _encrypt(keys[key_id], own, _associated_data("key", owner))
        return _FORMAT + wrapped + _encrypt(own, value, _associated_data("value", owner)), key_id

    def open(self, sealed: bytes, key_id: str, owner: Owner) -> bytes:
        key = self._read(key_id).get(key_id)
        if key is None:
            raise self._missing_keys({key_id})
        format, wrapped, content = sealed[:1], sealed[1 : 1 + _WRAPPED], sealed[1 + _WRAPPED :]
        try:
            if format != _FORMAT:
                raise ValueError("unknown format")
            own = _decrypt(key, wrapped, _associated_data("key", owner))
            return _decrypt(own, content, _associated_data("value", owner))
        except ValueError:
            raise CannotUnseal(
                f"The secret {owner.name} of workspace {owner.workspace} does not open: its row in the database was "
                "damaged or exchanged.",
                "Set it again.",
            ) from None

    # the file

    def _read(self, wanted: str | None = None) -> dict[str, bytes]:
        """The keys of the file. While it cannot be read, the cached ones, if the wanted key is among them."""
        with self._lock:
            try:
                with open(self.path, "rb") as file:
                    seen = os.fstat(file.fileno())
                    stamp = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode, seen.st_uid)
                    if stamp != self._seen:
                        self._refuse_open_to_others(seen)
                        self._keys, self._seen = self._parse(file.read()), stamp
            except OSError as e:
                if e.errno in _LASTING or not self._keys or wanted not in (None, *self._keys):
                    raise self._unreadable(e) from e
                log.warning("the key file cannot be read, the cached keys are used: %s", e.strerror)
            return self._keys

    def _content(self) -> bytes:
        """The file as it is now, or an error: a rewrite from the cache could lose a key that another server added."""
        try:
            return self.path.read_bytes()
        except OSError as e:
            raise self._unreadable(e) from e

    def _is_there(self) -> bool:
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as e:
            raise self._unreadable(e) from e
        return True

    def _unreadable(self, error: OSError) -> WindlassError:
        message = f"The key file {self.path} cannot be read, and without it no secret can: {error.strerror}."
        if error.errno in _LASTING:
            return KeyFileError(message, _PUT_BACK)
        return ServerUnavailable(message, "Try again in a moment.")

    def _parse(self, content: bytes) -> dict[str, bytes]:
        lines = [line.strip() for line in content.splitlines() if line.strip() and not line.startswith(b"#")]
        try:
            keys = [bytes.fromhex(line.decode("ascii")) for line in lines]
        except ValueError:
            keys = []
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise KeyFileError(f"The key file {self.path} is damaged.", _PUT_BACK)
        return {_id(key): key for key in keys}

    def _refuse_open_to_others(self, seen: os.stat_result) -> None:
        if stat.S_IMODE(seen.st_mode) & 0o077:
            raise KeyFileError(
                f"The key file {self.path} can be read by others.",
                f"If nobody has: chmod 600 {self.path}. Else rotate the key after that: windlass secret rotate-key",
            )
        if seen.st_uid not in (0, os.geteuid()):
            raise KeyFileError(f"The key file {self.path} belongs to another user.", "Give it to the server's user.")

    def _check_missing(self, missing: set[str]) -> None:
        if missing:
            raise self._missing_keys(missing)

    def _missing_keys(self, missing: set[str]) -> CannotUnseal:
        named = ", ".join(sorted(missing))
        what = "does not have that key" if self._is_there() else "is not there"
        return CannotUnseal(
            f"Secrets in the database are sealed with the key {named}, and the key file {self.path} {what}.",
            _PUT_BACK,
        )

    def _add(self, is_first: bool = False) -> str:
        """Replace the file atomically by one with a new key."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _exclusive(self.path.with_name(f".{self.path.name}.lock")):
                known = self._parse(self._content()) if self._is_there() else {}
                if is_first and known:
                    return self.current
                key = secrets.token_bytes(_KEY_BYTES)
                private_file.replace(self.path, _HEAD + "".join(f"{each.hex()}\n" for each in (*known.values(), key)))
                return _id(key)
        except OSError as e:
            raise KeyFileError(f"The key file {self.path} cannot be written: {e.strerror}.") from e


_PUT_BACK = (
    "Put back the key file that belongs to this database (servers that share one share the file: key_file names it)."
)


def _id(key: bytes) -> str:
    return hashlib.sha256(b"windlass key id\0" + key).hexdigest()[:16]


def _associated_data(what: str, owner: Owner) -> bytes:
    return json.dumps(["windlass secret", what, *owner], separators=(",", ":")).encode("ascii")


def _encrypt(key: bytes, value: bytes, about: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import (
        AESGCM,
    )  # imported late: servers without secrets start faster

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, value, about)


def _decrypt(key: bytes, sealed: bytes, about: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about)
    except InvalidTag:
        raise ValueError("wrong key or changed bytes") from None


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
