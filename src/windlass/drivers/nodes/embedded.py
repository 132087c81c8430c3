"""Nodes that are shares of this computer: there is nothing to make, and nothing to remove."""

from __future__ import annotations

from windlass.drivers.base import NodeSource


class EmbeddedNodes(NodeSource):
    """All nodes that have a row are there."""

    def __init__(self, known: list[str]) -> None:
        self._known = known

    def create_node(self, id: str) -> bool:
        return True

    def delete_node(self, id: str) -> None:
        pass

    def nodes(self) -> list[str]:
        return self._known
