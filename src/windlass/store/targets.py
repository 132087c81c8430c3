"""Compute targets: named places to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.entities import Target


class Targets:
    def ensure(
        self, workspace: str, name: str, kind: str, config: Mapping[str, Any], slots: int | None, is_attached: bool
    ) -> Target:
        raise NotImplementedError

    def get(self, workspace: str, name: str) -> Target:
        raise NotImplementedError

    def list(self, workspace: str) -> list[Target]:
        raise NotImplementedError

    def update(self, workspace: str, name: str, slots: int | None) -> Target:
        raise NotImplementedError

    def counts(self, workspace: str) -> dict[str, tuple[int, int]]:
        """For each target that has any: how many runs are active, how many wait for a slot."""
        raise NotImplementedError
