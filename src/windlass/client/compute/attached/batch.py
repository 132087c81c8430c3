"""Batch accounts that are attached: an HPC queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.azure_resource import ResourceAttachConfiguration
from windlass.client.compute.target import ComputeTarget

if TYPE_CHECKING:
    from windlass.client.compute.attached.connections import Connection


class BatchAttachConfiguration(ResourceAttachConfiguration):
    """An account by resource group and name, or by resource id. A connection maps it to a queue."""

    _kinds = ("batch", "slurm", "azurebatch")
    _what = "Attaching a Batch account"
    _name, _noun, _connection = "account_name", "Batch", "batch"
    _provider, _resource_type = "Microsoft.Batch", "Batch"

    def __init__(
        self, resource_group: str | None = None, account_name: str | None = None, resource_id: str | None = None
    ) -> None:
        super().__init__(BatchCompute)
        self.resource_group, self.account_name, self.resource_id = resource_group, account_name, resource_id
        self.validate_configuration()

    def _settings(self, connection: Connection) -> dict[str, Any]:
        return {"engine": connection.settings["engine"]}

    def _choose_kind(self, kinds: list[str], config: dict[str, Any]) -> str:
        """The kind named like the connection's engine, if the server has one."""
        return config["engine"] if config["engine"] in kinds else kinds[0]


class BatchCompute(ComputeTarget):
    """A Batch account: here a Slurm queue, or Azure Batch itself."""

    _compute_type = "Batch"
    _noun = "Batch"

    attach_configuration = staticmethod(BatchAttachConfiguration)
