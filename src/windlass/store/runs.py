"""Runs, their attempts and their events. `advance` and what is built on it are the only writers of a run's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windlass.core.entities import Artifact, Event, Run, RunSpec
from windlass.core.states import RunState, Step
from windlass.store.queries import Page, RunQuery
from windlass.store.records import Attempt, Ending, Leased, NewRun


class Runs:
    def submit(
        self, new: NewRun, owner: str, slots: int | None, lease_seconds: float
    ) -> tuple[Run, bool, Leased | None]:
        raise NotImplementedError

    def create(self, news: Sequence[NewRun]) -> list[Run]:
        raise NotImplementedError

    def get(self, workspace: str, id: str) -> Run:
        raise NotImplementedError

    def spec(self, id: str) -> RunSpec:
        raise NotImplementedError

    def find(self, query: RunQuery) -> Page:
        raise NotImplementedError

    def advance(
        self,
        id: str,
        *,
        expect: RunState,
        step: Step,
        fence: int | None,
        ending: Ending | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Run:
        raise NotImplementedError

    def admit(self, workspace: str, target: str, owner: str, slots: int | None, lease_seconds: float) -> list[Leased]:
        raise NotImplementedError

    def finish(
        self,
        id: str,
        *,
        expect: RunState,
        step: Step,
        fence: int | None,
        ending: Ending | None,
        owner: str,
        slots: int | None,
        lease_seconds: float,
        data: Mapping[str, Any] | None = None,
    ) -> tuple[Run, list[Leased]]:
        raise NotImplementedError

    def save_handle(self, id: str, attempt: int, handle: Mapping[str, Any], fence: int) -> None:
        raise NotImplementedError

    def new_attempt(self, id: str, *, fence: int, nonce: str, step: Step) -> Leased:
        raise NotImplementedError

    def attempts(self, id: str) -> list[Attempt]:
        raise NotImplementedError

    def request_cancel(self, workspace: str, id: str) -> Run:
        raise NotImplementedError

    def lease(self, owner: str, lease_seconds: float, limit: int) -> list[Leased]:
        raise NotImplementedError

    def take_over(self, owner: str, lease_seconds: float) -> list[Leased]:
        raise NotImplementedError

    def renew(self, owner: str, lease_seconds: float) -> set[str]:
        raise NotImplementedError

    def release(self, owner: str) -> None:
        raise NotImplementedError

    def children(self, workspace: str, id: str, recursive: bool = False) -> list[Run]:
        raise NotImplementedError

    def silent_interactive(self, before: datetime) -> list[Run]:
        raise NotImplementedError

    def heartbeat(self, workspace: str, id: str) -> Run:
        raise NotImplementedError

    def events(self, id: str, after: int = 0, limit: int = 1000) -> list[Event]:
        raise NotImplementedError

    def append_event(self, id: str, kind: str, message: str = "", data: Mapping[str, Any] | None = None) -> Event:
        raise NotImplementedError

    def describe(
        self,
        workspace: str,
        id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        remove_tags: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Run:
        raise NotImplementedError

    def apply_calls(
        self,
        id: str,
        writer: str,
        offset: int,
        next_offset: int,
        calls: Sequence[Mapping[str, Any]],
        uploads: Sequence[Artifact],
    ) -> bool:
        raise NotImplementedError

    def calls_cursor(self, id: str, writer: str) -> int:
        raise NotImplementedError
