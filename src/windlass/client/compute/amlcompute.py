"""Clusters that are created, scaled and deleted for the user: AmlCompute."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any, Iterable, Set

from windlass.client.compute.identity import check_identity
from windlass.client.compute.payload import Payload
from windlass.client.compute.target import (
    ComputeTarget,
    ComputeTargetProvisioningConfiguration,
    call,
    given,
    poll_delays,
    show_state,
)
from windlass.client.compute.virtual_net import check_virtual_net
from windlass.client.exceptions import ComputeTargetException
from windlass.client.unsupported import not_provided

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.client.runs.run import Run
    from windlass.client.workspace.workspace import Workspace

_PRIORITIES = {"dedicated": "Dedicated", "lowpriority": "LowPriority"}
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?\Z")
_SPECIAL = "`~!@#$%^&*()=+_[]{}|;:./'\",<>?"
_CHARACTERS = ("[a-z]", "[A-Z]", "[0-9]", f"[{re.escape(_SPECIAL)}]")  # a password has three of the four
_NODES = ("idle", "leaving", "preempted", "preparing", "running", "unusable")
_FAILED = ("Failed", "Canceled", "Deleting", "Unknown")
_NO_IDENTITY = ("A managed identity", "Give runs what they need as secrets: windlass secret set NAME")
_RECORDED_DEFAULTS = {"remote_login_port_public_access": "NotSpecified", "enable_node_public_ip": True}
_warned: Set[str] = set()


class ScaleSettings(Payload):
    """Minimum and maximum number of nodes, and the idle seconds after which a node is removed.

    >>> ScaleSettings(0, 4, "300").serialize()
    {'minNodeCount': 0, 'maxNodeCount': 4, 'nodeIdleTimeBeforeScaleDown': 'PT300S'}
    """

    def __init__(
        self,
        minimum_node_count: int | None,
        maximum_node_count: int | None,
        idle_seconds_before_scaledown: int | str | None,
    ) -> None:
        self.minimum_node_count, self.maximum_node_count = minimum_node_count, maximum_node_count
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown

    def serialize(self) -> dict[str, Any]:
        idle = self.idle_seconds_before_scaledown
        return {
            "minNodeCount": self.minimum_node_count,
            "maxNodeCount": self.maximum_node_count,
            "nodeIdleTimeBeforeScaleDown": None if idle is None else f"PT{seconds(idle)}S",
        }

    @classmethod
    def deserialize(cls, object_dict: dict[str, Any] | None) -> ScaleSettings | None:
        if not object_dict:
            return None
        idle = object_dict.get("nodeIdleTimeBeforeScaleDown")
        return cls(object_dict.get("minNodeCount"), object_dict.get("maxNodeCount"), _read_duration(idle))


class AmlComputeNodeStateCounts(Payload):
    """The number of nodes in each state."""

    _keys = {
        "preparing_node_count": "preparingNodeCount",
        "running_node_count": "runningNodeCount",
        "idle_node_count": "idleNodeCount",
        "unusable_node_count": "unusableNodeCount",
        "leaving_node_count": "leavingNodeCount",
        "preempted_node_count": "preemptedNodeCount",
    }

    def __init__(
        self,
        idle_node_count: int,
        leaving_node_count: int,
        preempted_node_count: int,
        preparing_node_count: int,
        running_node_count: int,
        unusable_node_count: int,
    ) -> None:
        self.idle_node_count, self.leaving_node_count = idle_node_count, leaving_node_count
        self.preempted_node_count, self.preparing_node_count = preempted_node_count, preparing_node_count
        self.running_node_count, self.unusable_node_count = running_node_count, unusable_node_count


class AmlComputeStatus(Payload):
    """The state of a cluster and of its nodes."""

    _keys = {
        "current_node_count": "currentNodeCount",
        "target_node_count": "targetNodeCount",
        "node_state_counts": "nodeStateCounts",
        "allocation_state": "allocationState",
        "allocation_state_transition_time": "allocationStateTransitionTime",
        "errors": "errors",
        "creation_time": "creationTime",
        "modified_time": "modifiedTime",
        "provisioning_state": "provisioningState",
        "provisioning_state_transition_time": "provisioningStateTransitionTime",
        "scale_settings": "scaleSettings",
        "vm_priority": "vmPriority",
        "vm_size": "vmSize",
    }
    _parts = {"node_state_counts": AmlComputeNodeStateCounts, "scale_settings": ScaleSettings}

    def __init__(
        self,
        allocation_state: str | None,
        allocation_state_transition_time: Any,
        creation_time: Any,
        current_node_count: int,
        errors: Any,
        modified_time: Any,
        node_state_counts: AmlComputeNodeStateCounts | None,
        provisioning_state: str | None,
        provisioning_state_transition_time: Any,
        scale_settings: ScaleSettings | None,
        target_node_count: int,
        vm_priority: str | None,
        vm_size: str | None,
    ) -> None:
        self.allocation_state = allocation_state
        self.allocation_state_transition_time = allocation_state_transition_time
        self.creation_time, self.modified_time = creation_time, modified_time
        self.current_node_count, self.target_node_count = current_node_count, target_node_count
        self.errors, self.node_state_counts = errors, node_state_counts
        self.provisioning_state = provisioning_state
        self.provisioning_state_transition_time = provisioning_state_transition_time
        self.scale_settings, self.vm_priority, self.vm_size = scale_settings, vm_priority, vm_size


class AmlComputeProvisioningConfiguration(ComputeTargetProvisioningConfiguration):
    """Size, number and scaling of a cluster's nodes.

    Virtual networks, identities and locations have no effect here; they are checked as Azure checks them, and stored.
    """

    _kinds = ("cluster",)
    _what = "Creating a cluster"

    def __init__(
        self,
        vm_size: str = "",
        vm_priority: str = "dedicated",
        min_nodes: int = 0,
        max_nodes: int | None = None,
        idle_seconds_before_scaledown: int | str = 1800,
        admin_username: str | None = None,
        admin_user_password: str | None = None,
        admin_user_ssh_key: str | None = None,
        vnet_resourcegroup_name: str | None = None,
        vnet_name: str | None = None,
        subnet_name: str | None = None,
        tags: dict[str, str] | None = None,
        description: str | None = None,
        remote_login_port_public_access: str = "NotSpecified",
        identity_type: str | None = None,
        identity_id: list[str] | None = None,
        compute_location: str | None = None,
        enable_node_public_ip: bool = True,
    ) -> None:
        super().__init__(AmlCompute, compute_location)
        self.vm_size, self.vm_priority = vm_size, vm_priority
        self.min_nodes, self.max_nodes = min_nodes, max_nodes
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown
        self.scale_settings = ScaleSettings(min_nodes, max_nodes, idle_seconds_before_scaledown)
        self.admin_username, self.admin_user_password = admin_username, admin_user_password
        self.admin_user_ssh_key = admin_user_ssh_key
        self.vnet_resourcegroup_name, self.vnet_name, self.subnet_name = vnet_resourcegroup_name, vnet_name, subnet_name
        self.tags, self.description = tags, description
        self.remote_login_port_public_access = remote_login_port_public_access
        self.identity_type, self.identity_id = identity_type, identity_id
        self.compute_location, self.enable_node_public_ip = compute_location, enable_node_public_ip
        self.validate_configuration()

    def validate_configuration(self) -> None:
        self._check_account()
        check_virtual_net(self.vnet_name, self.vnet_resourcegroup_name, self.subnet_name)
        check_node_counts(self.min_nodes, self.max_nodes)
        seconds(self.idle_seconds_before_scaledown)
        if str(self.vm_priority or "dedicated").lower() not in _PRIORITIES:
            raise ComputeTargetException(
                f"vm_priority must be 'dedicated' or 'lowpriority', not {self.vm_priority!r:.100}"
            )
        check_identity(self.identity_type, self.identity_id, "identity_id", "identity")

    def _check_account(self) -> None:
        password, key = self.admin_user_password, self.admin_user_ssh_key
        if not self.admin_username and (password or key):
            raise ComputeTargetException(
                "Invalid user credentials, admin username must be provided along with either a password or SSH key "
                "information."
            )
        if self.admin_username and not (password or key):
            raise ComputeTargetException(
                "Invalid user credentials, no password or key information provided. Please provide either a password "
                "or SSH key information."
            )
        if password and sum(bool(re.search(each, password)) for each in _CHARACTERS) < 3:
            raise ComputeTargetException(
                "Invalid admin user password provided. The admin user password must have 3 of the following: 1 "
                "lowercase character, 1 uppercase character, 1 number, and 1 special character "
                f"{_SPECIAL}"
            )

    def _recorded(self) -> dict[str, Any]:
        """The given parameters that have no effect here."""
        found = {
            "location": self.location,
            "vnet_resourcegroup_name": self.vnet_resourcegroup_name,
            "vnet_name": self.vnet_name,
            "subnet_name": self.subnet_name,
            "identity_type": self.identity_type,
            "identity_id": self.identity_id,
            "remote_login_port_public_access": self.remote_login_port_public_access,
            "enable_node_public_ip": self.enable_node_public_ip,
        }
        return {name: value for name, value in found.items() if value not in (None, _RECORDED_DEFAULTS.get(name))}

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        recorded = self._recorded()
        _warn_once(recorded)
        config = given(
            vm_size=self.vm_size,
            vm_priority=str(self.vm_priority or "dedicated").lower(),
            min_nodes=self.min_nodes or 0,
            max_nodes=self.max_nodes,
            idle_seconds_before_scaledown=seconds(self.idle_seconds_before_scaledown),
            admin_username=self.admin_username,
            admin_user_ssh_key=self.admin_user_ssh_key,
            tags=self.tags,
            description=self.description,
            recorded=recorded or None,
        )
        return config, given(admin_user_password=self.admin_user_password)


class AmlCompute(ComputeTarget):
    """A cluster that adds nodes when runs are queued, and removes nodes that have been idle.

    >>> config = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=4)
    >>> config.scale_settings.serialize()["nodeIdleTimeBeforeScaleDown"]
    'PT1800S'
    """

    _compute_type = "AmlCompute"
    _is_deletable, _is_detachable = True, False

    vm_size: str | None
    vm_priority: str | None
    scale_settings: ScaleSettings
    admin_username: str | None
    status: AmlComputeStatus | None

    @staticmethod
    def provisioning_configuration(
        vm_size: str = "",
        vm_priority: str = "dedicated",
        min_nodes: int = 0,
        max_nodes: int | None = None,
        idle_seconds_before_scaledown: int | str = 1800,
        admin_username: str | None = None,
        admin_user_password: str | None = None,
        admin_user_ssh_key: str | None = None,
        vnet_resourcegroup_name: str | None = None,
        vnet_name: str | None = None,
        subnet_name: str | None = None,
        tags: dict[str, str] | None = None,
        description: str | None = None,
        remote_login_port_public_access: str = "NotSpecified",
        identity_type: str | None = None,
        identity_id: list[str] | None = None,
        location: str | None = None,
        enable_node_public_ip: bool = True,
        *,
        autoscale_enabled: bool | None = None,
        cluster_min_nodes: int | None = None,
        cluster_max_nodes: int | None = None,
    ) -> AmlComputeProvisioningConfiguration:
        """The size and number of nodes of a cluster, for ComputeTarget.create().

        The last three are Batch AI's names for `min_nodes` and `max_nodes`.
        """
        if (autoscale_enabled, cluster_min_nodes, cluster_max_nodes) != (None, None, None):
            min_nodes, max_nodes = _nodes_of_batch_ai(autoscale_enabled, cluster_min_nodes, cluster_max_nodes)
        return AmlComputeProvisioningConfiguration(
            vm_size,
            vm_priority,
            min_nodes,
            max_nodes,
            idle_seconds_before_scaledown,
            admin_username,
            admin_user_password,
            admin_user_ssh_key,
            vnet_resourcegroup_name,
            vnet_name,
            subnet_name,
            tags,
            description,
            remote_login_port_public_access,
            identity_type,
            identity_id,
            location,
            enable_node_public_ip,
        )

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        super()._fill(workspace, view)
        config, nodes = view.get("config") or {}, view.get("nodes") or {}
        self.vm_size, self.admin_username = config.get("vm_size"), config.get("admin_username")
        self.vm_priority = _PRIORITIES.get(str(config.get("vm_priority") or "dedicated").lower())
        self.scale_settings = ScaleSettings(
            config.get("min_nodes", 0), config.get("max_nodes"), config.get("idle_seconds_before_scaledown")
        )
        self.location = self.cluster_location = (config.get("recorded") or {}).get("location") or self.location
        counts = {f"{state}_node_count": int(nodes.get(state, 0)) for state in _NODES}
        current = sum(counts.values())
        changing = counts["preparing_node_count"] + counts["leaving_node_count"]
        self.status = AmlComputeStatus(
            allocation_state=view.get("allocation_state") or ("Resizing" if changing else "Steady"),
            allocation_state_transition_time=view.get("allocation_state_at"),
            creation_time=self.created_on,
            current_node_count=current,
            errors=self.provisioning_errors,
            modified_time=self.modified_on,
            node_state_counts=AmlComputeNodeStateCounts(**counts),
            provisioning_state=self.provisioning_state,
            provisioning_state_transition_time=None,
            scale_settings=self.scale_settings,
            target_node_count=int(view.get("target_nodes", current - counts["leaving_node_count"])),
            vm_priority=self.vm_priority,
            vm_size=self.vm_size,
        )

    def get_status(self) -> AmlComputeStatus | None:
        """The current state of the cluster and its nodes, requested from the server; None before it is created."""
        self.refresh_state()
        if self.provisioning_state in ("Succeeded", "Updating"):
            return self.status
        if self.provisioning_state == "Creating":
            print("AmlCompute is getting created. Consider calling wait_for_completion() first\n")
        else:
            print("AmlCompute is in a failed state, try deleting and recreating\n")
        return None

    def wait_for_completion(  # type: ignore[override]
        self,
        show_output: bool = False,
        min_node_count: int | None = None,
        timeout_in_minutes: float = 25,
        is_delete_operation: bool = False,
    ) -> None:
        """Wait until the cluster is created and has `min_node_count` nodes (default: its own minimum).

        After a timeout or a failure of the cluster it returns without them and prints a message; without `show_output`,
        to standard error.
        """
        if is_delete_operation or self.provisioning_state == "Deleting":
            super().wait_for_completion(show_output, is_delete_operation)
            return
        deadline = time.monotonic() + 60 * timeout_in_minutes
        problem = self._await_nodes(show_output, min_node_count, deadline)
        if show_output:
            print("\nAmlCompute wait for completion finished\n")
            print(problem or "Minimum number of nodes requested have been provisioned")
        elif problem:
            print(problem, file=sys.stderr)

    def _await_nodes(self, show_output: bool, wanted: int | None, deadline: float) -> str:
        """Poll until there are enough nodes; returns the reason if there are not, or ""."""
        shown = ""
        for pause in poll_delays():
            state, ready = self._poll() or "Unknown", self._ready_nodes()
            least = wanted if wanted is not None else self.scale_settings.minimum_node_count or 0
            if show_output:
                for text in _progress(state, ready, least, shown):
                    show_state(text, shown)
                    shown = text
            if state == "Succeeded" and ready >= least:
                return ""
            if state in _FAILED:
                return self._failure(state)
            if time.monotonic() >= deadline:
                return (
                    "Wait timeout has been reached\n"
                    f'Current provisioning state of AmlCompute is "{state}" and current node count is "{ready}"'
                )
            time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
        raise AssertionError("poll_delays() never ends")

    def _ready_nodes(self) -> int:
        counts = self.status.node_state_counts if self.status else None
        return counts.idle_node_count + counts.running_node_count if counts else 0

    def _failure(self, state: str) -> str:
        errors = f"\nThere were errors reported from AmlCompute:\n{self.provisioning_errors}"
        return f'Terminal state of "{state}" has been reached' + (errors if self.provisioning_errors else "")

    def get(self) -> dict[str, Any]:
        """Its current description, requested from the server."""
        self.refresh_state()
        return self.serialize()

    def update(
        self,
        min_nodes: int | None = None,
        max_nodes: int | None = None,
        idle_seconds_before_scaledown: int | str | None = None,
    ) -> None:
        """Change the scaling; parameters that are None stay as they are."""
        if min_nodes is None and max_nodes is None and idle_seconds_before_scaledown is None:
            return
        scale = self.scale_settings
        least = scale.minimum_node_count if min_nodes is None else min_nodes
        check_node_counts(least, scale.maximum_node_count if max_nodes is None else max_nodes)
        idle = idle_seconds_before_scaledown
        changes = given(
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            idle_seconds_before_scaledown=None if idle is None else seconds(idle),
        )
        call(self.workspace, "PATCH", f"/targets/{self.name}", {"config": changes})
        self.refresh_state()

    @not_provided(*_NO_IDENTITY)
    def add_identity(self, identity_type: str, identity_id: list[str] | None = None) -> None: ...

    @not_provided(*_NO_IDENTITY)
    def remove_identity(self, identity_id: list[str] | None = None) -> None: ...

    def list_nodes(self) -> list[dict[str, Any]]:
        """Its nodes: nodeId, privateIpAddress, publicIpAddress, port, nodeState, runId."""
        return [
            {
                "nodeId": node["id"],
                "privateIpAddress": node["resources"].get("private_ip"),
                "publicIpAddress": node["resources"].get("public_ip"),
                "port": node["resources"].get("port"),
                "nodeState": node["state"],
                "runId": next(iter(node["runs"]), None),
            }
            for node in self.nodes()
        ]

    def get_active_runs(
        self, type: str | None = None, tags: Any = None, properties: Any = None, status: str | None = None
    ) -> Iterator[Run]:
        """The runs on it that have not ended, or those of a `status`; the newest first."""
        from windlass.client.runs.listing import on_target

        return on_target(self.workspace, self.name, type, tags, properties, status or "active")

    @staticmethod
    def supported_vmsizes(workspace: Workspace, location: str | None = None) -> list[dict[str, Any]]:
        """The sizes that vm_size may name: name, vCPUs, gpus, memoryGB."""
        return list_vm_sizes(workspace)

    @staticmethod
    def list_usages(workspace: Workspace, show_all: bool = False, location: str | None = None) -> list[dict[str, Any]]:
        """The cores that the clusters of the workspace may take, by family of VM sizes, and their limits; with
        `show_all` of all families.
        """
        found = call(workspace, "GET", "/quotas")["quotas"]
        kept = [each for each in found if show_all or each["used"] or each["limit"] is not None]
        return [{**_quota(workspace, each, "usages"), "currentValue": each["used"]} for each in kept]

    @staticmethod
    def list_quotas(workspace: Workspace, location: str | None = None) -> list[dict[str, Any]]:
        """The families of VM sizes that have a quota, in cores."""
        found = call(workspace, "GET", "/quotas")["quotas"]
        return [_quota(workspace, each, "quotas") for each in found if each["limit"] is not None]

    @staticmethod
    def update_quotas(
        workspace: Workspace, vm_family: Any, limit: int | None = None, location: str | None = None
    ) -> list[dict[str, Any]]:
        """Set the quota of a family of VM sizes, or of a list of them, in cores; None or -1 removes it. For
        administrators of the server.
        """
        families = [vm_family] if isinstance(vm_family, str) else list(vm_family)
        cores = None if limit == -1 else limit
        changed = [call(workspace, "PUT", "/quotas", {"family": name, "cores": cores}) for name in families]
        return [{**_quota(workspace, each, "quotas"), "status": "Success"} for each in changed]

    def _own_properties(self) -> dict[str, Any]:
        account = {"adminUserName": self.admin_username, "adminUserPassword": None, "adminUserSshPublicKey": None}
        return {
            "vmSize": self.vm_size,
            "vmPriority": self.vm_priority,
            "scaleSettings": self.scale_settings.serialize(),
            "userAccountCredentials": account if self.admin_username else None,
        }

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        scale = ScaleSettings.deserialize(properties.get("scaleSettings")) or ScaleSettings(0, None, None)
        account = properties.get("userAccountCredentials") or {}
        return {
            "vm_size": properties.get("vmSize"),
            "vm_priority": properties.get("vmPriority"),
            "min_nodes": scale.minimum_node_count,
            "max_nodes": scale.maximum_node_count,
            "idle_seconds_before_scaledown": scale.idle_seconds_before_scaledown,
            "admin_username": account.get("adminUserName"),
        }


# Batch AI was the service before it.
BatchAiCompute = AmlCompute


def _nodes_of_batch_ai(autoscale_enabled: bool | None, least: int | None, most: int | None) -> tuple[int, int]:
    """Minimum and maximum of nodes, checked as in Batch AI's configuration."""
    if autoscale_enabled is None:
        name = "max" if least is None else "min"
        raise ComputeTargetException(
            f"Invalid provisioning configuration, value provided for {name} node count but autoscale flag not set."
        )
    if autoscale_enabled and (least is None or most is None):
        raise ComputeTargetException(
            "Invalid provisioning configuration, min and max node counts must both be provided to enable autoscaling."
        )
    if least is None or most is None or (not autoscale_enabled and least != most):
        raise ComputeTargetException(
            "Invalid provisioning configuration, min and max node counts must be provided and equal when autoscale is "
            "False."
        )
    return least, most


def check_node_counts(least: Any, most: Any) -> None:
    """Raise ComputeTargetException unless 0 <= least <= most."""
    invalid = "Invalid provisioning configuration,"
    if most is None:
        raise ComputeTargetException(f"{invalid} max nodes count is mandatory")
    for name, count in (("min", least or 0), ("max", most)):
        if isinstance(count, bool) or not isinstance(count, int):
            raise ComputeTargetException(f"{invalid} {name} nodes count must be a whole number, not {count!r:.100}")
        if count < 0:
            raise ComputeTargetException(f"{invalid} {name} nodes count must be greater than or equal to 0")
    if most < (least or 0):
        raise ComputeTargetException(f"{invalid} max nodes count must be greater than or equal to min nodes count")


def seconds(idle: Any) -> int:
    """Idle seconds as a number. A text is accepted too, as in Azure's examples."""
    text = str(idle)
    if isinstance(idle, bool) or not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ComputeTargetException(
            f"idle_seconds_before_scaledown is a number of seconds, such as 1800, not {idle!r:.100}"
        )
    return int(text)


def list_vm_sizes(workspace: Workspace) -> list[dict[str, Any]]:
    """The server's catalogue of sizes, with the keys of Azure's SDK."""
    return [
        {"name": size["name"], "vCPUs": size["cores"], "gpus": size["gpus"], "memoryGB": size["memory_gb"]}
        for size in call(workspace, "GET", "/vm-sizes")["sizes"]
    ]


def _quota(workspace: Workspace, view: dict[str, Any], what: str) -> dict[str, Any]:
    """A quota with Azure's keys; a limit of -1 means no limit."""
    key = "".join(word if number else word.lower() for number, word in enumerate(view["family"].split()))
    return {
        "id": f"{workspace.get_details()['id']}/{what}/{key}",
        "type": f"Microsoft.MachineLearningServices/workspaces/{what}",
        "unit": "Count",
        "limit": -1 if view["limit"] is None else view["limit"],
        "name": {"value": key, "localizedValue": f"{view['family']} vCPUs"},
    }


def _warn_once(recorded: Iterable[str]) -> None:
    """Print a warning for the parameters that have no effect here, once for each."""
    new = [name for name in recorded if name not in _warned]
    if new:
        _warned.update(new)
        verb, kept = ("has", "is") if len(new) == 1 else ("have", "are")
        line = f"Warning: {', '.join(new)} {verb} no meaning here, and {kept} only kept with the cluster."
        print(line, file=sys.stderr)


def _progress(state: str, ready: int, least: int, shown: str) -> list[str]:
    """The texts to print after a poll: the state, and once the cluster is created the number of ready nodes."""
    if state != "Succeeded" or ready >= least:
        return [state]
    waiting = f"Waiting for cluster to scale. {ready} out of {least} nodes ready."
    return [waiting] if shown.startswith("Waiting") else [state, waiting]


def _read_duration(text: Any) -> int | None:
    """The seconds of a duration like PT300S or PT5M; None for anything else."""
    found = _DURATION.match(str(text or ""))
    if found is None or not any(found.groups()):
        return None
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + rest
