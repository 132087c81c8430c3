"""Experiments: named series of runs."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.entities import Experiment


class Experiments:
    def ensure(self, workspace: str, name: str) -> Experiment:
        raise NotImplementedError

    def get(self, workspace: str, name: str) -> Experiment:
        raise NotImplementedError

    def list(self, workspace: str) -> list[Experiment]:
        raise NotImplementedError

    def update(
        self, workspace: str, name: str, tags: Mapping[str, str] | None = None, archived: bool | None = None
    ) -> Experiment:
        raise NotImplementedError

    def delete(self, workspace: str, name: str) -> None:
        raise NotImplementedError
