"""Workspaces: the top container."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.entities import Workspace


class Workspaces:
    def create(
        self,
        name: str,
        subscription_id: str = "",
        resource_group: str = "",
        location: str = "",
        tags: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> Workspace:
        raise NotImplementedError

    def get(self, name: str) -> Workspace:
        raise NotImplementedError

    def list(self) -> list[Workspace]:
        raise NotImplementedError
