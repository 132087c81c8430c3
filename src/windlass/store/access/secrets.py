"""Secrets as encrypted ("sealed") bytes; the store has no key. Every change adds a row to the audit log.

Names with a '/' are the server's own: target/<target>/<what> and connection/<connection>/<what> for credentials,
run/<job> for the values that are redacted in the logs of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, String, bindparam, cast, delete, insert, literal, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.errors import Conflict, NotFound
from windlass.store.access.audit import AuditEntry, append
from windlass.store.catalog.workspaces import get_workspace
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import now, starts_with
from windlass.store.db.schema import attempts, runs, secrets

OF_RUNS = "run/"
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Sealed:
    """Encrypted bytes, and the id of the key that decrypts them."""

    content: bytes = field(repr=False)
    key_id: str


@dataclass(frozen=True, slots=True)
class SealedCredential:
    """A credential of a target or a connection, encrypted for that version of the secret."""

    name: str
    version: int
    sealed: Sealed


@dataclass(frozen=True, slots=True)
class Secret:
    workspace: str
    name: str
    version: int
    sealed: bytes = field(repr=False)
    key_id: str
    granted_to: str  # "runs", "named runs" or "nobody"
    created_by: str
    created_at: datetime
    changed_at: datetime
    content_type: str | None


_OF = secrets.c.workspace == bindparam("of")
_NAMED = secrets.c.name == bindparam("named")
_ALL = select(*(secrets.c[name] for name in Secret.__dataclass_fields__))
_GET = _ALL.where(_OF, _NAMED)
_LIST = _ALL.where(_OF, secrets.c.name.not_like("%/%")).order_by(secrets.c.name)
_VERSION = select(secrets.c.version).where(_OF, _NAMED)
_KEYS = select(secrets.c.key_id).distinct()
_OTHERS = _ALL.where(secrets.c.key_id != bindparam("key")).order_by(secrets.c.workspace, secrets.c.name)
_ADD = insert(secrets)
_DROP = delete(secrets).where(_OF, _NAMED)
_ACTIVE = (
    select(literal(OF_RUNS) + runs.c.id + "." + cast(attempts.c.number, String))
    .join(attempts, attempts.c.run == runs.c.pk)
    .where(runs.c.queue_state.is_not(None))
)
_DROP_ENDED = delete(secrets).where(starts_with(secrets.c.name, OF_RUNS), secrets.c.name.not_in(_ACTIVE))
_MASK = insert_or(secrets)
_MASK = _MASK.on_conflict_do_update(
    index_elements=["workspace", "name"],
    set_={name: _MASK.excluded[name] for name in ("sealed", "key_id", "changed_at")},
)


class Secrets:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, workspace: str, name: str) -> Secret:
        return self._database.read(lambda c: _get(c, workspace, name))

    def find(self, workspace: str, name: str) -> Secret | None:
        row = self._database.read(lambda c: c.execute(_GET, {"of": workspace, "named": name}).one_or_none())
        return None if row is None else Secret(*row)

    def put(
        self,
        workspace: str,
        name: str,
        version: int,
        sealed: Sealed,
        granted_to: str,
        by: str,
        content_type: str | None = None,
    ) -> Secret:
        """Store a new version if it is the next one (compare-and-set): the bytes are encrypted for that version."""

        def transaction(connection: Connection) -> Secret:
            append(connection, put_version(connection, workspace, name, version, sealed, granted_to, by, content_type))
            return _get(connection, workspace, name)

        try:
            return self._database.write(transaction)
        except IntegrityError:
            self._database.read(lambda c: get_workspace(c, workspace))
            raise _changed(name) from None

    def grant(self, workspace: str, name: str, granted_to: str, by: str) -> Secret:
        def transaction(connection: Connection) -> Secret:
            there = _get(connection, workspace, name)
            _change(connection, workspace, name, there.version, {"granted_to": granted_to})
            append(connection, AuditEntry(workspace, by, "secret.grant", name, {"granted_to": granted_to}))
            return _get(connection, workspace, name)

        return self._database.write(transaction)

    def delete(self, workspace: str, name: str, by: str) -> None:
        def transaction(connection: Connection) -> None:
            version = _get(connection, workspace, name).version
            connection.execute(_DROP, {"of": workspace, "named": name})
            append(connection, AuditEntry(workspace, by, "secret.delete", name, {"version": version}))

        self._database.write(transaction)

    def use(
        self,
        used: Sequence[Secret],
        by: str,
        act: str,
        details: Mapping[str, Any],
        masks: tuple[str, Sealed] | None = None,
    ) -> None:
        """Record in the audit log that these secrets are about to be used; Conflict if one was changed or deleted since
        it was read. `masks` are a job and the encrypted values to redact in its logs, stored in the same transaction.
        """

        def transaction(connection: Connection) -> None:
            for secret in used:
                asked = {"of": secret.workspace, "named": secret.name}
                if connection.execute(_VERSION, asked).scalar_one_or_none() != secret.version:
                    raise _changed(secret.name)
            if masks is not None:
                connection.execute(_MASK, _mask_row(used[0].workspace, *masks))
            entries = [AuditEntry(s.workspace, by, act, s.name, {"version": s.version, **details}) for s in used]
            append(connection, *entries)

        self._database.write(transaction)

    # Encryption keys

    def keys(self) -> set[str]:
        """The ids of the keys that some secret is encrypted with."""
        return set(self._database.read(lambda c: c.execute(_KEYS).scalars().all()))

    def sealed_with_other_keys(self, key_id: str) -> list[Secret]:
        """The secrets of all workspaces that are encrypted with another key than this one."""
        return self._database.read(lambda c: [Secret(*row) for row in c.execute(_OTHERS, {"key": key_id})])

    def reseal(self, secret: Secret, sealed: Sealed, by: str) -> bool:
        """Replace the bytes of a secret by the same value under another key; False if it was changed meanwhile."""
        values = {"sealed": sealed.content, "key_id": sealed.key_id}
        details = {"from": secret.key_id, "to": sealed.key_id, "version": secret.version}

        def transaction(connection: Connection) -> bool:
            change = update(secrets).where(
                secrets.c.workspace == secret.workspace,
                secrets.c.name == secret.name,
                secrets.c.version == secret.version,
                secrets.c.sealed == secret.sealed,
            )
            if connection.execute(change.values(**values)).rowcount == 0:
                return False
            append(connection, AuditEntry(secret.workspace, by, "secret.reseal", secret.name, details))
            return True

        return self._database.write(transaction)

    def record_rotation(self, workspace: str, key_id: str, by: str) -> None:
        self._database.write(lambda c: append(c, AuditEntry(workspace, by, "key.rotate", key_id)))

    # Values that are redacted in the logs of runs

    def drop_masks_of_ended(self) -> None:
        """Delete the redacted values of runs that have ended or were removed; usually the end of the run deletes
        them.
        """
        self._database.write(lambda c: c.execute(_DROP_ENDED), durable=False)

    def list(self, workspace: str) -> list[Secret]:
        """The secrets that people set, by name; not the server's own."""
        return self._database.read(lambda c: [Secret(*row) for row in c.execute(_LIST, {"of": workspace})])


def put_version(
    connection: Connection,
    workspace: str,
    name: str,
    version: int,
    sealed: Sealed,
    granted_to: str,
    by: str,
    content_type: str | None = None,
) -> AuditEntry:
    """Store a new version, as part of a transaction; returns the entry for the audit log."""
    values = {"version": version, "sealed": sealed.content, "key_id": sealed.key_id, "granted_to": granted_to}
    values["content_type"] = content_type
    if version == 1:
        created = {"workspace": workspace, "name": name, "created_by": by, "created_at": now()}
        connection.execute(_ADD, {**created, **values, "changed_at": created["created_at"]})
    else:
        _change(connection, workspace, name, version - 1, {**values, "changed_at": now()})
    return AuditEntry(workspace, by, "secret.set", name, {"version": version, "granted_to": granted_to})


def drop_below(
    connection: Connection, workspace: str, folder: str, by: str, but: Sequence[str] = ()
) -> list[AuditEntry]:
    """Delete the secrets below `folder`, except the names in `but`; returns the entries for the audit log."""
    below = starts_with(secrets.c.name, f"{folder}/") & secrets.c.name.not_in(but)
    gone = delete(secrets).where(secrets.c.workspace == workspace, below).returning(secrets.c.name)
    names = sorted(connection.execute(gone).scalars())
    return [AuditEntry(workspace, by, "secret.delete", name) for name in names]


def replace_below(
    connection: Connection, workspace: str, folder: str, credentials: Sequence[SealedCredential], by: str
) -> list[AuditEntry]:
    """Replace the credentials below `folder`, granted to no run; returns the entries for the audit log."""
    entries = drop_below(connection, workspace, folder, by, but=[each.name for each in credentials])
    for each in credentials:
        entries.append(put_version(connection, workspace, each.name, each.version, each.sealed, NOBODY, by))
    return entries


def drop_masks(connection: Connection, workspace: str, job: str) -> None:
    """Delete the redacted values of a job, in the transaction that ends its run: its logs are complete."""
    connection.execute(_DROP, {"of": workspace, "named": OF_RUNS + job})


def _get(connection: Connection, workspace: str, name: str) -> Secret:
    row = connection.execute(_GET, {"of": workspace, "named": name}).one_or_none()
    if row is None:
        raise NotFound(f"There is no secret {name}.", "`windlass secret list` lists those that there are.")
    return Secret(*row)


def _change(connection: Connection, workspace: str, name: str, version: int, values: Mapping[str, Any]) -> None:
    change = update(secrets).where(
        secrets.c.workspace == workspace, secrets.c.name == name, secrets.c.version == version
    )
    if connection.execute(change.values(**values)).rowcount == 0:
        raise _changed(name)


def _changed(name: str) -> Conflict:
    return Conflict(f"The secret {name} was changed in this moment.", "Try again.")


def _mask_row(workspace: str, job: str, sealed: Sealed) -> dict[str, Any]:
    row = {"workspace": workspace, "name": OF_RUNS + job, "version": 1, "granted_to": "nobody", "created_by": ""}
    return {**row, "sealed": sealed.content, "key_id": sealed.key_id, "created_at": now(), "changed_at": now()}
