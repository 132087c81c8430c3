"""A host's own account: who may log in there, with a home and a password of its own."""

from __future__ import annotations

import ctypes
import os
import secrets
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    home: Path
    shell: str
    password: str

    def write(self, folder: Path) -> None:
        """The machine's passwd, group and shadow with this account in addition; the host sees them as its own."""
        _extend(
            "/etc/passwd", folder / "passwd", f"{self.name}:x:{self.uid}:{self.uid}::{self.home}:{self.shell}", 0o644
        )
        _extend("/etc/group", folder / "group", f"{self.name}:x:{self.uid}:", 0o644)
        _extend("/etc/shadow", folder / "shadow", f"{self.name}:{_hashed(self.password)}:19000:0:99999:7:::", 0o600)

    def make_home(self) -> None:
        self.home.mkdir(mode=0o700)
        self.own(self.home)

    def own(self, *paths: Path) -> None:
        for path in paths:
            os.chown(path, self.uid, self.uid)


def _extend(machines: str, own: Path, line: str, mode: int) -> None:
    own.write_text(Path(machines).read_text().rstrip("\n") + f"\n{line}\n")
    own.chmod(mode)


def _hashed(password: str) -> str:
    """As the shadow file wants it. Few rounds: the password is random, and nobody shall wait for it."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    hashed: bytes = crypt(password.encode(), f"$6$rounds=1000${secrets.token_hex(8)}".encode())
    return hashed.decode()
