"""Registered environments, in versions that never change, and the wheels of a workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.store.access.audit import AuditEntry, append
from windlass.store.catalog.workspaces import get_workspace
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import now
from windlass.store.db.schema import environments, wheels

_TRIES = 20
_SEE = "What there is: windlass environment list, or Environment.list(workspace)."
# A requirement that names a wheel of the store.
_WHEEL = re.compile(r"wheel:([0-9a-f]{64})/")


@dataclass(frozen=True, slots=True)
class EnvironmentVersion:
    name: str
    version: str
    definition: Mapping[str, Any]  # in Azure's format; the server does not interpret it
    created_by: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Wheel:
    name: str
    digest: str
    size: int
    created_by: str
    created_at: datetime


_ALL = select(*(environments.c[name] for name in EnvironmentVersion.__dataclass_fields__))
_LATEST_FIRST = (environments.c.created_at.desc(), environments.c.version.desc())
_WHEELS = select(*(wheels.c[name] for name in Wheel.__dataclass_fields__))


class Environments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def register(
        self, workspace: str, name: str, definition: Mapping[str, Any], by: str, version: str | None = None
    ) -> EnvironmentVersion:
        """Register a version; without `version`, under the next number unless the latest has the same definition."""

        def transaction(connection: Connection) -> EnvironmentVersion:
            there = _find(connection, workspace, name, version)
            if there is not None and there.definition == definition:
                return there
            if there is not None and version is not None:
                raise Conflict(
                    f"The version {version} of the environment {name} says something else, and versions never change.",
                    hint="Choose another one, or environment.version = None for the next number.",
                )
            number, at = _next(connection, workspace, name)
            made = EnvironmentVersion(name, version or str(number), dict(definition), by, at)
            row = {field: getattr(made, field) for field in EnvironmentVersion.__dataclass_fields__}
            connection.execute(insert(environments).values(workspace=workspace, **row))
            append(connection, AuditEntry(workspace, by, "environment.register", name, {"version": made.version}))
            return made

        for _ in range(_TRIES):
            try:
                return self._database.write(transaction)
            except IntegrityError:  # another request was faster, or there is no such workspace
                self._database.read(lambda c: get_workspace(c, workspace))
        raise Conflict(f"The environment {name} is being registered by many at once.", hint="Try again.")

    def get(self, workspace: str, name: str, version: str | None = None) -> EnvironmentVersion:
        """The given version, or the latest."""
        found = self._database.read(lambda c: _find(c, workspace, name, version))
        if found is None:
            which = f"version {version} of the environment {name}" if version else f"environment {name}"
            raise NotFound(f"There is no {which} in workspace {workspace}.", hint=_SEE)
        return found

    def versions(self, workspace: str, name: str) -> list[EnvironmentVersion]:
        """All versions of an environment, the latest first."""
        asked = _ALL.where(environments.c.workspace == workspace, environments.c.name == name).order_by(*_LATEST_FIRST)
        found = self._database.read(lambda c: [EnvironmentVersion(*row) for row in c.execute(asked)])
        if not found:
            raise NotFound(f"There is no environment {name} in workspace {workspace}.", hint=_SEE)
        return found

    def list(self, workspace: str) -> list[EnvironmentVersion]:
        """The latest version of each environment."""
        latest = (
            select(environments.c.name, func.max(environments.c.created_at).label("created_at"))
            .where(environments.c.workspace == workspace)
            .group_by(environments.c.name)
            .subquery()
        )
        is_latest = (environments.c.name == latest.c.name) & (environments.c.created_at == latest.c.created_at)
        asked = _ALL.join(latest, is_latest).where(environments.c.workspace == workspace)
        ordered = asked.order_by(environments.c.name, environments.c.version)
        found = self._database.read(lambda c: [EnvironmentVersion(*row) for row in c.execute(ordered)])
        return list({each.name: each for each in found}.values())

    def keep_wheel(
        self, workspace: str, name: str, digest: str, size: int, by: str, exist_ok: bool = False
    ) -> tuple[Wheel, bool]:
        """Name a blob as a wheel; returns the wheel, and whether it is new. A name never gets other bytes."""
        added = insert_or(wheels).values(
            workspace=workspace, name=name, digest=digest, size=size, created_by=by, created_at=now()
        )

        def transaction(connection: Connection) -> tuple[Wheel, bool]:
            get_workspace(connection, workspace)
            is_new = connection.execute(added.on_conflict_do_nothing().returning(wheels.c.name)).one_or_none()
            named = (wheels.c.workspace == workspace) & (wheels.c.name == name)
            there = Wheel(*connection.execute(_WHEELS.where(named)).one())
            if is_new is None and there.digest != digest:
                raise Conflict(f"The workspace has another wheel {name}.", hint="Give the new one another version.")
            if is_new is None and not exist_ok:
                raise AlreadyExists(f"The workspace has the wheel {name} already.", hint="Pass exist_ok=True.")
            return there, is_new is not None

        return self._database.write(transaction)


def digests_of_environments(connection: Connection) -> set[str]:
    """The digests of the blobs that environments refer to, and of all wheels."""
    named = set(connection.execute(select(wheels.c.digest)).scalars())
    for definition in connection.execute(select(environments.c.definition)).scalars():
        named.update(digest for text in _texts(definition) for digest in _WHEEL.findall(text))
    return named


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _find(connection: Connection, workspace: str, name: str, version: str | None) -> EnvironmentVersion | None:
    """The given version, or the one that was registered last."""
    asked = _ALL.where(environments.c.workspace == workspace, environments.c.name == name)
    if version is not None:
        asked = asked.where(environments.c.version == version)
    row = connection.execute(asked.order_by(*_LATEST_FIRST).limit(1)).one_or_none()
    return None if row is None else EnvironmentVersion(*row)


def _next(connection: Connection, workspace: str, name: str) -> tuple[int, datetime]:
    """The next version number, and a time after those of all versions: it decides which is the latest, and clocks
    differ.
    """
    asked = select(environments.c.version, environments.c.created_at)
    there = connection.execute(asked.where(environments.c.workspace == workspace, environments.c.name == name)).all()
    numbers = [int(version) for version, _ in there if version.isdecimal()]
    times = [at + timedelta(microseconds=1) for _, at in there]
    return max(numbers, default=0) + 1, max([now(), *times])
