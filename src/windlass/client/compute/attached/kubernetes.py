"""Kubernetes clusters that are attached to train on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, List

from windlass.client.compute.attached.connections import Connection
from windlass.client.compute.identity import check_identity
from windlass.client.compute.payload import Payload
from windlass.client.compute.target import ComputeTarget, ComputeTargetAttachConfiguration, given
from windlass.client.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace

_PROVIDERS = ("Microsoft.ContainerService/managedClusters", "Microsoft.Kubernetes/connectedClusters")
_TEMPLATE = "/subscriptions/<>/resourceGroups/<>/providers/{}/<>"
_RESOURCE_ID = re.compile(
    rf"/subscriptions/[\w.-]+/resourceGroups/[\w.-]+/providers/(?:{'|'.join(_PROVIDERS)})/[\w.-]+", re.IGNORECASE
)


class KubernetesComputeAttachConfiguration(ComputeTargetAttachConfiguration):
    """A cluster by its resource id, and the namespace for runs. A connection has its kubeconfig.

    Managed identities have no effect here; they are checked as Azure checks them, and stored.
    """

    _kinds = ("kubernetes",)
    _what = "Attaching a Kubernetes cluster"

    def __init__(
        self,
        resource_id: str | None = None,
        namespace: str | None = None,
        identity_type: str | None = None,
        identity_ids: List[str] | None = None,
    ) -> None:
        super().__init__(KubernetesCompute)
        self.resource_id, self.namespace = resource_id, namespace
        self.identity_type, self.identity_ids = identity_type, identity_ids
        self.validate_configuration()

    def validate_configuration(self) -> None:
        if not self.resource_id:
            raise ComputeTargetException("Missing argument: resource_id.")
        if not _RESOURCE_ID.match(self.resource_id):
            templates = [_TEMPLATE.format(provider) for provider in _PROVIDERS]
            raise ComputeTargetException(
                f"Invalid resource_id provided: {self.resource_id} \n Does not match\n"
                f"AKS template: {templates[0]}\n or\n ARC template: {templates[1]}"
            )
        check_identity(self.identity_type, self.identity_ids, "identity_ids", "identities")

    def to_dict(self) -> dict[str, Any]:
        """Its settings, those without a value left out."""
        return given(
            resource_id=self.resource_id,
            namespace=self.namespace,
            identity_type=self.identity_type,
            identity_ids=self.identity_ids,
        )

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        found = Connection.find(workspace, "aks", resource_id=self.resource_id)
        return {"connection": found.name, **self.to_dict()}, {}


class KubernetesComputeStatus(Payload):
    """The state of a cluster."""

    _keys = {
        "creation_time": "creationTime",
        "modified_time": "modifiedTime",
        "provisioning_state": "provisioningState",
    }

    def __init__(self, creation_time: Any, modified_time: Any, provisioning_state: str | None) -> None:
        self.creation_time, self.modified_time = creation_time, modified_time
        self.provisioning_state = provisioning_state


class KubernetesCompute(ComputeTarget):
    """A Kubernetes cluster: one job per run. Windlass does not scale its nodes."""

    _compute_type = "Kubernetes"

    namespace: str | None

    attach_configuration = staticmethod(KubernetesComputeAttachConfiguration)

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        super()._fill(workspace, view)
        self.namespace = (view.get("config") or {}).get("namespace")

    def get_status(self) -> KubernetesComputeStatus:
        """Its current state, requested from the server."""
        self.refresh_state()
        return KubernetesComputeStatus(self.created_on, self.modified_on, self.provisioning_state)

    def get(self) -> dict[str, Any]:
        """Its current description, requested from the server."""
        self.refresh_state()
        return self.serialize()

    def _own_properties(self) -> dict[str, Any]:
        return {"namespace": self.namespace}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {"namespace": properties.get("namespace")}
