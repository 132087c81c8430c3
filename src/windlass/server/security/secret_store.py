"""Secret store of the workspaces: values are sealed before they are stored and opened at the last moment; each use is
committed to the audit log before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from windlass.core.errors import Conflict, InvalidRequest, TooLarge
from windlass.failpoints import reach
from windlass.server.security.key_file import CannotUnseal, KeyFile, Owner
from windlass.store import Store
from windlass.store.access.secrets import Sealed, Secret

log = logging.getLogger(__name__)

RUNS, NAMED_RUNS, NOBODY = "runs", "named runs", "nobody"  # to which runs a secret is granted
LARGEST = 64 << 10
SERVER = "server"
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Rotation:
    key_id: str
    resealed: int
    refused: tuple[Secret, ...]  # secrets that could not be opened


@dataclass(frozen=True, slots=True)
class TargetSecrets:
    """The secrets of one target, for its driver: implements drivers.base.Secrets."""

    secret_store: SecretStore
    workspace: str
    target: str

    def get(self, name: str) -> SecretStr:
        return self.secret_store.use(self.workspace, name, SERVER, {"target": self.target})


class SecretStore:
    def __init__(self, store: Store, keys: KeyFile) -> None:
        self._store = store
        self._keys = keys
        # Workspaces without secrets, cached if no other server can add any: a submit there needs no query.
        self._empty: set[str] = set()
        self._puts = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Raise an error if keys are missing; go on with a rotation that was interrupted."""
        needed = self._store.secrets.keys()
        self._keys.check(needed)
        if needed - {self._keys.current if needed else ""}:
            self._reseal(SERVER)

    def put(
        self,
        workspace: str,
        name: str,
        value: SecretStr,
        granted_to: str | None,
        by: str,
        content_type: str | None = None,
    ) -> Secret:
        """Set a secret. Without `granted_to`, an existing one keeps its grant, and a new one is for all runs."""
        content = _checked(name, value)
        self._keys.make(self._store.secrets.keys())
        for left in reversed(range(_TRIES)):
            there = self._store.secrets.find(workspace, name)
            version = there.version + 1 if there else 1
            sealed = self.seal(content, Owner(workspace, name, version))
            grant = granted_to or (there.granted_to if there else RUNS)
            try:
                kept = self._store.secrets.put(workspace, name, version, sealed, grant, by, content_type)
                self._note_put()
                return kept
            except Conflict:  # another request has set it meanwhile
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def sealed(self, workspace: str, values: Mapping[str, SecretStr]) -> list[tuple[str, int, Sealed]]:
        """Names, next versions and sealed values, to be stored in one transaction with something else."""
        self._keys.make(self._store.secrets.keys())
        found = []
        for name, value in values.items():
            there = self._store.secrets.find(workspace, name)
            version = there.version + 1 if there else 1
            found.append((name, version, self.seal(_checked(name, value), Owner(workspace, name, version))))
        return found

    def grant(self, workspace: str, name: str, granted_to: str, by: str) -> Secret:
        return self._store.secrets.grant(workspace, name, granted_to, by)

    def delete(self, workspace: str, name: str, by: str) -> None:
        self._store.secrets.delete(workspace, name, by)

    def of_target(self, workspace: str, target: str) -> TargetSecrets:
        return TargetSecrets(self, workspace, target)

    def use(self, workspace: str, name: str, by: str, purpose: Mapping[str, Any]) -> SecretStr:
        """The value of a secret. Its use, with principal and purpose, is committed to the audit log first."""
        secret = self._store.secrets.get(workspace, name)
        value = self.open(secret)
        self._store.secrets.use([secret], by, "secret.use", purpose)
        return SecretStr(value.decode())

    def _note_put(self) -> None:
        with self._lock:
            self._puts += 1
            self._empty.clear()

    def fetch(self, workspace: str, name: str, by: str) -> Secret:
        """A sealed secret, for a user who has the key file. The request is committed to the audit log first."""
        secret = self._store.secrets.get(workspace, name)
        self._store.secrets.use([secret], by, "secret.fetch", {})
        return secret

    @property
    def key_file(self) -> str:
        return str(self._keys.path)

    # sealing

    def seal(self, content: bytes, owner: Owner) -> Sealed:
        return Sealed(*self._keys.seal(content, owner))

    def open(self, secret: Secret) -> bytes:
        owner = Owner(secret.workspace, secret.name, secret.version)
        return self._keys.open(secret.sealed, secret.key_id, owner)

    def rotate(self, workspace: str, by: str) -> Rotation:
        """Make a new key and seal every secret of every workspace with it. If the server dies meanwhile, the next start
        goes on; until then the old key opens the rest.
        """
        self._keys.make(self._store.secrets.keys())
        key_id = self._keys.add()
        self._store.secrets.record_rotation(workspace, key_id, by)
        return self._reseal(by)

    def _reseal(self, by: str) -> Rotation:
        key_id = self._keys.current
        done, refused = 0, list[Secret]()
        for secret in self._store.secrets.sealed_with_other_keys(key_id):
            try:
                sealed = self.seal(self.open(secret), Owner(secret.workspace, secret.name, secret.version))
            except CannotUnseal as e:
                log.error("key rotation: a secret could not be resealed: %s", e.message)
                refused.append(secret)
                continue
            done += self._store.secrets.reseal(secret, sealed, by)
            reach("F27")
        log.info("key rotation: %s secrets resealed with key=%s", done, key_id)
        return Rotation(key_id, done, tuple(refused))

    def list(self, workspace: str) -> list[Secret]:
        """The secrets that users set. Called by every submit."""
        with self._lock:
            if workspace in self._empty:
                return []
            puts = self._puts
        found = self._store.secrets.list(workspace)
        with self._lock:
            if not found and puts == self._puts and not self._store.is_shared:
                self._empty.add(workspace)
        return found


def _checked(name: str, value: SecretStr) -> bytes:
    content = value.get_secret_value().encode()
    if not content:
        raise InvalidRequest(f"The value of {name} is empty.", "Delete the secret instead.")
    if len(content) > LARGEST:
        raise TooLarge(f"The value of {name} has {len(content):,} bytes; a secret has at most {LARGEST:,}.")
    return content
