"""Databricks workspaces that are attached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.azure_resource import ResourceAttachConfiguration, deprecated
from windlass.client.compute.target import ComputeTarget, given

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace


class DatabricksAttachConfiguration(ResourceAttachConfiguration):
    """A Databricks workspace by resource group and name, or by resource id. A connection has its host.

    An `access_token` given here is used in place of the connection's.
    """

    _kinds = ("databricks",)
    _what = "Attaching a Databricks workspace"
    _name, _noun, _connection = "workspace_name", "Databricks", "databricks"
    _provider, _resource_type = "Microsoft.Databricks", "Databricks"

    def __init__(
        self,
        resource_group: str | None = None,
        workspace_name: str | None = None,
        resource_id: str | None = None,
        access_token: str | None = "",
    ) -> None:
        super().__init__(DatabricksCompute)
        self.resource_group, self.workspace_name = resource_group, workspace_name
        self.resource_id, self.access_token = resource_id, access_token
        self.validate_configuration()

    def _credentials(self) -> dict[str, Any]:
        return given(token=self.access_token)


class DatabricksCompute(ComputeTarget):
    """A Databricks workspace: each run is a one-time job there.

    >>> config = DatabricksCompute.attach_configuration(resource_group="lab", workspace_name="bricks")
    >>> config.workspace_name
    'bricks'
    """

    _compute_type = "Databricks"
    _noun = "Databricks"

    attach_configuration = staticmethod(DatabricksAttachConfiguration)

    @staticmethod
    def attach(  # type: ignore[override]
        workspace: Workspace, name: str, resource_id: str, access_token: str
    ) -> ComputeTarget:
        """Deprecated in Azure's SDK too: ComputeTarget.attach() takes a configuration."""
        raise deprecated(
            "Databricks",
            "DatabricksCompute",
            'resource_group="name_of_resource_group",',
            'workspace_name="name_of_databricks_workspace",',
            'access_token="databricks_token"',
        )

    def get_credentials(self) -> dict[str, Any]:
        """The access token with Azure's key, as None: the key store does not return its value."""
        return {"computeType": self._compute_type, "databricksAccessToken": None}
