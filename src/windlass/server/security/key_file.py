"""The keys that secrets are sealed with: in a file that only the server's user can read, never in the database.

A secret is sealed with a key of its own, and that key with the last one of the file (AES-256-GCM both times), bound to
the secret's workspace, name and version: bytes that were changed, or moved to another row, do not open. The older keys
of the file open what has not been sealed anew since. A key's id is made from the key, so that a file with other keys is
found out by their ids.
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
_FORM = b"\x01"
_WRAPPED = _NONCE_BYTES + _KEY_BYTES + _TAG_BYTES
# What is wrong with a file until somebody mends it; anything else, such as too many open files, passes.
_LASTING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM)
_HEAD = "# The keys of Windlass's secrets, the newest last. Who has them and the database can read every secret.\n"


class KeyTrouble(InternalError):
    """The keys cannot be used; nothing of them is in the message."""


class DoesNotOpen(KeyTrouble):
    """What was sealed cannot be opened by the keys that are here, and that will not pass."""


class Owner(NamedTuple):
    """What a secret is bound to."""

    workspace: str
    name: str
    version: int


class Keys:
    """Read anew whenever the file changes: another server may have added one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._keys: dict[str, bytes] = {}

    def check(self, needed: set[str]) -> None:
        """Refuse to begin with keys that are missing, wrong, or open to others."""
        self._refuse_lacking(needed - set(self._read() if self._is_there() else ()))

    def make(self, needed: set[str]) -> None:
        """At the first use ever, make the first key; what there is already must be openable."""
        if not self._is_there():
            self._refuse_lacking(needed)
            self._add(is_first=True)

    def add(self) -> str:
        """A new key, with which everything is sealed from now on. Returns its id."""
        self._read()
        return self._add()

    @property
    def current(self) -> str:
        return list(self._read())[-1]

    def seal(self, value: bytes, owner: Owner) -> tuple[bytes, str]:
        """The sealed bytes, and the id of the key that they need."""
        keys = self._read()
        key_id = list(keys)[-1]
        own = secrets.token_bytes(_KEY_BYTES)
        wrapped = _encrypt(keys[key_id], own, _about("key", owner))
        return _FORM + wrapped + _encrypt(own, value, _about("value", owner)), key_id

    def open(self, sealed: bytes, key_id: str, owner: Owner) -> bytes:
        key = self._read(key_id).get(key_id)
        if key is None:
            raise self._lacking({key_id})
        form, wrapped, content = sealed[:1], sealed[1 : 1 + _WRAPPED], sealed[1 + _WRAPPED :]
        try:
            if form != _FORM:
                raise ValueError("another form")
            own = _decrypt(key, wrapped, _about("key", owner))
            return _decrypt(own, content, _about("value", owner))
        except ValueError:
            raise DoesNotOpen(
                f"The secret {owner.name} of workspace {owner.workspace} does not open: its row in the database was "
                "damaged or exchanged.",
                "Set it again.",
            ) from None

    # the file

    def _read(self, wanted: str | None = None) -> dict[str, bytes]:
        """The keys of the file; while it cannot be read, those that are known, if the one that is wanted is."""
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
                log.warning("the key file cannot be read, and the keys that are known go on: %s", e.strerror)
            return self._keys

    def _content(self) -> bytes:
        """What is in the file now, or an error: who writes it anew must not leave out another server's key."""
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

    def _unreadable(self, trouble: OSError) -> WindlassError:
        message = f"The key file {self.path} cannot be read, and without it no secret can: {trouble.strerror}."
        if trouble.errno in _LASTING:
            return KeyTrouble(message, _PUT_BACK)
        return ServerUnavailable(message, "Try again in a moment.")

    def _parse(self, content: bytes) -> dict[str, bytes]:
        lines = [line.strip() for line in content.splitlines() if line.strip() and not line.startswith(b"#")]
        try:
            keys = [bytes.fromhex(line.decode("ascii")) for line in lines]
        except ValueError:
            keys = []
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise KeyTrouble(f"The key file {self.path} is damaged.", _PUT_BACK)
        return {_id(key): key for key in keys}

    def _refuse_open_to_others(self, seen: os.stat_result) -> None:
        if stat.S_IMODE(seen.st_mode) & 0o077:
            raise KeyTrouble(
                f"The key file {self.path} can be read by others.",
                f"If nobody has: chmod 600 {self.path}. Else rotate the key after that: windlass secret rotate-key",
            )
        if seen.st_uid not in (0, os.geteuid()):
            raise KeyTrouble(f"The key file {self.path} belongs to another user.", "Give it to the server's user.")

    def _refuse_lacking(self, lacking: set[str]) -> None:
        if lacking:
            raise self._lacking(lacking)

    def _lacking(self, lacking: set[str]) -> DoesNotOpen:
        named = ", ".join(sorted(lacking))
        what = "does not have that key" if self._is_there() else "is not there"
        return DoesNotOpen(
            f"Secrets in the database are sealed with the key {named}, and the key file {self.path} {what}.",
            _PUT_BACK,
        )

    def _add(self, is_first: bool = False) -> str:
        """There is a whole file with the old keys, or a whole one with the new one too."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone(self.path.with_name(f".{self.path.name}.lock")):
                known = self._parse(self._content()) if self._is_there() else {}
                if is_first and known:
                    return self.current
                key = secrets.token_bytes(_KEY_BYTES)
                private_file.replace(self.path, _HEAD + "".join(f"{each.hex()}\n" for each in (*known.values(), key)))
                return _id(key)
        except OSError as e:
            raise KeyTrouble(f"The key file {self.path} cannot be written: {e.strerror}.") from e


_PUT_BACK = (
    "Put back the key file that belongs to this database (servers that share one share the file: key_file names it)."
)


def _id(key: bytes) -> str:
    return hashlib.sha256(b"windlass key id\0" + key).hexdigest()[:16]


def _about(what: str, owner: Owner) -> bytes:
    return json.dumps(["windlass secret", what, *owner], separators=(",", ":")).encode("ascii")


def _encrypt(key: bytes, value: bytes, about: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # late: servers without secrets start without it

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, value, about)


def _decrypt(key: bytes, sealed: bytes, about: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about)
    except InvalidTag:
        raise ValueError("not what was sealed") from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
