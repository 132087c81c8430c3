"""What may be asked of the list of runs: filters, sort keys, cursors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windlass.core.entities import Run


@dataclass(frozen=True, slots=True)
class RunQuery:
    """The list parameters of the HTTP API, as they come."""

    workspace: str
    experiment: str | None = None
    states: tuple[str, ...] = ()  # words of RunState, or "active"
    type: str | None = None
    parent: str | None = None  # "none" for roots
    target: str | None = None
    tags: tuple[str, ...] = ()  # "key" or "key:value"
    properties: tuple[str, ...] = ()  # "key" or "key:value"
    where: tuple[str, ...] = ()  # "metric.loss<0.1"
    since: datetime | None = None
    until: datetime | None = None
    search: str = ""
    sort: str = "-created_at"
    metrics: tuple[str, ...] = ()  # names whose last values are shown
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    runs: list[Run]
    next: str | None
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # run id -> name -> last value
