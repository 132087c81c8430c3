"""HDInsight clusters that are attached: Spark behind a head node that is reached by SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.azure_resource import deprecated
from windlass.client.compute.attached.machine_login import MachineLogin
from windlass.client.compute.attached.remote import machine_account
from windlass.client.compute.target import ComputeTarget, ComputeTargetAttachConfiguration
from windlass.client.config.workbench_compute_file import USUAL_PORT

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace


class HDInsightAttachConfiguration(MachineLogin, ComputeTargetAttachConfiguration):
    """Address and account of a cluster's head node, and a password or the file of a private key.

    A cluster that is named by its Azure resource is found through a connection: Connection.add(…, "vm", …).
    """

    _kinds = ("spark",)
    _what = "Attaching an HDInsight cluster"
    _namespace, _resource, _name = "Microsoft.HDInsight", "HDInsight", "cluster_name"

    def __init__(
        self,
        username: str,
        subscription_id: str | None = None,
        resource_group: str | None = None,
        cluster_name: str | None = None,
        resource_id: str | None = None,
        address: str | None = None,
        ssh_port: int | str = "22",
        password: str | None = "",
        private_key_file: str | None = "",
        private_key_passphrase: str | None = "",
    ) -> None:
        super().__init__(HDInsightCompute)
        self.username, self.subscription_id, self.resource_group = username, subscription_id, resource_group
        self.cluster_name, self.resource_id, self.address = cluster_name, resource_id, address
        self.ssh_port, self.password, self.private_key_file = ssh_port, password, private_key_file
        self.private_key_passphrase = private_key_passphrase
        self.split_address()
        self.validate_configuration()

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.login_request(workspace)


class HDInsightCompute(ComputeTarget):
    """A Spark cluster whose head node is reached by SSH.

    >>> config = HDInsightCompute.attach_configuration(address="lab-ssh.example.org", username="jane", password="...")
    >>> config.ssh_port
    '22'
    """

    _compute_type = "HDInsight"
    _noun = "HDICompute"

    address: str | None
    ssh_port: int | str | None
    username: str | None

    attach_configuration = staticmethod(HDInsightAttachConfiguration)

    @staticmethod
    def attach(  # type: ignore[override]
        workspace: Workspace,
        name: str,
        username: str,
        address: str,
        ssh_port: str = "22",
        password: str = "",
        private_key_file: str = "",
        private_key_passphrase: str = "",
    ) -> ComputeTarget:
        """Deprecated in Azure's SDK too: ComputeTarget.attach() takes a configuration."""
        raise deprecated(
            "HDI",
            "HDInsightCompute",
            'address="ip_address",',
            "ssh_port=22,",
            'username="username",',
            "password=None, # If using ssh key",
            'private_key_file="path_to_a_file",',
            'private_key_passphrase="some_key_phrase"',
        )

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        super()._fill(workspace, view)
        config = view.get("config") or {}
        self.address, self.ssh_port = config.get("address"), config.get("port") or USUAL_PORT
        self.username = config.get("username")

    def get_credentials(self) -> dict[str, Any]:
        """The account there. Password and keys are None: the key store does not return their values."""
        return machine_account(self)

    def _own_properties(self) -> dict[str, Any]:
        return {"address": self.address, "sshPort": self.ssh_port}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {"address": properties.get("address"), "port": properties.get("sshPort")}
