"""Data Lake Analytics accounts that are attached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.client.compute.attached.azure_resource import ResourceAttachConfiguration, deprecated
from windlass.client.compute.target import ComputeTarget

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace


class DataLakeAnalyticsAttachConfiguration(ResourceAttachConfiguration):
    """An account by resource group and name, or by resource id. A connection has the lake's folder."""

    _kinds = ("analytics",)
    _what = "Attaching a Data Lake Analytics account"
    _name, _noun, _connection = "account_name", "ADLA", "adla"
    _provider, _resource_type = "Microsoft.DataLakeAnalytics", "DataLakeAnalytics"

    def __init__(
        self, resource_group: str | None = None, account_name: str | None = None, resource_id: str | None = None
    ) -> None:
        super().__init__(AdlaCompute)
        self.resource_group, self.account_name, self.resource_id = resource_group, account_name, resource_id
        self.validate_configuration()


class AdlaCompute(ComputeTarget):
    """A Data Lake Analytics account: queries over the files of a lake."""

    _compute_type = "DataLakeAnalytics"
    _is_deletable = True

    attach_configuration = staticmethod(DataLakeAnalyticsAttachConfiguration)

    @staticmethod
    def attach(workspace: Workspace, name: str, resource_id: str) -> ComputeTarget:
        """Deprecated in Azure's SDK too: ComputeTarget.attach() takes a configuration."""
        raise deprecated(
            "ADLA", "AdlaCompute", 'resource_group="name_of_resource_group",', 'account_name="name_of_adla_account"'
        )
