"""Machines reached by SSH: RemoteCompute for users' own, and Azure's classes for the virtual machines it creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.machine_login import MachineLogin
from windlass.client.compute.target import (
    ComputeTarget,
    ComputeTargetAttachConfiguration,
    ComputeTargetProvisioningConfiguration,
    given,
)
from windlass.client.config.workbench_compute_file import USUAL_PORT
from windlass.client.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace


class RemoteComputeAttachConfiguration(MachineLogin, ComputeTargetAttachConfiguration):
    """Address (HOST or HOST:PORT) and account of a machine, and a password or the file of a private key.

    A machine that is named by its Azure resource is found through a connection: Connection.add(…, "vm", …).

    Beyond Azure's parameters: `use_workspace_key=True` or `use_agent=True` in place of password and key, `host_key`
    ("ssh-ed25519 AAAA…": refuse any other), and settings of the kind `ssh`.
    """

    _kinds = ("ssh",)
    _what = "Attaching a machine"
    _namespace, _resource, _name = "Microsoft.Compute", "virtual machine", "vm_name"

    def __init__(
        self,
        username: str,
        subscription_id: str | None = None,
        resource_group: str | None = None,
        vm_name: str | None = None,
        resource_id: str | None = None,
        address: str | None = None,
        ssh_port: int | str = 22,
        password: str | None = "",
        private_key_file: str | None = "",
        private_key_passphrase: str | None = "",
        *,
        use_workspace_key: bool = False,
        use_agent: bool = False,
        host_key: str | None = None,
        host_key_confirmed: bool | None = None,
        jump: str | None = None,
        python: str | None = None,
        root: str | None = None,
        docker: bool | None = None,
        base_image: str | None = None,
        network: str | None = None,
        engine: str | None = None,
        allow_privileged: bool | None = None,
    ) -> None:
        super().__init__(RemoteCompute)
        self.username, self.subscription_id, self.resource_group = username, subscription_id, resource_group
        self.vm_name, self.resource_id, self.address, self.ssh_port = vm_name, resource_id, address, ssh_port
        self.password, self.private_key_file = password, private_key_file
        self.private_key_passphrase = private_key_passphrase
        self.use_workspace_key, self.use_agent = use_workspace_key, use_agent
        self.pin, self.pin_confirmed = host_key, bool(host_key_confirmed)
        self.settings = given(
            jump=jump,
            python=python,
            root=root,
            docker=docker,
            base_image=base_image,
            network=network,
            engine=engine,
            allow_privileged=allow_privileged,
        )
        self.split_address()
        self.validate_configuration()

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        config, credentials = self.login_request(workspace)
        return {**self.settings, **config}, credentials


class RemoteCompute(ComputeTarget):
    """A Linux machine that is attached by address and account.

    >>> config = RemoteCompute.attach_configuration(address="10.0.0.7", username="jane", password="...")
    >>> config.ssh_port
    22

    ComputeTarget.attach(ws, "gpu-box", config) attaches it.
    """

    _compute_type = "VirtualMachine"

    address: str | None
    ssh_port: int | None
    username: str | None
    vm_size: str | None

    attach_configuration = staticmethod(RemoteComputeAttachConfiguration)

    @staticmethod
    def attach(  # type: ignore[override]
        workspace: Workspace,
        name: str,
        username: str,
        address: str,
        ssh_port: int = 22,
        password: str = "",
        private_key_file: str = "",
        private_key_passphrase: str = "",
    ) -> ComputeTarget:
        """Deprecated in Azure's SDK too: ComputeTarget.attach() takes a configuration."""
        raise ComputeTargetException(_DEPRECATED)

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        super()._fill(workspace, view)
        config = view.get("config") or {}
        self.address, self.ssh_port = config.get("address"), config.get("port") or USUAL_PORT
        self.username, self.vm_size = config.get("username"), None

    def get_credentials(self) -> dict[str, Any]:
        """The account there. Password and keys are None: the key store does not return their values."""
        return machine_account(self)

    def _own_properties(self) -> dict[str, Any]:
        return {"virtualMachineSize": self.vm_size, "address": self.address, "sshPort": self.ssh_port}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {"address": properties.get("address"), "port": properties.get("sshPort")}


class DsvmProvisioningConfiguration(ComputeTargetProvisioningConfiguration):
    """Azure's configuration for creating a virtual machine. No machine is created here: attach an existing one."""

    _kinds = ("dsvm",)
    _what = "Creating a virtual machine"
    _instead = "RemoteCompute.attach_configuration(address=...) for a machine that is there"

    def __init__(
        self, vm_size: str | None = "", ssh_port: int | str | None = None, location: str | None = None
    ) -> None:
        super().__init__(DsvmCompute, location)
        self.vm_size, self.ssh_port = vm_size, ssh_port
        self.validate_configuration()

    def validate_configuration(self) -> None:
        if self.ssh_port and not (str(self.ssh_port).isdigit() and 1 <= int(self.ssh_port) <= 65535):
            raise ComputeTargetException(f"ssh_port is a number from 1 to 65535, not {self.ssh_port!r:.100}.")

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        return given(vm_size=self.vm_size, port=self.ssh_port, location=self.location), {}


class DsvmCompute(ComputeTarget):
    """Azure's ready-made virtual machines. Machines that are attached here are RemoteCompute objects."""

    _compute_type = "VirtualMachine"
    _noun = "DSVM"
    _is_deletable, _is_detachable = True, False

    @staticmethod
    def provisioning_configuration(
        vm_size: str | None = None, ssh_port: int | str | None = None, location: str | None = None
    ) -> DsvmProvisioningConfiguration:
        return DsvmProvisioningConfiguration(vm_size, ssh_port, location)

    def get_credentials(self) -> dict[str, Any]:
        """The account there, without its credentials."""
        return machine_account(self)


def machine_account(target: ComputeTarget) -> dict[str, Any]:
    """An account with Azure's keys; its secrets are None."""
    account = {
        "username": getattr(target, "username", None),
        "password": None,
        "publicKeyData": None,
        "privateKeyData": None,
    }
    return {"computeType": target._compute_type, "administratorAccount": account}


_DEPRECATED = """\
This method is DEPRECATED. Please use the following code to attach a Remote compute resource.
# Attach Remote compute
attach_config = RemoteCompute.attach_configuration(address="ip_address",
                                                   ssh_port=22,
                                                   username="username",
                                                   password=None, # If using ssh key
                                                   private_key_file="path_to_a_file",
                                                   private_key_passphrase="some_key_phrase")
compute = ComputeTarget.attach(workspace, name, attach_config)"""
