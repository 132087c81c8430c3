"""Compute targets: named places to run. `local` always exists; others are attached or created."""

from __future__ import annotations

import itertools
import sys
import time
from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, Dict, List, Tuple, Type

from windlass.client.exceptions import ComputeTargetException, UserErrorException
from windlass.core import backoff
from windlass.core.errors import InvalidRequest, NotFound, ServerUnavailable, WindlassError
from windlass.core.names import USUAL_TARGET, target_name
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from windlass.client.workspace.workspace import Workspace

RESERVED = ("amlcompute", "local", "containerinstance", "docker")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two polls of an operation
# States that change without a request.
_UNDER_WAY = ("Creating", "Updating", "Deleting")
# The class of each kind, imported when it is needed. Kubernetes clusters attached as AKS have their own.
_CLASSES: Dict[str, Tuple[str, str]] = {
    "ssh": ("attached.remote", "RemoteCompute"),
    "cluster": ("amlcompute", "AmlCompute"),
    "instance": ("instance", "ComputeInstance"),
    "spark": ("attached.hdinsight", "HDInsightCompute"),
    "databricks": ("attached.databricks", "DatabricksCompute"),
    "analytics": ("attached.adla", "AdlaCompute"),
    "batch": ("attached.batch", "BatchCompute"),
    "slurm": ("attached.batch", "BatchCompute"),
    "azurebatch": ("attached.batch", "BatchCompute"),
    "kubernetes": ("attached.kubernetes", "KubernetesCompute"),
    "aks": ("aks", "AksCompute"),
}
# Azure's classes without a kind here; the result of serialize() may name them.
_OTHERS = (
    ("attached.azure_services", "DataFactoryCompute"),
    ("attached.azure_services", "KustoCompute"),
    ("attached.azure_services", "SynapseCompute"),
)


class ComputeTarget:
    """A target by its name, as an object of the class for its kind. Raises ComputeTargetException if there is none.

    >>> ComputeTarget(Workspace.from_config(), "local").provisioning_state
    'Succeeded'
    """

    # Azure's name of the kind; None for kinds that Azure does not have.
    _compute_type: str | None = None
    # Its name in errors; the class name if this is empty.
    _noun = ""
    # A target that Windlass created is deleted; one that exists by itself is detached.
    _is_deletable = False
    _is_detachable = True

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
        """`None, None` creates an empty object, for deserialize()."""
        if workspace is None or name is None:
            return super().__new__(cls)
        return target_from_view(workspace, _find(workspace, name))

    def __init__(self, workspace: Workspace | None, name: str | None) -> None:
        pass  # __new__ has set the attributes

    def __getnewargs__(self) -> tuple[None, None]:
        """Copy the attributes of this object, without a request to the server."""
        return None, None

    def _fill(self, workspace: Workspace, view: dict[str, Any]) -> None:
        """Set the attributes from the server's view; subclasses add those of their kind."""
        from windlass.core.codec import parse_time

        created, quarantine, config = view.get("created_at"), view.get("quarantine"), view.get("config") or {}
        self.workspace = workspace
        self.name = view["name"]
        self.id = f"{workspace.get_details()['id']}/computes/{self.name}"
        self.type = self._compute_type or view["kind"]
        self.location = self.cluster_location = config.get("location") or workspace.location
        self.tags, self.description = config.get("tags"), config.get("description")
        self.cluster_resource_id = config.get("resource_id")
        self.created_on = self.modified_on = parse_time(created) if created else None
        self.is_attached = bool(view.get("is_attached"))
        self.provisioning_state = "Failed" if quarantine else view.get("provisioning_state") or "Succeeded"
        self.provisioning_errors = view.get("provisioning_errors") or None
        if self.provisioning_state == "Failed" and view.get("provisioning_message"):
            self.provisioning_errors = [_problem("ProvisioningFailed", view["provisioning_message"])]
        if self._compute_type is None:  # of a kind that Azure does not have
            self._is_deletable, self._is_detachable = not self.is_attached, self.is_attached
        if quarantine:
            self.provisioning_errors = [_problem("TargetQuarantined", quarantine)]
        # Whether this object started an operation that wait_for_completion() waits for.
        self._has_operation = False

    @staticmethod
    def create(workspace: Workspace, name: str, provisioning_configuration: Any) -> ComputeTarget:
        """Create a target under a name; it may still be in creation when this returns."""
        if not isinstance(provisioning_configuration, ComputeTargetProvisioningConfiguration):
            raise UserErrorException(
                f"This is not a configuration to create a target by: {provisioning_configuration!r:.100}",
                "AmlCompute.provisioning_configuration(...) makes one.",
            )
        return _begin(workspace, name, provisioning_configuration)

    @staticmethod
    def attach(workspace: Workspace, name: str, attach_configuration: Any) -> ComputeTarget:
        """Attach a machine or service under a name; a target that has this name already is attached again.

        With a wrong address or wrong credentials it raises at once, and nothing is attached.
        """
        if not isinstance(attach_configuration, ComputeTargetAttachConfiguration):
            raise UserErrorException(
                f"This is not a configuration to attach a target by: {attach_configuration!r:.100}",
                "RemoteCompute.attach_configuration(...) makes one.",
            )
        return _begin(workspace, name, attach_configuration)

    @staticmethod
    def list(workspace: Workspace) -> list[ComputeTarget]:
        views = workspace._session.call("GET", f"{workspace._path}/targets")["targets"]
        return [target_from_view(workspace, view) for view in views]

    def wait_for_completion(self, show_output: bool = False, is_delete_operation: bool = False) -> None:
        """Wait for the end of the operation that this object started: attach(), create(), detach() or delete()."""
        if not self._has_operation:
            self.refresh_state()
            raise ComputeTargetException(
                "Long running operation information not known, unable to poll. "
                f"Current state is {self.provisioning_state}"
            )
        outcome = self._await_end(show_output)
        print(f'Provisioning operation finished, operation "{outcome}"')
        if outcome != "Succeeded":
            raise ComputeTargetException(
                "Compute object provisioning polling reached non-successful terminal state, current provisioning "
                f"state: {self.provisioning_state}\nProvisioning operation error:\n{self.provisioning_errors}"
            )

    def _await_end(self, show_output: bool) -> str:
        """Poll until the state is final, and return it. A deletion has succeeded once the target does not exist."""
        is_deletion = self.provisioning_state == "Deleting"
        before = ""
        for pause in poll_delays():
            state = self._poll()
            if state is None:
                state = "Succeeded" if is_deletion else "Unknown"
            if show_output:
                show_state(state, before)
            if state not in _UNDER_WAY:
                return state
            before = state
            time.sleep(pause)
        raise AssertionError("poll_delays() never ends")

    def _poll(self) -> str | None:
        """The state on the server; None if the target does not exist any more."""
        view = _look_up(self.workspace, self.name)
        if view is None:
            return None
        self._refill(view)
        return self.provisioning_state

    def refresh_state(self) -> None:
        """Update the attributes from the server."""
        self._refill(_find(self.workspace, self.name))

    def _refill(self, view: dict[str, Any]) -> None:
        has_operation = self._has_operation
        self._fill(self.workspace, view)
        self._has_operation = has_operation

    def get_status(self) -> Any:
        """Its current state, requested from the server."""
        self.refresh_state()
        return self.provisioning_state

    def check(self) -> dict[str, Any]:
        """Whether a run could start there now (`ok`, `message`), and what it reports about itself (`inventory`)."""
        found: dict[str, Any] = call(self.workspace, "POST", f"/targets/{target_name(self.name)}/check")
        return found

    def nodes(self) -> List[Dict[str, Any]]:
        """Its current nodes: id, state, resources, runs, message. Only for kinds that have nodes."""
        found: List[Dict[str, Any]] = call(self.workspace, "GET", f"/targets/{target_name(self.name)}/nodes")["nodes"]
        return found

    def update_settings(self, **settings: Any) -> None:
        """Change settings of its kind, as `windlass compute update` does. A target that was created here is updated in
        the background: wait_for_completion() waits for that.
        """
        self._refill(call(self.workspace, "PATCH", f"/targets/{target_name(self.name)}", {"config": settings}))
        self._has_operation = True

    def probe(self) -> dict[str, Any]:
        """The identity that answers at the target's address: `identity` (pin, shown_as ...), `location`, `endpoint`."""
        found: dict[str, Any] = call(self.workspace, "POST", f"/targets/{target_name(self.name)}/probe")
        return found

    def trust(self, pin: str, confirmed: bool = True) -> None:
        """Pin this identity, if it is the one that answers at the target's address. Ends a quarantine."""
        body = {"pin": pin, "confirmed": confirmed}
        self._refill(call(self.workspace, "POST", f"/targets/{target_name(self.name)}/trust", body))

    def delete(self) -> None:
        """Delete a target that create() created. An attached target is detached instead: detach()."""
        if not self._is_deletable:
            raise ComputeTargetException(
                f"Delete is not supported for {self._noun or type(self).__name__} object. Try to use detach instead."
            )
        self._drop()

    def detach(self) -> None:
        """Remove an attached machine or service and its credentials; its files stay. Refused while runs go on there."""
        if not self._is_detachable:
            raise ComputeTargetException(
                f"Detach is not supported for {self._noun or type(self).__name__} object. Try to use delete instead."
            )
        self._drop()

    def _drop(self) -> None:
        call(self.workspace, "DELETE", f"/targets/{target_name(self.name)}")
        self.provisioning_state, self._has_operation = "Deleting", True

    def serialize(self) -> dict[str, Any]:
        """Its description with Azure's keys, for JSON."""
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
        """The properties of its kind, with Azure's keys."""
        return {}

    def _config_of(self, properties: dict[str, Any]) -> dict[str, Any]:
        """The configuration from the result of `_own_properties`."""
        return {}

    @classmethod
    def deserialize(cls, workspace: Workspace, object_dict: dict[str, Any]) -> ComputeTarget:
        """The target from the result of serialize(), without a request to the server."""
        about = object_dict.get("properties")
        if cls._compute_type is None:
            kind = about.get("computeType") if isinstance(about, dict) else None
            return target_from_description(_class_of_type(kind), workspace, object_dict)
        if not isinstance(about, dict) or "computeType" not in about:
            raise ComputeTargetException(f"Invalid cluster payload:\n{object_dict}")
        if about["computeType"] != cls._compute_type:
            raise ComputeTargetException(f'Invalid cluster payload, not "{cls._compute_type}":\n{object_dict}')
        return target_from_description(cls, workspace, object_dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name, None)}' for name in _SHOWN)})"

    def get_portal_url(self) -> str:
        """The address of the target in the studio."""
        return f"{self.workspace.get_portal_url()}/compute/{self.name}"

    def _repr_html_(self) -> str:
        from windlass.client.notebook.html import target_html

        return target_html(self)


_SHOWN = ("workspace", "name", "id", "type", "provisioning_state", "location", "tags")


class _Configuration(ABC):
    """Base of configurations to create or attach a target by: its possible kinds, and the request for them."""

    _kinds: Tuple[str, ...] = ()
    _what = ""  # the subject of errors
    _instead = "the target local, or a machine attached with RemoteCompute.attach_configuration(address=...)"
    pin: str | None = None  # the identity that the target must show
    pin_confirmed = False  # whether a person has compared it
    slots: int | None = None  # how many runs at once

    def __init__(self, type: Any) -> None:
        self.type = type

    @abstractmethod
    def validate_configuration(self) -> None:
        """Raise ComputeTargetException for settings that are missing or contradict each other."""

    def put_on(self, workspace: Workspace, name: str) -> dict[str, Any]:
        """Send the request that creates or attaches the target, and return the server's view of it."""
        self.validate_configuration()
        kinds = self._provided(workspace)
        config, credentials = self._request(workspace)
        kind = self._choose_kind(kinds, config)
        body = {"name": name, "kind": kind, "config": config, "credentials": credentials, "exist_ok": True}
        more = given(pin=self.pin, pin_confirmed=self.pin_confirmed or None, slots=self.slots)
        answer: dict[str, Any] = call(workspace, "POST", "/targets", {**body, **more})
        return answer

    def _provided(self, workspace: Workspace) -> list[str]:
        """Those of its kinds that the server has a driver for."""
        listed = {each["kind"] for each in call(workspace, "GET", "/kinds")["kinds"]}
        found = [kind for kind in self._kinds if kind in listed]
        if not found:
            raise ComputeTargetException(
                f"{self._what} is not provided in this version, as the server has no driver for targets of kind "
                f"{self._kinds[0]}; use {self._instead}."
            )
        return found

    def _choose_kind(self, kinds: list[str], config: dict[str, Any]) -> str:
        return kinds[0]

    @abstractmethod
    def _request(self, workspace: Workspace) -> tuple[dict[str, Any], dict[str, Any]]:
        """The configuration and the credentials to send."""


class ComputeTargetProvisioningConfiguration(_Configuration):
    """Base of configurations to create a target by; each kind has its own."""

    def __init__(self, type: Any, location: str | None) -> None:
        super().__init__(type)
        self.location = location


class ComputeTargetAttachConfiguration(_Configuration):
    """Base of configurations to attach a target by; each kind has its own."""


class ComputeTargetUpdateConfiguration(ABC):
    """Base of configurations to change a target by."""

    def __init__(self, type: Any) -> None:
        self.type = type

    @abstractmethod
    def validate_configuration(self) -> None:
        """Raise ComputeTargetException for settings that are missing or contradict each other."""


def target_from_view(workspace: Workspace, view: dict[str, Any]) -> ComputeTarget:
    """The object for the server's view of a target; kinds without a class have the base class."""
    kind = view["kind"]
    if kind == "kubernetes" and "cluster_purpose" in (view.get("config") or {}):
        kind = "aks"
    target = (_load(*_CLASSES[kind]) if kind in _CLASSES else ComputeTarget)(None, None)
    target._fill(workspace, view)
    return target


def target_from_description(kind: Type[ComputeTarget], workspace: Workspace, body: dict[str, Any]) -> ComputeTarget:
    """The object of that class for the result of serialize()."""
    about = body.get("properties") or {}
    for key, there in [("name", body), ("id", body), ("location", body), ("provisioningState", about)]:
        if key not in there:
            raise ComputeTargetException(f'Invalid cluster payload, missing ["{key}"]:\n{body}')
    target = kind(None, None)
    config = {
        **target._config_of(about.get("properties") or {}),
        "tags": body.get("tags"),
        "description": about.get("description"),
        "resource_id": about.get("resourceId"),
        "location": body["location"],
    }
    view = {
        "name": body["name"],
        "kind": about.get("computeType"),
        "is_attached": about.get("isAttachedCompute", True),
        "provisioning_state": about["provisioningState"],
        "provisioning_errors": about.get("provisioningErrors"),
        "config": config,
    }
    target._fill(workspace, view)
    return target


def poll_delays() -> Iterator[float]:
    """Seconds between polls of an operation: doubled up to a limit, since most operations end soon."""
    for number in itertools.count(1):
        yield backoff.delay(number, _FIRST_PAUSE, _LONGEST_PAUSE)


def given(**settings: Any) -> dict[str, Any]:
    """The settings without those that are None or ""."""
    return {name: value for name, value in settings.items() if value not in (None, "")}


def call(workspace: Workspace, method: str, path: str, body: Any = None) -> Any:
    """Call the server. Errors become ComputeTargetException; ServerUnavailable passes through."""
    try:
        return workspace._session.call(method, workspace._path + path, body)
    except ServerUnavailable:
        raise
    except WindlassError as e:
        raise ComputeTargetException(e.text, inner_exception=e) from None


def _begin(workspace: Workspace, name: str, configuration: _Configuration) -> ComputeTarget:
    if name in RESERVED:
        raise UserErrorException(f"Please specify a different target name. {name} is a reserved name.")
    view = configuration.put_on(workspace, name)
    target = target_from_view(workspace, view)
    target._has_operation = True
    _report(view)
    if len(target.name) > USUAL_TARGET:
        print(f"{target.name}: the name is longer than the {USUAL_TARGET} characters that Azure takes", file=sys.stderr)
    return target


def _report(view: dict[str, Any]) -> None:
    """Print the server's notes about a new target, such as the identity that was pinned, and its problems."""
    for note in view.get("notes") or ():
        print(f"{view['name']}: {escape(note)}", file=sys.stderr)
    for problem in (view.get("inventory") or {}).get("problems") or ():
        print(f"{view['name']}: {escape(problem['message'])}\n  {escape(problem['fix'])}", file=sys.stderr)


def _find(workspace: Workspace, name: str) -> dict[str, Any]:
    found = _look_up(workspace, name)
    if found is None:
        raise ComputeTargetException(
            f"ComputeTargetNotFound: Compute Target with name {name} not found in provided workspace"
        )
    return found


def _look_up(workspace: Workspace, name: str) -> dict[str, Any] | None:
    """The server's view of a target; None if there is none of that name."""
    try:
        path = f"{workspace._path}/targets/{target_name(str(name))}"
    except InvalidRequest:
        return None
    try:
        found: dict[str, Any] = workspace._session.call("GET", path)
    except NotFound:
        return None
    return found


def _load(module: str, name: str) -> Type[ComputeTarget]:
    found: Type[ComputeTarget] = getattr(import_module(f"windlass.client.compute.{module}"), name)
    return found


def _class_of_type(compute_type: Any) -> Type[ComputeTarget]:
    """The class for Azure's name of a kind."""
    for module, name in (*_CLASSES.values(), *_OTHERS):
        known = _load(module, name)
        if known._compute_type == compute_type:
            return known
    return ComputeTarget


def show_state(state: str, before: str) -> None:
    """Print a state: a new one on its own line, a dot for each poll that returned the same."""
    sys.stdout.write(state if not before else "." if state == before else f"\n{state}")
    sys.stdout.flush()


def _problem(code: str, message: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": str(message)}}
