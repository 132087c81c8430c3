"""Stores changes of targets that the server creates and deletes, for server/clusters/provisioning.py to apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from windlass.core.entities import Target
from windlass.core.errors import AlreadyExists, Conflict
from windlass.drivers.base import ProvisioningState
from windlass.store import Store
from windlass.store.access.secrets import SealedCredential
from windlass.store.catalog.attachments import Check


def create(
    store: Store,
    workspace: str,
    known: Target | None,
    new: Target,
    credentials: Sequence[SealedCredential],
    exist_ok: bool,
    check: Check | None,
) -> Target:
    """Store a target that is to be created, unless `check` refuses it. An existing one with the same settings is
    returned; with `exist_ok`, a failed creation is retried.
    """
    new = replace(new, is_attached=False, provisioning_state=ProvisioningState.CREATING)
    if known is None:
        return store.attachments.add(workspace, new, credentials, check)
    if known.config != new.config or (not exist_ok and known.attached_by != new.attached_by):
        raise AlreadyExists(
            f"There is a target {known.name} already, with other settings.",
            f"Choose another name, change it (windlass compute update {known.name}) or delete it first.",
        )
    if known.provisioning_state == ProvisioningState.DELETING:
        raise Conflict(f"{known.name} is being deleted.", "Create it again when that is done.")
    if exist_ok and known.provisioning_state == ProvisioningState.FAILED and known.config_before is None:
        again = replace(new, created_at=known.created_at)
        return store.attachments.replace(workspace, known, again, credentials, moves=False, check=check)
    return known


def begin_update(target: Target, config: dict[str, Any]) -> dict[str, Any]:
    """The other columns that change with the configuration of a target."""
    state = target.provisioning_state
    exists = state == ProvisioningState.SUCCEEDED or target.config_before is not None
    if not exists or state == ProvisioningState.DELETING:
        raise Conflict(
            f"{target.name} cannot be updated: its provisioning state is {state}.", "Update it when it is created."
        )
    if config == target.config and state != ProvisioningState.FAILED:
        return {}
    # While an update is under way, the target has the settings of before it.
    before = target.config if target.config_before is None else target.config_before
    return {"provisioning_state": ProvisioningState.UPDATING, "provisioning_message": "", "config_before": before}
