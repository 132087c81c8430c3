"""Node source for shares of this computer: creating and deleting a node does nothing."""

from __future__ import annotations

from windlass.drivers.base import NodeSource


class EmbeddedNodes(NodeSource):
    """Every node that has a row exists."""

    def __init__(self, known: list[str]) -> None:
        self._known = known

    def create_node(self, id: str) -> bool:
        return True

    def delete_node(self, id: str) -> None:
        pass

    def nodes(self) -> list[str]:
        return self._known
