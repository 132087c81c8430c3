"""Compute targets: named places to run. `local` is always there; machines of one's own are attached."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from windlass.client.exceptions import ComputeTargetException, NotProvided, UserErrorException
from windlass.core.errors import InvalidRequest, ServerUnavailable, WindlassError
from windlass.core.names import target_name

if TYPE_CHECKING:
    from datetime import datetime

    from windlass.client.workspace import Workspace

RESERVED = ("amlcompute", "local", "containerinstance", "docker")
# The class of each kind, imported when a target of it is met.
_CLASSES = {"ssh": ("windlass.client.remote_compute", "RemoteCompute")}


class ComputeTarget:
    """A target by its name, as an object of the class for its kind. One that is not there raises
    ComputeTargetException.

    >>> ComputeTarget(Workspace.from_config(), "local").provisioning_state
    'Succeeded'
    """

    # The word for its kind in Azure's documents; None: our own.
    _compute_type: str | None = None

    name: str
    id: str
    type: str
    location: str
    tags: dict[str, str] | None
    description: str | None
    created_on: datetime | None
    modified_on: datetime | None
    provisioning_state: str
    provisioning_errors: list[dict[str, Any]] | None
    cluster_resource_id: str | None
    cluster_location: str | None
    workspace: Workspace
    is_attached: bool

    def __new__(cls, workspace: Workspace | None, name: str | None) -> ComputeTarget:
        """`None, None` makes an empty one, for deserialize()."""
        if workspace is None or name is None:
            return super().__new__(cls)
        return made(workspace, _find(workspace, name))

    def __init__(self, workspace: Workspace | None, name: str | None) -> None:
        pass  # __new__ filled what was found

    def __getnewargs__(self) -> tuple[None, None]:
        """A copy is made of what this one knows; nobody is asked."""
        return None, None

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        """Take over what the server says."""
        from windlass.core.codec import parse_time

        created, quarantine = view.get("created_at"), view.get("quarantine")
        self.workspace = workspace
        self.name = view["name"]
        self.id = f"{workspace.get_details()['id']}/computes/{self.name}"
        self.type = self._compute_type or view["kind"]
        self.location = self.cluster_location = workspace.location
        self.tags = self.description = self.cluster_resource_id = None
        self.created_on = self.modified_on = parse_time(created) if created else None
        self.is_attached = bool(view.get("is_attached"))
        self.provisioning_state = "Failed" if quarantine else "Succeeded"
        self.provisioning_errors = [_problem("TargetQuarantined", quarantine)] if quarantine else None
        # What wait_for_completion() waits for: the end of an operation that this object began.
        self._operation: str | None = None

    @staticmethod
    def create(workspace: Workspace, name: str, provisioning_configuration: Any) -> ComputeTarget:
        refuse_reserved(name)
        raise NotProvided(
            "Creating compute targets",
            "The target `local` runs scripts on this machine; RemoteCompute.attach_configuration(address=...) attaches "
            "another one.",
        )

    @staticmethod
    def attach(workspace: Workspace, name: str, attach_configuration: Any) -> ComputeTarget:
        """Attach a machine under a name; one that has this name already is attached anew.

        What is wrong with address or credentials is said at once, and then nothing is attached.
        """
        refuse_reserved(name)
        if not isinstance(attach_configuration, ComputeTargetAttachConfiguration):
            raise UserErrorException(
                f"This is not a configuration to attach a target by: {attach_configuration!r:.100}",
                "RemoteCompute.attach_configuration(...) makes one.",
            )
        attached = made(workspace, attach_configuration.attach_to(workspace, name))
        attached._operation = attached.provisioning_state
        return attached

    @staticmethod
    def list(workspace: Workspace) -> list[ComputeTarget]:
        views = workspace._session.call("GET", f"{workspace._path}/targets")["targets"]
        return [made(workspace, view) for view in views]

    def wait_for_completion(self, show_output: bool = False, is_delete_operation: bool = False) -> None:
        """Wait for the end of what this object began: attach() and detach() have ended when they return."""
        if self._operation is None:
            self.refresh_state()
            raise ComputeTargetException(
                "Long running operation information not known, unable to poll. "
                f"Current state is {self.provisioning_state}"
            )
        if show_output:
            sys.stdout.write(self._operation)
        print(f'Provisioning operation finished, operation "{self._operation}"')
        if not is_delete_operation:
            self.refresh_state()
        if self._operation != "Succeeded":
            raise ComputeTargetException(
                "Compute object provisioning polling reached non-successful terminal state, current provisioning "
                f"state: {self.provisioning_state}\nProvisioning operation error:\n{self.provisioning_errors}"
            )

    def refresh_state(self) -> None:
        operation = self._operation
        self._fill(self.workspace, _find(self.workspace, self.name))
        self._operation = operation

    def get_status(self) -> Any:
        """Its state now: the server is asked."""
        self.refresh_state()
        return self.provisioning_state

    def delete(self) -> None:
        raise ComputeTargetException(f"Delete is not supported for {self._noun} object. Try to use detach instead.")

    def detach(self) -> None:
        """Forget the machine and its credentials; what is on it stays. Runs that go on there are in the way."""
        call(self.workspace, "DELETE", f"/targets/{target_name(self.name)}")
        self.provisioning_state, self._operation = "Deleting", "Succeeded"

    @property
    def _noun(self) -> str:
        return type(self).__name__

    def serialize(self) -> dict[str, Any]:
        """Its description in Azure's words, for JSON."""
        about = {
            "computeType": self.type,
            "computeLocation": self.cluster_location,
            "description": self.description,
            "resourceId": self.cluster_resource_id,
            "isAttachedCompute": self.is_attached,
            "provisioningErrors": self.provisioning_errors,
            "provisioningState": self.provisioning_state,
            "properties": self._own_properties(),
        }
        return {"id": self.id, "name": self.name, "tags": self.tags, "location": self.location, "properties": about}

    def _own_properties(self) -> dict[str, Any]:
        """What only its kind has, in Azure's words."""
        return {}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        """From these words back to ours."""
        return {}

    @staticmethod
    def deserialize(workspace: Workspace, object_dict: dict[str, Any]) -> ComputeTarget:
        """The target that serialize() described."""
        kind = (object_dict.get("properties") or {}).get("computeType")
        for module, name in _CLASSES.values():
            known: type[ComputeTarget] = getattr(import_module(module), name)
            if known._compute_type == kind:
                return known.deserialize(workspace, object_dict)
        return described(ComputeTarget, workspace, object_dict)

    def __repr__(self) -> str:
        """One line, since a notebook shows a dictionary of them. What is empty is left out."""
        said = {name: getattr(self, name, None) for name in _SHOWN}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in said.items() if value)})"


_SHOWN = ("name", "type", "provisioning_state", "address", "location", "tags")


class ComputeTargetAttachConfiguration:
    """What a target is attached by; each kind has its own."""

    def attach_to(self, workspace: Workspace, name: str) -> dict[str, Any]:
        """Attach it, and return what the server says of it."""
        raise NotImplementedError


def made(workspace: Workspace, view: dict[str, Any]) -> ComputeTarget:
    """The object for what the server says of a target."""
    module, name = _CLASSES.get(view["kind"], (__name__, "ComputeTarget"))
    kind: type[ComputeTarget] = getattr(import_module(module), name)
    target = kind(None, None)
    target._fill(workspace, view)
    return target


def described(kind: type[ComputeTarget], workspace: Workspace, body: dict[str, Any]) -> ComputeTarget:
    """The object of that class for a description by serialize()."""
    about = body.get("properties") or {}
    for key, there in [("name", body), ("id", body), ("location", body), ("provisioningState", about)]:
        if key not in there:
            raise ComputeTargetException(f'Invalid cluster payload, missing ["{key}"]:\n{body}')
    target = kind(None, None)
    view = {"name": body["name"], "kind": about.get("computeType"), "is_attached": about.get("isAttachedCompute", True)}
    target._fill(workspace, {**view, "config": target._config_of(about.get("properties") or {})})
    target.provisioning_state = about["provisioningState"]
    target.provisioning_errors = about.get("provisioningErrors")
    return target


def refuse_reserved(name: str) -> None:
    if name in RESERVED:
        raise UserErrorException(f"Please specify a different target name. {name} is a reserved name.")


def call(workspace: Workspace, method: str, path: str, body: Any = None) -> Any:
    """One request about targets. What the server refuses is Azure's exception; that there is none stays what it is."""
    try:
        return workspace._session.call(method, workspace._path + path, body)
    except ServerUnavailable:
        raise
    except WindlassError as e:
        raise ComputeTargetException(str(e), inner_exception=e) from None


def _find(workspace: Workspace, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = workspace._session.call("GET", f"{workspace._path}/targets/{target_name(str(name))}")
    except InvalidRequest:
        raise ComputeTargetException(
            f"ComputeTargetNotFound: Compute Target with name {name} not found in provided workspace"
        ) from None
    return found


def _problem(code: str, message: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": str(message)}}
