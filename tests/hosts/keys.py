"""SSH keys and certificates, made by ssh-keygen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.hosts.commands import run


@dataclass(frozen=True)
class Key:
    """A key pair in two files, as OpenSSH writes them."""

    path: Path

    @classmethod
    def make(cls, path: Path, kind: str = "ed25519", passphrase: str = "", comment: str = "test") -> Key:
        run("ssh-keygen", "-q", "-a", "1", "-t", kind, "-N", passphrase, "-C", comment, "-f", path)
        return cls(path)

    @property
    def private(self) -> str:
        return self.path.read_text()

    @property
    def public(self) -> str:
        """One line: type, key, comment."""
        return self.path.with_name(f"{self.path.name}.pub").read_text().strip()

    @property
    def fingerprint(self) -> str:
        """As ssh shows it: SHA256:..."""
        return run("ssh-keygen", "-l", "-f", self.path).split()[1]

    def certify(self, other: Key, user: str) -> Path:
        """This key, as an authority, signs another one for a user: the certificate's file, beside that key."""
        public = other.path.with_name(f"{other.path.name}.pub")
        run("ssh-keygen", "-q", "-s", self.path, "-I", "test", "-n", user, "-V", "-5m:+1d", public)
        return other.path.with_name(f"{other.path.name}-cert.pub")
