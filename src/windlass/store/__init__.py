"""What we remember: rows in SQLite or PostgreSQL, bytes in a folder. Knows entities, nothing above."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from windlass.store.artifacts import Artifacts
from windlass.store.blobs import Blobs
from windlass.store.experiments import Experiments
from windlass.store.logs import Logs
from windlass.store.metrics import Metrics, Series
from windlass.store.queries import Page, RunQuery
from windlass.store.records import Attempt, Ending, Leased, NewRun
from windlass.store.retention import Item, Policy, Retention
from windlass.store.runs import Runs
from windlass.store.settings import Settings
from windlass.store.snapshots import Snapshots
from windlass.store.targets import Targets
from windlass.store.tokens import Token, Tokens
from windlass.store.workspaces import Workspaces

__all__ = [
    "Attempt", "Ending", "Item", "Leased", "NewRun", "Page", "Policy", "RunQuery", "Series", "Store", "Token",
    "open_store",
]  # fmt: skip


@dataclass(frozen=True)
class Store:
    """Everything that is remembered. Safe to use from many threads."""

    workspaces: Workspaces
    experiments: Experiments
    targets: Targets
    runs: Runs
    metrics: Metrics
    blobs: Blobs
    snapshots: Snapshots
    artifacts: Artifacts
    logs: Logs
    settings: Settings
    tokens: Tokens
    retention: Retention
    is_shared: bool  # several servers may use it at once

    def close(self) -> None:
        raise NotImplementedError


def open_store(url: str, files: Path) -> Store:
    """Open the store, migrated to this version: "sqlite:///path/db.sqlite" or "postgresql://…", bytes below `files`."""
    raise NotImplementedError
