"""AKS clusters, which in Azure are created or attached to host web services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.attached.azure_resource import ResourceAttachConfiguration, deprecated
from windlass.client.compute.payload import Payload
from windlass.client.compute.target import (
    ComputeTarget,
    ComputeTargetProvisioningConfiguration,
    ComputeTargetUpdateConfiguration,
    given,
)
from windlass.client.exceptions import ComputeTargetException
from windlass.client.unsupported import not_provided

if TYPE_CHECKING:
    from windlass.client.compute.attached.connections import Connection
    from windlass.client.workspace.workspace import Workspace

_CHANGE = ("Changing an AKS cluster", "Change the cluster itself, with kubectl or its own tools.")


class SslConfiguration(Payload):
    """TLS of the web services of a cluster."""

    _keys = {
        "status": "status",
        "cert": "cert",
        "key": "key",
        "cname": "cname",
        "leaf_domain_label": "leafDomainLabel",
        "overwrite_existing_domain": "overwriteExistingDomain",
        "renew": "renew",
    }

    def __init__(
        self,
        status: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        cname: str | None = None,
        leaf_domain_label: str | None = None,
        overwrite_existing_domain: bool = False,
        renew: bool = False,
    ) -> None:
        self.status, self.cert, self.key, self.cname = status, cert, key, cname
        self.leaf_domain_label, self.overwrite_existing_domain = leaf_domain_label, overwrite_existing_domain
        self.renew = renew


class SystemService(Payload):
    """A service of the cluster itself."""

    _keys = {"service_type": "systemServiceType", "version": "version", "public_ip_address": "publicIpAddress"}

    def __init__(self, service_type: str | None, version: str | None, public_ip_address: str | None) -> None:
        self.service_type, self.version, self.public_ip_address = service_type, version, public_ip_address


class _Ssl:
    """TLS settings for creating and attaching a cluster: the files of a certificate, or a domain label."""

    ssl_cname: str | None = None
    ssl_cert_pem_file: str | None = None
    ssl_key_pem_file: str | None = None
    leaf_domain_label: str | None = None
    overwrite_existing_domain = False

    def enable_ssl(
        self,
        ssl_cname: str | None = None,
        ssl_cert_pem_file: str | None = None,
        ssl_key_pem_file: str | None = None,
        leaf_domain_label: str | None = None,
        overwrite_existing_domain: bool = False,
    ) -> Any:
        """Serve by TLS: with a certificate and its key, or under a domain label. Returns the configuration."""
        self.ssl_cname, self.ssl_cert_pem_file, self.ssl_key_pem_file = ssl_cname, ssl_cert_pem_file, ssl_key_pem_file
        self.leaf_domain_label, self.overwrite_existing_domain = leaf_domain_label, overwrite_existing_domain
        self._check_ssl()
        return self

    def _check_ssl(self) -> None:
        parts = (self.ssl_cname, self.ssl_cert_pem_file, self.ssl_key_pem_file)
        if any(parts) and not all(parts):
            raise ComputeTargetException(
                "Invalid configuration, not all ssl information provided. To enable SSL validation please provide the "
                "cname, cert pem file, and key pem file."
            )
        if any(parts) and self.leaf_domain_label:
            raise ComputeTargetException(
                "Invalid configuration. When cname, cert pem file, and key pem file is provided, leaf domain label "
                "should not be provided."
            )
        if any(parts) and self.overwrite_existing_domain:
            raise ComputeTargetException(
                "Invalid configuration. Overwrite existing domain only applies to leaf domain label. When cname, cert "
                "pem file, and key pem file is provided, Overwrite existing domain should not be provided."
            )

    def _ssl_settings(self) -> dict[str, Any]:
        return given(ssl_cname=self.ssl_cname, leaf_domain_label=self.leaf_domain_label)

    def _ssl_credentials(self) -> dict[str, Any]:
        files = given(ssl_cert=self.ssl_cert_pem_file, ssl_key=self.ssl_key_pem_file)
        return {name: _read(path) for name, path in files.items()}


class AksProvisioningConfiguration(_Ssl, ComputeTargetProvisioningConfiguration):
    """Azure's configuration for creating an AKS cluster."""

    _kinds = ("aks",)
    _what = "Creating an AKS cluster"

    def __init__(
        self,
        agent_count: int | None,
        vm_size: str | None,
        ssl_cname: str | None,
        ssl_cert_pem_file: str | None,
        ssl_key_pem_file: str | None,
        location: str | None,
        vnet_resourcegroup_name: str | None,
        vnet_name: str | None,
        subnet_name: str | None,
        service_cidr: str | None,
        dns_service_ip: str | None,
        docker_bridge_cidr: str | None,
        cluster_purpose: str | None,
        load_balancer_type: str | None,
        load_balancer_subnet: str | None,
    ) -> None:
        super().__init__(AksCompute, location)
        self.agent_count, self.vm_size = agent_count, vm_size
        self.ssl_cname, self.ssl_cert_pem_file, self.ssl_key_pem_file = ssl_cname, ssl_cert_pem_file, ssl_key_pem_file
        self.vnet_resourcegroup_name, self.vnet_name, self.subnet_name = vnet_resourcegroup_name, vnet_name, subnet_name
        self.service_cidr, self.dns_service_ip = service_cidr, dns_service_ip
        self.docker_bridge_cidr, self.cluster_purpose = docker_bridge_cidr, cluster_purpose
        self.load_balancer_type, self.load_balancer_subnet = load_balancer_type, load_balancer_subnet
        self.validate_configuration()

    def validate_configuration(self) -> None:
        if self.agent_count is not None and self.agent_count <= 0:
            raise ComputeTargetException("Invalid configuration, agent count must be a positive integer.")
        self._check_ssl()
        net = [self.vnet_name, self.vnet_resourcegroup_name, self.subnet_name]
        net += [self.service_cidr, self.dns_service_ip, self.docker_bridge_cidr]
        if any(net) and not all(net):
            raise ComputeTargetException(
                "Invalid configuration, not all virtual net information provided. To use a custom virtual net with "
                "aks, please provide vnet name, vnet resource group, subnet name, service cidr, dns service ip and "
                "docker bridge cidr"
            )

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        config = given(
            agent_count=self.agent_count,
            vm_size=self.vm_size,
            location=self.location,
            cluster_purpose=self.cluster_purpose or AksCompute.ClusterPurpose.FAST_PROD,
            load_balancer_type=self.load_balancer_type,
            load_balancer_subnet=self.load_balancer_subnet,
        )
        return {**config, **self._ssl_settings()}, self._ssl_credentials()


class AksAttachConfiguration(_Ssl, ResourceAttachConfiguration):
    """An AKS cluster by resource group and name, or by resource id. A connection has its kubeconfig."""

    _kinds = ("kubernetes",)
    _what = "Attaching an AKS cluster"
    _name, _noun, _connection = "cluster_name", "AKS", "aks"
    _provider, _resource_type = "Microsoft.ContainerService", "AKS"

    def __init__(
        self,
        resource_group: str | None = None,
        cluster_name: str | None = None,
        resource_id: str | None = None,
        cluster_purpose: str | None = None,
        load_balancer_type: str | None = None,
        load_balancer_subnet: str | None = None,
    ) -> None:
        super().__init__(AksCompute)
        self.resource_group, self.cluster_name, self.resource_id = resource_group, cluster_name, resource_id
        self.cluster_purpose, self.load_balancer_type = cluster_purpose, load_balancer_type
        self.load_balancer_subnet = load_balancer_subnet
        self.validate_configuration()

    def validate_configuration(self) -> None:
        super().validate_configuration()
        self._check_ssl()
        if self.load_balancer_type not in (None, "", "InternalLoadBalancer", "PublicIp"):
            raise ComputeTargetException(
                'Invalid configuration. Load balancer type should be either "PublicIp" or "InternalLoadBalancer".'
            )
        if self.load_balancer_subnet and self.load_balancer_type != "InternalLoadBalancer":
            raise ComputeTargetException(
                "Invalid configuration, load balancer subnet can be changed from default when load balancer type is "
                '"InternalLoadBalancer".'
            )

    def _settings(self, connection: Connection) -> dict[str, Any]:
        config = given(load_balancer_type=self.load_balancer_type, load_balancer_subnet=self.load_balancer_subnet)
        purpose = self.cluster_purpose or AksCompute.ClusterPurpose.FAST_PROD
        return {"cluster_purpose": purpose, **config, **self._ssl_settings()}

    def _credentials(self) -> dict[str, Any]:
        return self._ssl_credentials()


class AksUpdateConfiguration(ComputeTargetUpdateConfiguration):
    """Azure's configuration for changing an AKS cluster."""

    def __init__(
        self,
        ssl_configuration: SslConfiguration | None = None,
        load_balancer_type: str | None = None,
        load_balancer_subnet: str | None = None,
    ) -> None:
        super().__init__(AksCompute)
        self.ssl_configuration = ssl_configuration
        self.load_balancer_type, self.load_balancer_subnet = load_balancer_type, load_balancer_subnet
        self.validate_configuration()

    def validate_configuration(self) -> None:
        if self.ssl_configuration is not None and not isinstance(self.ssl_configuration, SslConfiguration):
            raise ComputeTargetException("ssl_configuration should be of type SslConfiguration")


class AksCompute(ComputeTarget):
    """An AKS cluster, which in Azure hosts web services. KubernetesCompute is the class of clusters that train."""

    _compute_type = "AKS"
    _is_deletable = True

    class ClusterPurpose:
        """What a cluster is for."""

        DEV_TEST = "DevTest"
        FAST_PROD = "FastProd"
        DENSE_PROD = "DenseProd"

    cluster_purpose: str | None

    attach_configuration = staticmethod(AksAttachConfiguration)

    @staticmethod
    def attach(workspace: Workspace, name: str, resource_id: str) -> ComputeTarget:
        """Deprecated in Azure's SDK too: ComputeTarget.attach() takes a configuration."""
        raise deprecated(
            "AKS", "AksCompute", 'resource_group="name_of_resource_group",', 'cluster_name="name_of_aks_cluster"'
        )

    @staticmethod
    def provisioning_configuration(
        agent_count: int | None = None,
        vm_size: str | None = None,
        ssl_cname: str | None = None,
        ssl_cert_pem_file: str | None = None,
        ssl_key_pem_file: str | None = None,
        location: str | None = None,
        vnet_resourcegroup_name: str | None = None,
        vnet_name: str | None = None,
        subnet_name: str | None = None,
        service_cidr: str | None = None,
        dns_service_ip: str | None = None,
        docker_bridge_cidr: str | None = None,
        cluster_purpose: str | None = None,
        load_balancer_type: str | None = None,
        load_balancer_subnet: str | None = None,
    ) -> AksProvisioningConfiguration:
        """Azure's configuration for creating a cluster. No cluster is created here: attach an existing one."""
        return AksProvisioningConfiguration(
            agent_count,
            vm_size,
            ssl_cname,
            ssl_cert_pem_file,
            ssl_key_pem_file,
            location,
            vnet_resourcegroup_name,
            vnet_name,
            subnet_name,
            service_cidr,
            dns_service_ip,
            docker_bridge_cidr,
            cluster_purpose,
            load_balancer_type,
            load_balancer_subnet,
        )

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        super()._fill(workspace, view)
        self.cluster_purpose = (view.get("config") or {}).get("cluster_purpose")

    @not_provided(*_CHANGE)
    def update(self, update_configuration: AksUpdateConfiguration) -> None: ...

    def get_credentials(self) -> dict[str, Any]:
        """The credentials with Azure's keys, all None: the key store does not return their values."""
        return {"computeType": self._compute_type, "userKubeConfig": None, "adminKubeConfig": None}

    def _own_properties(self) -> dict[str, Any]:
        return {"clusterPurpose": self.cluster_purpose}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {"cluster_purpose": properties.get("clusterPurpose")}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as e:
        raise ComputeTargetException(f"Error while reading ssl information:\n{type(e).__name__}: {e}") from None
