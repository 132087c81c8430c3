"""What drivers may do and ask in this server: whose files they read, where they may connect, which target is which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import DriverContext, OtherTarget
from windlass.server.addresses import checked_address, is_shared
from windlass.server.settings import Settings
from windlass.store import Store


@dataclass(frozen=True, slots=True)
class Surround:
    """For drivers of a workspace."""

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
        )

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
