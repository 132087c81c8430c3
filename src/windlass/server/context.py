"""The services that routes share; created at start and never changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from windlass.server.execution.reconciler import Reconciler
from windlass.server.execution.target_service import TargetService
from windlass.server.security.secret_store import SecretStore
from windlass.server.settings import Settings
from windlass.server.streaming.channels import ChannelTable
from windlass.server.streaming.event_bus import EventBus
from windlass.server.streaming.line_index import LineIndexes
from windlass.store import Store


@dataclass(frozen=True, slots=True)
class Context:
    settings: Settings
    store: Store
    event_bus: EventBus
    reconciler: Reconciler
    targets: TargetService
    token_key: bytes
    url: str
    started_at: datetime
    request_shutdown: Callable[[], None]
    secret_store: SecretStore
    channels: ChannelTable
    line_indexes: LineIndexes = field(default_factory=LineIndexes)
