"""Attach configurations that name an Azure resource, which a connection says the meaning of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.connections import Connection
from windlass.client.compute.target import ComputeTargetAttachConfiguration
from windlass.client.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from windlass.client.workspace import Workspace


class ResourceAttachConfiguration(ComputeTargetAttachConfiguration):
    """A resource by its group and name, or by its id."""

    _name: str  # the parameter for the resource's name
    _noun: str  # what it is called in errors
    _connection: str  # the kind of connections that say where it is

    resource_group: str | None
    resource_id: str | None

    def validate_configuration(self) -> None:
        if self.resource_id:
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
        return {"connection": found.name, **self._settings(found)}, self._credentials()

    def _find_connection(self, workspace: Workspace) -> Connection:
        return Connection.find(
            workspace, self._connection, self.resource_group, getattr(self, self._name), None, self.resource_id
        )

    def _settings(self, connection: Connection) -> dict[str, Any]:
        """What the configuration of the kind has beside the connection."""
        return {}

    def _credentials(self) -> dict[str, Any]:
        return {}


def deprecated(what: str, configuration: str) -> ComputeTargetException:
    """The error of the old X.attach(workspace, name, …), with the lines to write instead."""
    return ComputeTargetException(
        f"This method is DEPRECATED. Please use the following code to attach {what} compute resource.\n"
        f"# Attach {what}\n"
        f"attach_config = {configuration}\n"
        "compute = ComputeTarget.attach(workspace, name, attach_config)"
    )
