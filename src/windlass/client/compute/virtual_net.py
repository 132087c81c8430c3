"""Checks of Azure's virtual network parameters, which have no effect here."""

from __future__ import annotations

from windlass.client.exceptions import ComputeTargetException


def check_virtual_net(vnet_name: str | None, vnet_resourcegroup_name: str | None, subnet_name: str | None) -> None:
    """Raise ComputeTargetException unless all parts of a network are given, or none."""
    parts = (vnet_name, vnet_resourcegroup_name, subnet_name)
    if any(parts) and not all(parts):
        raise ComputeTargetException(
            "Invalid configuration, not all virtual net information provided. To use a custom virtual net, please "
            "provide vnet name, vnet resource group and subnet name"
        )
