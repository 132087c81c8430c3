"""Workstations that are created, started, stopped and deleted for the user: ComputeInstance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.compute.amlcompute import list_vm_sizes
from windlass.client.compute.payload import Payload
from windlass.client.compute.target import ComputeTarget, ComputeTargetProvisioningConfiguration, call, given
from windlass.client.compute.virtual_net import check_virtual_net
from windlass.client.exceptions import ComputeTargetException
from windlass.client.unsupported import not_provided

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.client.runs.run import Run
    from windlass.client.workspace.workspace import Workspace

_STOPPED = ("Stopped", "CreateFailed", "SetupFailed", "UserSetupFailed")
_RUNNING = ("Running", "JobRunning")
_UNDER_WAY = ("Creating", "Starting", "Stopping", "Restarting", "Resizing", "SettingUp", "UserSettingUp")
# The states in which an operation may begin.
_BEGINS = {"Start": _STOPPED, "Stop": _RUNNING, "Restart": _RUNNING}


class ComputeInstanceProvisioningConfiguration(ComputeTargetProvisioningConfiguration):
    """The size of a workstation, and its account.

    Virtual networks and assigned users have no effect here; they are checked as Azure checks them, and stored.
    """

    _kinds = ("instance",)
    _what = "Creating a compute instance"
    _instead = "JupyterLab on a machine of your own: `from windlass import Workspace` works in any notebook"

    def __init__(
        self,
        vm_size: str = "",
        ssh_public_access: bool = False,
        admin_user_ssh_public_key: str | None = None,
        vnet_resourcegroup_name: str | None = None,
        vnet_name: str | None = None,
        subnet_name: str | None = None,
        tags: dict[str, str] | None = None,
        description: str | None = None,
        assigned_user_object_id: str | None = None,
        assigned_user_tenant_id: str | None = None,
    ) -> None:
        super().__init__(ComputeInstance, None)
        self.vm_size, self.ssh_public_access = vm_size, ssh_public_access
        self.admin_user_ssh_public_key = admin_user_ssh_public_key
        self.vnet_resourcegroup_name, self.vnet_name, self.subnet_name = vnet_resourcegroup_name, vnet_name, subnet_name
        self.tags, self.description = tags, description
        self.assigned_user_object_id = assigned_user_object_id
        self.assigned_user_tenant_id = assigned_user_tenant_id
        self.validate_configuration()

    def validate_configuration(self) -> None:
        check_virtual_net(self.vnet_name, self.vnet_resourcegroup_name, self.subnet_name)

    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        config = given(
            vm_size=self.vm_size,
            ssh_public_access=self.ssh_public_access,
            admin_user_ssh_public_key=self.admin_user_ssh_public_key,
            tags=self.tags,
            description=self.description,
            assigned_user_object_id=self.assigned_user_object_id,
            assigned_user_tenant_id=self.assigned_user_tenant_id,
        )
        return config, {}


class ComputeInstanceStatus(Payload):
    """The state of a workstation."""

    _keys = {
        "creation_time": "creationTime",
        "created_by_user_name": "createdByUserName",
        "created_by_user_id": "createdByUserId",
        "created_by_user_org": "createdByUserOrg",
        "errors": "errors",
        "modified_time": "modifiedTime",
        "state": "state",
        "vm_size": "vmSize",
    }

    def __init__(
        self,
        creation_time: Any,
        created_by_user_name: str | None,
        created_by_user_id: str | None,
        created_by_user_org: str | None,
        errors: Any,
        modified_time: Any,
        state: str | None,
        vm_size: str | None,
    ) -> None:
        self.creation_time, self.modified_time = creation_time, modified_time
        self.created_by_user_name, self.created_by_user_id = created_by_user_name, created_by_user_id
        self.created_by_user_org, self.errors = created_by_user_org, errors
        self.state, self.vm_size = state, vm_size


class ComputeInstance(ComputeTarget):
    """A workstation with notebooks."""

    _compute_type = "ComputeInstance"
    _is_deletable, _is_detachable = True, False

    vm_size: str | None
    status: ComputeInstanceStatus

    provisioning_configuration = staticmethod(ComputeInstanceProvisioningConfiguration)

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        super()._fill(workspace, view)
        self.vm_size = (view.get("config") or {}).get("vm_size")
        self.status = ComputeInstanceStatus(
            creation_time=self.created_on,
            created_by_user_name=view.get("attached_by"),
            created_by_user_id=None,
            created_by_user_org=None,
            errors=self.provisioning_errors,
            modified_time=self.modified_on,
            state=view.get("state"),
            vm_size=self.vm_size,
        )

    @classmethod
    @not_provided("The address of Azure's documentation", "docs/index.md lists what there is.")
    def get_docs_url(cls) -> str:  # type: ignore[empty-body]
        ...

    @not_provided("Single sign-on of a compute instance", "The token of the server opens what it serves.")
    def update_sso_settings(self, value: bool) -> None: ...

    def get_status(self) -> ComputeInstanceStatus:
        """Its current state, requested from the server."""
        self.refresh_state()
        return self.status

    def get(self) -> dict[str, Any]:
        """Its current description, requested from the server."""
        self.refresh_state()
        return self.serialize()

    def start(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Start it, if it is stopped."""
        self._change("Start", wait_for_completion, show_output)

    def stop(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Stop it, if it runs."""
        self._change("Stop", wait_for_completion, show_output)

    def restart(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Stop and start it, if it runs."""
        self._change("Restart", wait_for_completion, show_output)

    def _change(self, operation: str, wait: bool, show_output: bool) -> None:
        state = self.get_status().state
        if state not in _BEGINS[operation]:
            raise ComputeTargetException(
                f"ComputeInstance current state ({state}) does not support {operation} operation."
            )
        call(self.workspace, "POST", f"/targets/{self.name}/{operation.lower()}")
        self._has_operation = True
        if wait:
            self.wait_for_completion(show_output=show_output)

    def _poll(self) -> str | None:
        """The state of the target; "Updating" while the workstation itself is changing its state."""
        state = super()._poll()
        return "Updating" if state == "Succeeded" and self.status.state in _UNDER_WAY else state

    def delete(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Delete it; files in the shared folder stay."""
        super().delete()
        if wait_for_completion:
            self.wait_for_completion(show_output=show_output, is_delete_operation=True)

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

    def _own_properties(self) -> dict[str, Any]:
        return {"vmSize": self.vm_size, "state": self.status.state}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {"vm_size": properties.get("vmSize")}
