"""Registered models, in versions. Their files never change; description, tags and new properties may be set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from windlass.core.errors import Conflict, NotFound
from windlass.store.access.audit import AuditEntry, append
from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import models, workspaces

_SEE = "What there is: windlass model list, or Model.list(workspace)."


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class NewModel:
    name: str
    files: Sequence[ModelFile]
    run: str | None = None
    experiment: str | None = None
    description: str = ""
    framework: str = ""
    framework_version: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    version: int
    run: str | None
    experiment: str | None
    description: str
    framework: str
    framework_version: str
    tags: Mapping[str, str]
    properties: Mapping[str, str]
    files: Sequence[ModelFile]
    created_by: str
    created_at: datetime
    changed_at: datetime


_ALL = select(*(models.c[name] for name in Model.__dataclass_fields__)).where(models.c.deleted_at.is_(None))


class Models:
    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, workspace: str, new: NewModel, by: str) -> Model:
        """Register the next version of a model."""

        def transaction(connection: Connection) -> Model:
            _lock_workspace(connection, workspace)
            at = now()
            row = {
                **asdict(new),
                "version": _last(connection, workspace, new.name) + 1,
                "files": [[file.path, file.digest, file.size] for file in new.files],
                "created_by": by,
                "created_at": at,
                "changed_at": at,
            }
            connection.execute(insert(models).values(workspace=workspace, **row))
            append(connection, AuditEntry(workspace, by, "model.register", new.name, {"version": row["version"]}))
            return _get(connection, workspace, new.name, row["version"])

        return self._database.write(transaction)

    def get(self, workspace: str, name: str, version: int | None = None) -> Model:
        """The given version, or the latest."""
        return self._database.read(lambda c: _get(c, workspace, name, version))

    def list(
        self, workspace: str, name: str | None = None, run: str | None = None, is_latest: bool = False
    ) -> list[Model]:
        """Models, the latest first; with `is_latest`, the latest version of each name only."""
        asked = _ALL.where(models.c.workspace == workspace).order_by(
            models.c.created_at.desc(), models.c.name, models.c.version.desc()
        )
        if name is not None:
            asked = asked.where(models.c.name == name)
        if run is not None:
            asked = asked.where(models.c.run == run)
        if is_latest:
            last = (
                select(models.c.name, func.max(models.c.version).label("version"))
                .where(models.c.workspace == workspace, models.c.deleted_at.is_(None))
                .group_by(models.c.name)
                .subquery()
            )
            asked = asked.join(last, (models.c.name == last.c.name) & (models.c.version == last.c.version))
        return self._database.read(lambda c: [_model(row) for row in c.execute(asked)])

    def describe(
        self,
        workspace: str,
        name: str,
        version: int,
        by: str,
        description: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Model:
        """Change description, tags and properties. A tag with the value None is removed; properties are written
        once.
        """

        def transaction(connection: Connection) -> Model:
            _lock_workspace(connection, workspace)
            there = _get(connection, workspace, name, version)
            for key, value in (properties or {}).items():
                if there.properties.get(key, value) != value:
                    raise Conflict(f"The property {key} of the model {name}:{version} is set, and properties stay.")
            changed = {**there.tags, **(tags or {})}
            values = {
                "description": there.description if description is None else description,
                "tags": {key: value for key, value in changed.items() if value is not None},
                "properties": {**there.properties, **(properties or {})},
                "changed_at": now(),
            }
            connection.execute(update(models).where(*_which(workspace, name, version)).values(**values))
            append(connection, AuditEntry(workspace, by, "model.describe", name, {"version": version}))
            return _get(connection, workspace, name, version)

        return self._database.write(transaction)

    def delete(self, workspace: str, name: str, version: int, by: str) -> Model:
        """Delete a version. Retention removes its blobs when nothing else refers to them."""

        def transaction(connection: Connection) -> Model:
            gone = _get(connection, workspace, name, version)
            emptied = {"files": [], "deleted_at": now()}
            connection.execute(update(models).where(*_which(workspace, name, version)).values(**emptied))
            append(connection, AuditEntry(workspace, by, "model.delete", name, {"version": version}))
            return gone

        return self._database.write(transaction)


def digests_of_models(connection: Connection) -> set[str]:
    """The digests of the files of models."""
    return {file[1] for files in connection.execute(select(models.c.files)).scalars() for file in files}


def _which(workspace: str, name: str, version: int) -> tuple[Any, ...]:
    return models.c.workspace == workspace, models.c.name == name, models.c.version == version


def _get(connection: Connection, workspace: str, name: str, version: int | None) -> Model:
    asked = _ALL.where(models.c.workspace == workspace, models.c.name == name)
    if version is not None:
        asked = asked.where(models.c.version == version)
    row = connection.execute(asked.order_by(models.c.version.desc()).limit(1)).one_or_none()
    if row is None:
        which = f"version {version} of the model {name}" if version is not None else f"model {name}"
        raise NotFound(f"There is no {which} in workspace {workspace}.", hint=_SEE)
    return _model(row)


def _model(row: Any) -> Model:
    values = dict(row._mapping)
    return Model(**{**values, "files": [ModelFile(*file) for file in values["files"]]})


def _lock_workspace(connection: Connection, workspace: str) -> None:
    """Serialize changes of models of a workspace: version numbers, tags and properties."""
    asked = select(workspaces.c.name).where(workspaces.c.name == workspace).with_for_update()
    if connection.execute(asked).one_or_none() is None:
        raise NotFound(f"There is no workspace {workspace}.")


def _last(connection: Connection, workspace: str, name: str) -> int:
    """The last version number, of deleted versions too."""
    asked = select(func.max(models.c.version)).where(models.c.workspace == workspace, models.c.name == name)
    return connection.execute(asked).scalar_one() or 0
