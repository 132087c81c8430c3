"""Checks of Azure's managed identity parameters, which have no effect here."""

from __future__ import annotations

from typing import Any

from windlass.client.exceptions import ComputeTargetException

_TYPES = ("UserAssigned", "SystemAssigned")


def check_identity(identity_type: str | None, ids: Any, parameter: str, noun: str) -> None:
    """Raise ComputeTargetException unless the type has the ids that it needs. `parameter` is the name of the ids'."""
    if not identity_type and not ids:
        return
    if identity_type and identity_type not in _TYPES:
        raise ComputeTargetException(
            "Invalid configuration, identity_type must be set to 'UserAssigned' or 'SystemAssigned'."
        )
    if identity_type == "UserAssigned" and not (isinstance(ids, list) and ids):
        raise ComputeTargetException(
            f"Invalid configuration, please pass the {parameter} of the user assigned {noun} as a list "
            "(eg. ['resource_ID1','resourceID2',...])"
        )
    if identity_type != "UserAssigned" and ids:
        raise ComputeTargetException(
            f"Invalid configuration, {parameter} cannot be set when identity type is not user assigned."
        )
