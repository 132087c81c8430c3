"""What the routes share: one value, made at start and never changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from windlass.server.execution.reconciler import Reconciler
from windlass.server.execution.target_service import TargetService
from windlass.server.hub import Hub
from windlass.server.keystore import KeyStore
from windlass.server.settings import Settings
from windlass.store import Store


class Clusters(Protocol):
    """The service that creates and removes nodes of clusters."""

    def evict(self, workspace: str, target: str, node: str | None) -> list[str]:
        """Take this node away, or all of them; returns the ids of those that go. SpecNotSupported for a target that
        has no nodes of ours, NotFound for a node that it does not have.
        """


@dataclass(frozen=True, slots=True)
class Context:
    settings: Settings
    store: Store
    hub: Hub
    reconciler: Reconciler
    targets: TargetService
    token_key: bytes
    url: str
    started_at: datetime
    request_shutdown: Callable[[], None]
    keystore: KeyStore
    clusters: Clusters | None = None
