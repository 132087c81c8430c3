"""What drivers may do and ask in this server: which files they read, where they connect, other targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import DriverContext, Node, NodeState, OtherTarget, ThisComputer
from windlass.server.clusters.computer import this_computer
from windlass.server.security.egress_policy import checked_address, is_shared
from windlass.server.settings import Settings
from windlass.store import NodeRow, Store


@dataclass(frozen=True, slots=True)
class DriverContexts:
    """Makes the context of the drivers of a workspace."""

    settings: Settings
    store: Store

    def __call__(self, workspace: str) -> DriverContext:
        shared = is_shared(self.settings)
        return DriverContext(
            reads_user_files=not shared,
            resolve=partial(checked_address, is_shared=shared, allowed=self.settings.allowed_addresses),
            target=partial(self._target, workspace),
            workspace=workspace,
            folder=self.settings.home,
            computer=_computer(self.settings),
            nodes=partial(self._nodes, workspace),
        )

    def _nodes(self, workspace: str, name: str) -> list[Node]:
        return [shown(row) for row in self.store.nodes.rows(workspace, name)]

    def _target(self, workspace: str, name: str) -> OtherTarget:
        """Another target of the workspace, which the driver's own one depends on."""
        target = self.store.targets.get(workspace, name)
        if target.quarantine is not None:
            # Runs on targets that depend on it wait, as its own do; those targets are not put into quarantine.
            raise TargetUnreachable(
                f"The target {name}, which it depends on, is in quarantine: {target.quarantine}",
                f"If that is right: windlass compute trust {name}",
            )
        return OtherTarget(target.config, target.pin)


def _computer(settings: Settings) -> ThisComputer:
    found = this_computer(settings)
    return ThisComputer(found.millicores / 1000, found.memory_mb, found.gpus)


def shown(row: NodeRow) -> Node:
    """A node as people see it: one that is ready is idle, or has runs."""
    state = {"ready": NodeState.RUNNING if row.is_busy else NodeState.IDLE}.get(row.state) or NodeState(row.state)
    size = {"cores": row.size.millicores / 1000, "memory_mb": row.size.memory_mb, "gpus": row.size.gpus}
    return Node(row.id, state, size, row.runs, row.message, row.created_at, row.idle_since)
