"""Compute targets: named places to run. This version has the built-in one, `local`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.exceptions import ComputeTargetException, NotProvided
from windlass.core.errors import InvalidRequest
from windlass.core.names import target_name

if TYPE_CHECKING:
    from windlass.client.workspace import Workspace

_USE_LOCAL = "The target `local` runs scripts on this machine."


class ComputeTarget:
    """A target by its name. One that is not there raises ComputeTargetException."""

    def __init__(self, workspace: Workspace, name: str, **kwargs: Any) -> None:
        view = kwargs.get("_view")
        if view is None:
            try:
                view = workspace._session.call("GET", f"{workspace._path}/targets/{target_name(str(name))}")
            except InvalidRequest:
                raise ComputeTargetException(
                    f"ComputeTargetNotFound: Compute Target with name {name} not found in provided workspace"
                ) from None
        self.workspace = workspace
        self._view: dict[str, Any] = view

    @property
    def name(self) -> str:
        return str(self._view["name"])

    @property
    def id(self) -> str:
        return f"{self.workspace.get_details()['id']}/computes/{self.name}"

    @property
    def type(self) -> str:
        return str(self._view["kind"])

    @property
    def location(self) -> str:
        return self.workspace.location

    @property
    def created_on(self) -> str:
        return str(self._view["created_at"])

    @property
    def provisioning_state(self) -> str:
        return "Succeeded"

    @property
    def provisioning_errors(self) -> None:
        return None

    @property
    def is_attached(self) -> bool:
        return bool(self._view["is_attached"])

    def get_status(self) -> str:
        return self.provisioning_state

    def refresh_state(self) -> None:
        self._view = self.workspace._session.call("GET", f"{self.workspace._path}/targets/{self.name}")

    def wait_for_completion(self, show_output: bool = False, **kwargs: Any) -> None:
        """It is there already."""
        if show_output:
            print(self.provisioning_state)

    def serialize(self) -> dict[str, Any]:
        return {"name": self.name, "id": self.id, "location": self.location, "properties": dict(self._view)}

    @staticmethod
    def list(workspace: Workspace) -> list[ComputeTarget]:
        views = workspace._session.call("GET", f"{workspace._path}/targets")["targets"]
        return [ComputeTarget(workspace, view["name"], _view=view) for view in views]

    @staticmethod
    def create(workspace: Workspace, name: str, provisioning_configuration: Any) -> ComputeTarget:
        raise NotProvided("Creating compute targets", _USE_LOCAL)

    @staticmethod
    def attach(workspace: Workspace, name: str, attach_configuration: Any) -> ComputeTarget:
        raise NotProvided("Attaching compute targets", _USE_LOCAL)

    def delete(self) -> None:
        raise NotProvided(f"Deleting the target {self.name}", _USE_LOCAL)

    def detach(self) -> None:
        raise NotProvided(f"Detaching the target {self.name}", _USE_LOCAL)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(workspace={self.workspace!r}, name={self.name}, id={self.id}, type={self.type}, "
            f"provisioning_state={self.provisioning_state}, location={self.location}, tags=None)"
        )
