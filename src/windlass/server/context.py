"""What the routes share: one value, made at start and never changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from windlass.server.execution.reconciler import Reconciler
from windlass.server.execution.target_service import TargetService
from windlass.server.security.secret_store import KeyStore
from windlass.server.settings import Settings
from windlass.server.streaming.event_bus import Hub
from windlass.store import Store


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
