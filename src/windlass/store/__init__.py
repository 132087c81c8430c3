"""The store: rows in SQLite or PostgreSQL, files in a folder. It imports core only."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from windlass.core.errors import InvalidRequest
from windlass.store.access.audit import Audit
from windlass.store.access.quotas import Quotas
from windlass.store.access.secrets import Secrets
from windlass.store.access.sessions import NewSession, WebSession, WebSessions
from windlass.store.access.settings import Settings
from windlass.store.access.tokens import Token, Tokens
from windlass.store.catalog.attachments import Attachments
from windlass.store.catalog.connections import Connections
from windlass.store.catalog.environments import Environments
from windlass.store.catalog.experiments import Experiments
from windlass.store.catalog.models import Models
from windlass.store.catalog.node_usage import NodeUsage
from windlass.store.catalog.nodes import NodeRow, Nodes
from windlass.store.catalog.run_configurations import RunConfigurations
from windlass.store.catalog.target_events import TargetEvents
from windlass.store.catalog.targets import Targets
from windlass.store.catalog.workspaces import Workspaces
from windlass.store.db import sqlite_file
from windlass.store.db.base import Database
from windlass.store.db.migrations import migrate
from windlass.store.db.postgresql import PostgresDatabase
from windlass.store.db.sqlite import SqliteDatabase
from windlass.store.files.artifacts import Artifacts
from windlass.store.files.ballast import Ballast
from windlass.store.files.blobs import Blobs
from windlass.store.files.live_logs import LiveLogs
from windlass.store.files.retention import Item, Policy, Retention
from windlass.store.files.snapshots import Snapshots
from windlass.store.metrics.series import Metrics, Series
from windlass.store.runs.admission import CapacityOf
from windlass.store.runs.changes import ChangePosition, Changes
from windlass.store.runs.columns import Columns
from windlass.store.runs.counts import RunCounts
from windlass.store.runs.query import CommandLine, Page, RunQuery
from windlass.store.runs.records import (
    Attempt,
    Capacity,
    ComputerCapacity,
    Ending,
    Leased,
    NewRun,
    Submitted,
    UncleanedAttempt,
    UnfinishedRun,
)
from windlass.store.runs.repository import Runs

__all__ = [
    "Attempt", "Capacity", "CapacityOf", "ChangePosition", "Changes", "Columns", "CommandLine", "ComputerCapacity",
    "Ending", "Item", "Leased", "NewRun", "NewSession", "NodeRow", "Page", "Policy", "RunCounts", "RunQuery", "Series",
    "Store", "Submitted", "Token", "UncleanedAttempt", "UnfinishedRun", "WebSession", "open_store",
]  # fmt: skip


class Store:
    """The repositories of all rows and files. Safe to use from many threads."""

    def __init__(self, database: Database, files: Path, release: Callable[[], None]) -> None:
        self._database = database
        self._release = release
        self.is_shared = database.is_shared  # several servers may use it at once
        self.workspaces = Workspaces(database)
        self.experiments = Experiments(database)
        self.environments = Environments(database)
        self.run_configurations = RunConfigurations(database)
        self.models = Models(database)
        self.targets = Targets(database)
        self.attachments = Attachments(database)
        self.connections = Connections(database)
        self.target_events = TargetEvents(database)
        self.nodes = Nodes(database)
        self.secrets = Secrets(database)
        self.audit = Audit(database)
        self.runs = Runs(database)
        self.metrics = Metrics(database)
        self.blobs = Blobs(files / "blobs")
        self.snapshots = Snapshots(database, self.blobs)
        self.artifacts = Artifacts(database)
        self.logs = LiveLogs(files / "logs", self.blobs)
        self.settings = Settings(database)
        self.tokens = Tokens(database)
        self.sessions = WebSessions(database)
        self.quotas = Quotas(database)
        self.node_usage = NodeUsage(database)
        self.retention = Retention(database, self.blobs, self.logs)

    def keep_ballast(self, reserve: int) -> None:
        """Allocate a file that is removed when the disk of the database is full; called again, allocate it again if
        there is room. No effect on PostgreSQL, or if `reserve` is 0.
        """
        if isinstance(self._database, SqliteDatabase) and reserve:
            if self._database.ballast is None:
                path = self._database.path.with_name(f"{self._database.path.name}.ballast")
                self._database.ballast = Ballast(path, reserve // 8)
            self._database.ballast.fill(kept_free=reserve)

    def close(self) -> None:
        self._database.close()
        self._release()


def open_store(url: str, files: Path) -> Store:
    """Open a store and migrate it to this version's schema. `url` is sqlite:///path/db.sqlite or postgresql://…;
    `files` is the folder of blobs and logs.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/"):
        return _open_sqlite(Path(rest[1:]).absolute(), files)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return _open_postgresql(url, files)
    raise InvalidRequest(
        f"The database's address begins with {scheme[:20]!a}.",
        hint="Use sqlite:///path/db.sqlite or postgresql://host/name.",
    )


def _open_sqlite(path: Path, files: Path) -> Store:
    sqlite_file.prepare(path)
    lock = sqlite_file.FileLock(path.with_name(path.name + ".lock"))
    try:
        database = SqliteDatabase(path)
        try:
            database.check()
            migrate(database, before_upgrade=lambda version: sqlite_file.back_up(path, version))
            store = Store(database, files, lock.release)
            store.blobs.clear_aside(time.time())  # this is the only process, so none of these files is in use
            return store
        except BaseException:
            database.close()
            raise
    except BaseException:
        lock.release()
        raise


def _open_postgresql(url: str, files: Path) -> Store:
    database = PostgresDatabase(url)
    try:
        migrate(database, before_upgrade=lambda version: None)  # the database's administrator makes backups
        return Store(database, files, lambda: None)
    except BaseException:
        database.close()
        raise
