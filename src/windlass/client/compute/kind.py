"""Configurations for targets of any kind that the server has a driver for, including kinds that Azure does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.target import (
    ComputeTarget,
    ComputeTargetAttachConfiguration,
    ComputeTargetProvisioningConfiguration,
)
from windlass.client.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace


class KindAttachConfiguration(ComputeTargetAttachConfiguration):
    """A target of a kind by its settings and credentials; `windlass compute attach KIND --help` shows them.

    `pin` is the identity that the target must show; without it, the first one that it shows is pinned.

    >>> ssh = KindAttachConfiguration("ssh", {"address": "10.0.0.7", "username": "jane"}, {"password": "..."})
    >>> ssh.kind
    'ssh'
    """

    def __init__(
        self,
        kind: str,
        settings: dict[str, Any] | None = None,
        credentials: dict[str, str] | None = None,
        *,
        pin: str | None = None,
        pin_confirmed: bool = False,
        slots: int | None = None,
    ) -> None:
        super().__init__(ComputeTarget)
        self.kind, self.settings, self.credentials = kind, dict(settings or {}), dict(credentials or {})
        self.pin, self.pin_confirmed, self.slots = pin, pin_confirmed, slots
        self._kinds, self._what = (kind,), f"Attaching a target of kind {kind}"
        self.validate_configuration()

    def validate_configuration(self) -> None:
        _check_kind(self.kind)

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.settings, self.credentials


class KindProvisioningConfiguration(ComputeTargetProvisioningConfiguration):
    """A target of a kind to create, by its settings; `windlass compute create KIND --help` shows them."""

    def __init__(
        self,
        kind: str,
        settings: dict[str, Any] | None = None,
        credentials: dict[str, str] | None = None,
        *,
        slots: int | None = None,
    ) -> None:
        super().__init__(ComputeTarget, None)
        self.kind, self.settings, self.credentials = kind, dict(settings or {}), dict(credentials or {})
        self.slots = slots
        self._kinds, self._what = (kind,), f"Creating a target of kind {kind}"
        self.validate_configuration()

    def validate_configuration(self) -> None:
        _check_kind(self.kind)

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.settings, self.credentials


def _check_kind(kind: Any) -> None:
    if not isinstance(kind, str) or not kind:
        raise ComputeTargetException(f"A kind of targets is a name like 'ssh', not {kind!r:.100}.")
