"""Attach configurations for Azure services that no kind of target stands for: Data Factory, Data Explorer, Synapse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.azure_resource import ResourceAttachConfiguration, check_resource_id, deprecated
from windlass.client.compute.target import (
    ComputeTarget,
    ComputeTargetAttachConfiguration,
    ComputeTargetProvisioningConfiguration,
    given,
)
from windlass.client.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace

_COPY = "a script that copies the data, run on the target local"


class DataFactoryProvisioningConfiguration(ComputeTargetProvisioningConfiguration):
    """Azure's configuration for creating a data factory."""

    _kinds = ("datafactory",)
    _what = "Creating a data factory"
    _instead = _COPY

    def __init__(self, location: str | None) -> None:
        super().__init__(DataFactoryCompute, location)

    def validate_configuration(self) -> None:
        pass  # any location will do

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        return given(location=self.location), {}


class DataFactoryAttachConfiguration(ResourceAttachConfiguration):
    """A data factory by resource group and name, or by resource id."""

    _kinds = ("datafactory",)
    _what = "Attaching a data factory"
    _instead = _COPY
    _name, _noun = "factory_name", "DataFactory"
    _provider, _resource_type = "Microsoft.DataFactory", "DataFactory"

    def __init__(
        self, resource_group: str | None = None, factory_name: str | None = None, resource_id: str | None = None
    ) -> None:
        super().__init__(DataFactoryCompute)
        self.resource_group, self.factory_name, self.resource_id = resource_group, factory_name, resource_id
        self.validate_configuration()

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        place = given(resource_group=self.resource_group, name=self.factory_name, resource_id=self.resource_id)
        return place, {}


class DataFactoryCompute(ComputeTarget):
    """A data factory, which pipelines copy data with."""

    _compute_type = "DataFactory"
    _is_deletable = True

    attach_configuration = staticmethod(DataFactoryAttachConfiguration)

    @staticmethod
    def attach(workspace: Workspace, name: str, resource_id: str) -> ComputeTarget:
        """Deprecated in Azure's SDK too: ComputeTarget.attach() takes a configuration."""
        raise deprecated(
            "DataFactory",
            "DataFactoryCompute",
            'resource_group="name_of_resource_group",',
            'factory_name="name_of_datafactory"',
        )

    @staticmethod
    def provisioning_configuration(location: str | None = None) -> DataFactoryProvisioningConfiguration:
        """Azure's configuration for creating a data factory."""
        return DataFactoryProvisioningConfiguration(location)


class KustoAttachConfiguration(ResourceAttachConfiguration):
    """A Data Explorer cluster by resource group, name and resource id, and the application that may query it."""

    _kinds = ("kusto",)
    _what = "Attaching a Data Explorer cluster"
    _instead = "a script that queries it with the package azure-kusto-data, run on the target local"
    _name, _noun = "workspace_name", "Kusto"
    _provider, _resource_type = "Microsoft.Kusto", "Kusto"

    def __init__(
        self,
        resource_group: str | None = None,
        workspace_name: str | None = None,
        resource_id: str | None = None,
        tenant_id: str | None = None,
        kusto_connection_string: str | None = None,
        application_id: str | None = None,
        application_key: str | None = None,
    ) -> None:
        super().__init__(KustoCompute)
        self.resource_group, self.workspace_name, self.resource_id = resource_group, workspace_name, resource_id
        self.tenant_id, self.kusto_connection_string = tenant_id, kusto_connection_string
        self.application_id, self.application_key = application_id, application_key
        self.validate_configuration()

    def validate_configuration(self) -> None:
        if self.resource_id:
            check_resource_id(self.resource_id, self._provider, self._resource_type)
        if not (self.resource_group and self.workspace_name and self.resource_id):
            raise ComputeTargetException("Please provide resource group, workspace name, and resource id")
        if not (self.tenant_id and self.application_key and self.application_id):
            raise ComputeTargetException("Please provide tenant id, application id, and application key")
        if not self.kusto_connection_string:
            raise ComputeTargetException("Please provide kusto connection string for the target cluster")

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        config = given(
            resource_group=self.resource_group,
            name=self.workspace_name,
            resource_id=self.resource_id,
            tenant_id=self.tenant_id,
            application_id=self.application_id,
        )
        secrets = given(connection_string=self.kusto_connection_string, application_key=self.application_key)
        return config, secrets


class KustoCompute(ComputeTarget):
    """A Data Explorer cluster."""

    _compute_type = "Kusto"
    _noun = "Kusto"

    attach_configuration = staticmethod(KustoAttachConfiguration)

    def get_credentials(self) -> dict[str, Any]:
        """The credentials with Azure's keys, all None: the key store does not return their values."""
        return {"computeType": self._compute_type, "kustoConnectionString": None, "applicationKey": None}


class SynapseAttachConfiguration(ComputeTargetAttachConfiguration):
    """A Spark pool of a Synapse workspace, which a linked service names."""

    _kinds = ("synapse",)
    _what = "Attaching a Synapse Spark pool"

    def __init__(self, linked_service: Any, type: str, pool_name: str) -> None:
        super().__init__(SynapseCompute)
        self.linked_service, self.pool_type, self.pool_name = linked_service, type, pool_name
        self.validate_configuration()

    def validate_configuration(self) -> None:
        for name, value in (
            ("linked_service", self.linked_service),
            ("type", self.pool_type),
            ("pool_name", self.pool_name),
        ):
            if not value:
                raise ComputeTargetException(f"{name} is not provided.")

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        service = getattr(self.linked_service, "name", self.linked_service)
        return {"linked_service": str(service), "type": self.pool_type, "pool_name": self.pool_name}, {}


class SynapseCompute(ComputeTarget):
    """A Spark pool of a Synapse workspace."""

    _compute_type = "SynapseSpark"
    _noun = "Synapse"

    attach_configuration = staticmethod(SynapseAttachConfiguration)
