"""Attach configurations that name an Azure resource; a connection maps that to what stands for it here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.connections import Connection
from windlass.client.compute.target import ComputeTargetAttachConfiguration, given
from windlass.client.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace


class ResourceAttachConfiguration(ComputeTargetAttachConfiguration):
    """A resource by its group and name, or by its id."""

    _name: str  # the parameter for the resource's name
    _noun: str  # its name in errors
    _provider: str  # in the middle of its resource id
    _resource_type: str  # its name in errors about a resource id
    _connection: str  # the kind of connections that map it

    resource_group: str | None
    resource_id: str | None

    def validate_configuration(self) -> None:
        if self.resource_id:
            check_resource_id(self.resource_id, self._provider, self._resource_type)
            for name in ("resource_group", self._name):
                if getattr(self, name):
                    raise ComputeTargetException(f"Since resource_id is provided, please do not provide {name}.")
        elif not self.resource_group and not getattr(self, self._name):
            raise ComputeTargetException(
                f"Please provide resource_group and {self._name} for the {self._noun} compute resource being attached. "
                "Or please provide resource_id for the resource being attached."
            )
        else:
            for name in ("resource_group", self._name):
                if not getattr(self, name):
                    raise ComputeTargetException(f"{name} is not provided.")

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        found = self._find_connection(workspace)
        config = given(connection=found.name, resource_id=self.resource_id)
        return {**config, **self._settings(found)}, self._credentials()

    def _find_connection(self, workspace: Workspace) -> Connection:
        return Connection.find(
            workspace, self._connection, self.resource_group, getattr(self, self._name), None, self.resource_id
        )

    def _settings(self, connection: Connection) -> dict[str, Any]:
        """The settings of the kind beside the connection."""
        return {}

    def _credentials(self) -> dict[str, Any]:
        return {}


def check_resource_id(resource_id: str, provider: str, resource_type: str) -> None:
    """Raise ComputeTargetException unless this is the id of a resource of that provider."""
    parts = str(resource_id).split("/")
    if len(parts) != 9:
        raise ComputeTargetException(f"Invalid resource_id provided: {resource_id}")
    if parts[6] != provider:
        raise ComputeTargetException(
            f"Invalid resource_id provided, resource type {parts[6]} does not match for {resource_type}"
        )


def deprecated(what: str, class_name: str, *arguments: str) -> ComputeTargetException:
    """The error of the old X.attach(workspace, name, …), with the lines to write instead."""
    opening = f"attach_config = {class_name}.attach_configuration("
    lines = f"\n{' ' * len(opening)}".join(arguments)
    return ComputeTargetException(
        f"This method is DEPRECATED. Please use the following code to attach a {what} compute resource.\n"
        f"# Attach {what}\n"
        f"{opening}{lines})\n"
        "compute = ComputeTarget.attach(workspace, name, attach_config)"
    )
