"""Secrets as they are kept: sealed bytes, which nothing in here can open. Every change leaves a row in the audit.

Names with a '/' are the server's own: target/<target>/<what> and connection/<connection>/<what> for what opens those,
run/<job> for what is masked in the logs of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, String, bindparam, cast, delete, insert, literal, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.errors import Conflict, NotFound
from windlass.store.access.audit import Act, append
from windlass.store.catalog.workspaces import get_workspace
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import begins, now
from windlass.store.db.schema import attempts, runs, secrets

OF_RUNS = "run/"
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Sealed:
    """Bytes that open with the key of that id only."""

    content: bytes = field(repr=False)
    key_id: str


@dataclass(frozen=True, slots=True)
class SealedCredential:
    """What opens a target or a connection, sealed for that version."""

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
    .where(runs.c.place.is_not(None))
)
_DROP_ENDED = delete(secrets).where(begins(secrets.c.name, OF_RUNS), secrets.c.name.not_in(_ACTIVE))
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
        """Keep a new version, if it is the next one: what is sealed is sealed for that."""

        def act(connection: Connection) -> Secret:
            append(connection, keep(connection, workspace, name, version, sealed, granted_to, by, content_type))
            return _get(connection, workspace, name)

        try:
            return self._database.write(act)
        except IntegrityError:
            self._database.read(lambda c: get_workspace(c, workspace))
            raise _changed(name) from None

    def grant(self, workspace: str, name: str, granted_to: str, by: str) -> Secret:
        def act(connection: Connection) -> Secret:
            there = _get(connection, workspace, name)
            _change(connection, workspace, name, there.version, {"granted_to": granted_to})
            append(connection, Act(workspace, by, "secret.grant", name, {"granted_to": granted_to}))
            return _get(connection, workspace, name)

        return self._database.write(act)

    def delete(self, workspace: str, name: str, by: str) -> None:
        def act(connection: Connection) -> None:
            version = _get(connection, workspace, name).version
            connection.execute(_DROP, {"of": workspace, "named": name})
            append(connection, Act(workspace, by, "secret.delete", name, {"version": version}))

        self._database.write(act)

    def use(
        self,
        used: Sequence[Secret],
        by: str,
        act: str,
        details: Mapping[str, Any],
        masks: tuple[str, Sealed] | None = None,
    ) -> None:
        """Say that these are about to be used, as they are; Conflict if one was changed or deleted meanwhile. With
        `masks`, what the logs of that job must not show is kept with it.
        """

        def write(connection: Connection) -> None:
            for secret in used:
                asked = {"of": secret.workspace, "named": secret.name}
                if connection.execute(_VERSION, asked).scalar_one_or_none() != secret.version:
                    raise _changed(secret.name)
            if masks is not None:
                connection.execute(_MASK, _mask_row(used[0].workspace, *masks))
            told = [Act(s.workspace, by, act, s.name, {"version": s.version, **details}) for s in used]
            append(connection, *told)

        self._database.write(write)

    # The key that they are sealed with

    def keys(self) -> set[str]:
        """The keys without which something in here could not be opened."""
        return set(self._database.read(lambda c: c.execute(_KEYS).scalars().all()))

    def sealed_otherwise(self, key_id: str) -> list[Secret]:
        """Those of every workspace that this key does not open."""
        return self._database.read(lambda c: [Secret(*row) for row in c.execute(_OTHERS, {"key": key_id})])

    def reseal(self, secret: Secret, sealed: Sealed, by: str) -> bool:
        """Keep the same secret under another key; False if somebody has changed it meanwhile."""
        values = {"sealed": sealed.content, "key_id": sealed.key_id}
        told = {"from": secret.key_id, "to": sealed.key_id, "version": secret.version}

        def act(connection: Connection) -> bool:
            change = update(secrets).where(
                secrets.c.workspace == secret.workspace,
                secrets.c.name == secret.name,
                secrets.c.version == secret.version,
                secrets.c.sealed == secret.sealed,
            )
            if connection.execute(change.values(**values)).rowcount == 0:
                return False
            append(connection, Act(secret.workspace, by, "secret.reseal", secret.name, told))
            return True

        return self._database.write(act)

    def record_rotation(self, workspace: str, key_id: str, by: str) -> None:
        self._database.write(lambda c: append(c, Act(workspace, by, "key.rotate", key_id)))

    # What is masked in the logs of runs

    def drop_masks_of_ended(self) -> None:
        """Those of runs that have ended, or are not there any more: mostly they went with the end."""
        self._database.write(lambda c: c.execute(_DROP_ENDED), durable=False)

    def list(self, workspace: str) -> list[Secret]:
        """Those that people set, by name."""
        return self._database.read(lambda c: [Secret(*row) for row in c.execute(_LIST, {"of": workspace})])


def keep(
    connection: Connection,
    workspace: str,
    name: str,
    version: int,
    sealed: Sealed,
    granted_to: str,
    by: str,
    content_type: str | None = None,
) -> Act:
    """A new version, as part of a transaction; returns what is to be told of it."""
    values = {"version": version, "sealed": sealed.content, "key_id": sealed.key_id, "granted_to": granted_to}
    values["content_type"] = content_type
    if version == 1:
        born = {"workspace": workspace, "name": name, "created_by": by, "created_at": now()}
        connection.execute(_ADD, {**born, **values, "changed_at": born["created_at"]})
    else:
        _change(connection, workspace, name, version - 1, {**values, "changed_at": now()})
    return Act(workspace, by, "secret.set", name, {"version": version, "granted_to": granted_to})


def drop_below(connection: Connection, workspace: str, folder: str, by: str, but: Sequence[str] = ()) -> list[Act]:
    """All whose names begin with `folder` and a '/', but those; returns what is to be told of it."""
    below = begins(secrets.c.name, f"{folder}/") & secrets.c.name.not_in(but)
    gone = delete(secrets).where(secrets.c.workspace == workspace, below).returning(secrets.c.name)
    names = sorted(connection.execute(gone).scalars())
    return [Act(workspace, by, "secret.delete", name) for name in names]


def replace_below(
    connection: Connection, workspace: str, folder: str, credentials: Sequence[SealedCredential], by: str
) -> list[Act]:
    """Keep these credentials, granted to no run, and no others of the folder; returns the acts for the audit."""
    acts = drop_below(connection, workspace, folder, by, but=[each.name for each in credentials])
    for each in credentials:
        acts.append(keep(connection, workspace, each.name, each.version, each.sealed, NOBODY, by))
    return acts


def drop_masks(connection: Connection, workspace: str, job: str) -> None:
    """As part of the transaction that ends its run: the logs of that job are complete."""
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
