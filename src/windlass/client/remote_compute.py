"""Machines that people own, reached by SSH: RemoteCompute, in Azure's words a virtual machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.client.compute import ComputeTarget, ComputeTargetAttachConfiguration, call, described
from windlass.client.compute_files import USUAL_PORT, split_address
from windlass.client.exceptions import ComputeTargetException, NotProvided
from windlass.core.names import USUAL_TARGET
from windlass.core.sanitize import shown

if TYPE_CHECKING:
    from windlass.client.workspace import Workspace

KIND = "ssh"
_ADDRESS = 'Name the machine itself: RemoteCompute.attach_configuration(address="host or IP address", ...)'


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

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        super()._fill(workspace, view)
        config = view.get("config") or {}
        self.address, self.ssh_port = config.get("address"), config.get("port") or USUAL_PORT
        self.username, self.vm_size = config.get("username"), None

    @staticmethod
    def attach_configuration(
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
        **more: Any,
    ) -> RemoteComputeAttachConfiguration:
        """How to get to a machine: `address` (HOST or HOST:PORT), account, and a password or the file of a private key.

        Beyond Azure's parameters: `use_workspace_key=True` or `use_agent=True` in place of password and key, `host_key`
        ("ssh-ed25519 AAAA…": refuse any other), and the settings of the kind: jump, python, root, docker, base_image.
        """
        where = {
            "subscription_id": subscription_id,
            "resource_group": resource_group,
            "vm_name": vm_name,
            "resource_id": resource_id,
            "address": address,
        }
        login = {"password": password, "private_key_file": private_key_file, "passphrase": private_key_passphrase}
        return RemoteComputeAttachConfiguration(username, where, ssh_port, login, more)

    @staticmethod
    def attach(
        workspace: Workspace,
        name: str,
        attach_configuration: Any = None,
        username: str | None = None,
        address: str | None = None,
        **more: Any,
    ) -> ComputeTarget:
        """With a configuration as ComputeTarget.attach(); the form without one is deprecated, as in Azure."""
        if isinstance(attach_configuration, ComputeTargetAttachConfiguration):
            return ComputeTarget.attach(workspace, name, attach_configuration)
        raise ComputeTargetException(_DEPRECATED)

    def delete(self) -> None:
        raise ComputeTargetException("Delete is not supported for RemoteCompute object. Try to use detach instead.")

    def get_credentials(self) -> dict[str, Any]:
        """Who logs in there. What lets us in is in the key store, which nobody reads."""
        account = {"username": self.username, "password": None, "publicKeyData": None, "privateKeyData": None}
        return {"computeType": self._compute_type, "administratorAccount": account}

    def _own_properties(self) -> dict[str, Any]:
        return {"virtualMachineSize": self.vm_size, "address": self.address, "sshPort": self.ssh_port}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {"address": properties.get("address"), "port": properties.get("sshPort")}

    @staticmethod
    def deserialize(workspace: Workspace, object_dict: dict[str, Any]) -> ComputeTarget:
        about = object_dict.get("properties")
        if not isinstance(about, dict) or "computeType" not in about:
            raise ComputeTargetException(f"Invalid cluster payload:\n{object_dict}")
        if about["computeType"] != RemoteCompute._compute_type:
            raise ComputeTargetException(
                f'Invalid cluster payload, not "{RemoteCompute._compute_type}":\n{object_dict}'
            )
        return described(RemoteCompute, workspace, object_dict)


class DsvmCompute(RemoteCompute):
    """Azure's ready-made virtual machines. One that is attached is found by this name too."""

    @staticmethod
    def provisioning_configuration(
        vm_size: str | None = None, ssh_port: int | None = None, location: str | None = None
    ) -> Any:
        raise NotProvided("Creating a virtual machine", f"Attach one that is there. {_ADDRESS}")


class RemoteComputeAttachConfiguration(ComputeTargetAttachConfiguration):
    """Checked as far as that is possible without the machine."""

    def __init__(
        self, username: str, where: dict[str, Any], ssh_port: int | str, login: dict[str, Any], more: dict[str, Any]
    ) -> None:
        self.username = username
        self.subscription_id, self.resource_group = where["subscription_id"], where["resource_group"]
        self.vm_name, self.resource_id, self.address = where["vm_name"], where["resource_id"], where["address"]
        self.ssh_port = ssh_port
        self._split_address()
        self.password, self.private_key_file = login["password"], login["private_key_file"]
        self.private_key_passphrase = login["passphrase"]
        self.use_workspace_key, self.use_agent = more.pop("use_workspace_key", False), more.pop("use_agent", False)
        self.settings = more
        self.validate_configuration()

    def _split_address(self) -> None:
        """An address may have its port with it, as on the command lines."""
        if not isinstance(self.address, str):
            return
        self.address, port = split_address(self.address)
        if port is None:
            return
        if str(self.ssh_port) not in (str(USUAL_PORT), str(port), "", "None"):
            raise ComputeTargetException(f"address names port {port}, and ssh_port {self.ssh_port}.")
        self.ssh_port = port

    def validate_configuration(self) -> None:
        if not self.username:
            raise ComputeTargetException("username is not provided.")
        if self.subscription_id and self.resource_group and self.vm_name:
            self._refuse("If subscription_id, resource_group, vm_name are provided", "address", "resource_id")
        elif self.resource_id:
            self._check_resource_id()
            others = ("address", "subscription_id", "resource_group", "vm_name")
            self._refuse("Since resource_id is provided", *others)
        elif self.address:
            self._refuse("Since address is provided", "resource_id", "subscription_id", "resource_group", "vm_name")
        else:
            raise ComputeTargetException(
                "Please provide subscription_id, resource_group, vm_name or provide resource_id or address for virtual "
                "machine being attached."
            )
        if not self.address:
            raise ComputeTargetException(
                f"Finding a machine by its Azure resource is not provided in this version.\n{_ADDRESS}"
            )

    def _refuse(self, since: str, *names: str) -> None:
        for name in names:
            if getattr(self, name):
                raise ComputeTargetException(f"{since}, please do not provide {name}.")

    def _check_resource_id(self) -> None:
        parts = str(self.resource_id).split("/")
        if len(parts) != 9:
            raise ComputeTargetException(f"Invalid resource_id provided: {self.resource_id}")
        if parts[6] != "Microsoft.Compute":
            raise ComputeTargetException(
                f"Invalid resource_id provided, resource type {parts[6]} does not match for virtual machine"
            )

    def attach_to(self, workspace: Workspace, name: str) -> dict[str, Any]:
        login, credentials = self._login()
        config = {**self.settings, "address": self.address, "port": self._port(), "username": self.username}
        body = {"name": name, "kind": KIND, "config": {**config, "login": login}, "credentials": credentials}
        attached: dict[str, Any] = call(workspace, "POST", "/targets", {**body, "exist_ok": True})
        _tell(attached)
        return attached

    def _port(self) -> int:
        if not self.ssh_port:
            raise ComputeTargetException("Error, missing ssh-port.")
        text = str(self.ssh_port)
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65535):
            raise ComputeTargetException(f"ssh_port is a number from 1 to 65535, not {self.ssh_port!r:.100}.")
        return int(text)

    def _login(self) -> tuple[str, dict[str, Any]]:
        """How we are let in, and what the server needs for that."""
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


def _tell(view: dict[str, Any]) -> None:
    """Whom we took for the machine, and what it lacks: a script does not ask, so it says."""
    config = view["config"]
    if len(view["name"]) > USUAL_TARGET:
        print(
            f"{view['name']}: the name is longer than the {USUAL_TARGET} characters that Azure takes", file=sys.stderr
        )
    if not config.get("host_key_confirmed"):
        print(
            f"{view['name']}: pinned the first host key that {config['address']} showed: {view['fingerprint']}",
            file=sys.stderr,
        )
    for lack in (view.get("offers") or {}).get("missing") or ():
        print(f"{view['name']}: {shown(lack['what'])}\n  {shown(lack['fix'])}", file=sys.stderr)


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
