"""Address and login of a machine in an attach configuration: shared by RemoteCompute and HDInsightCompute."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.azure_resource import check_resource_id
from windlass.client.compute.attached.connections import Connection
from windlass.client.compute.target import given
from windlass.client.config.workbench_compute_file import USUAL_PORT
from windlass.client.exceptions import ComputeTargetException
from windlass.core.names import split_address

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace


class MachineLogin:
    """An account on a machine: checked without a connection to it, and converted to the settings of its kind."""

    # Of an Azure resource of this kind: provider, noun in errors, and the parameter for its name.
    _namespace: str
    _resource: str
    _name: str

    username: str
    subscription_id: str | None
    resource_group: str | None
    resource_id: str | None
    address: str | None
    ssh_port: int | str
    password: str | None
    private_key_file: str | None
    private_key_passphrase: str | None
    use_workspace_key = False
    use_agent = False

    def split_address(self) -> None:
        """Take the port from an address like HOST:PORT, as command lines have it."""
        if not isinstance(self.address, str):
            return
        self.address, port = split_address(self.address)
        if port is None:
            return
        if str(self.ssh_port) not in (str(USUAL_PORT), str(port), "", "None"):
            raise ComputeTargetException(f"address names port {port}, and ssh_port {self.ssh_port}.")
        self.ssh_port = port

    def validate_configuration(self) -> None:
        """Raise ComputeTargetException unless the machine is named in exactly one way."""
        name = self._name
        if not self.username:
            raise ComputeTargetException("username is not provided.")
        if self.subscription_id and self.resource_group and getattr(self, name):
            self._refuse(f"If subscription_id, resource_group, {name} are provided", "address", "resource_id")
        elif self.resource_id:
            check_resource_id(str(self.resource_id), self._namespace, self._resource)
            self._refuse("Since resource_id is provided", "address", "subscription_id", "resource_group", name)
        elif self.address:
            self._refuse("Since address is provided", "resource_id", "subscription_id", "resource_group", name)
        else:
            raise ComputeTargetException(
                f"Please provide subscription_id, resource_group, {name} or provide resource_id or address for "
                f"{self._resource} being attached."
            )

    def _refuse(self, since: str, *names: str) -> None:
        for name in names:
            if getattr(self, name):
                raise ComputeTargetException(f"{since}, please do not provide {name}.")

    def login_request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        """The address, account and login of the machine, and the credentials for it."""
        login, credentials = self._login()
        address, port = self.address, self._port()
        if not address:
            address, port = self._resolve(workspace, port)
        config = {"address": address, "port": port, "username": self.username, "login": login}
        return {**config, **given(resource_id=self.resource_id)}, credentials

    def _resolve(self, workspace: Workspace, port: int) -> tuple[str, int]:
        """The address that a connection has for the Azure resource, and its port unless another one was given."""
        place = (self.resource_group, getattr(self, self._name), self.subscription_id, self.resource_id)
        found = Connection.find(workspace, "vm", *place).settings
        return found["address"], found.get("port") or port if port == USUAL_PORT else port

    def _port(self) -> int:
        if not self.ssh_port:
            raise ComputeTargetException("Error, missing ssh-port.")
        text = str(self.ssh_port)
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65535):
            raise ComputeTargetException(f"ssh_port is a number from 1 to 65535, not {self.ssh_port!r:.100}.")
        return int(text)

    def _login(self) -> tuple[str, dict[str, Any]]:
        """The kind of login, and the credentials that the server needs for it."""
        credentials = self._credentials()
        if self.use_workspace_key:
            return "workspace-key", credentials
        if self.password and self.private_key_file:
            raise ComputeTargetException(
                "Invalid attach information, both password and key information provided. Please provide either a "
                "password or key information"
            )
        if not credentials:
            if self.use_agent:
                return "agent", {}
            raise ComputeTargetException(
                "Error, no password or key information provided. Please provide either a password or key information."
            )
        return "password" if self.password else "key", credentials

    def _credentials(self) -> dict[str, Any]:
        if self.password:
            return {"password": self.password}
        if not self.private_key_file:
            return {}
        try:
            with open(os.path.expanduser(self.private_key_file), encoding="utf-8") as file:
                key = file.read()
        except (OSError, ValueError) as e:
            raise ComputeTargetException(
                f"Error while reading key information:\n{type(e).__name__}: {e}", inner_exception=e
            ) from None
        passphrase = {"passphrase": self.private_key_passphrase} if self.private_key_passphrase else {}
        return {"private_key": key, **passphrase}
