"""Connections map Azure coordinates of clusters, accounts, workspaces and machines to what stands for them here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Dict

from windlass.client.compute.target import call, given
from windlass.client.exceptions import ComputeTargetException
from windlass.core import coordinates
from windlass.core.coordinates import Coordinates
from windlass.core.errors import InvalidRequest
from windlass.core.names import connection_name

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace

# Kind: the option for the resource's name, and the other options of the command that adds such a connection.
_OPTIONS = {
    "aks": ("--cluster-name", "--kubeconfig FILE"),
    "databricks": ("--workspace-name", "--host https://… --token-file FILE"),
    "batch": ("--account-name", "--address HOST --username USER --private-key-file FILE"),
    "adla": ("--account-name", "--folder FOLDER"),
    "vm": ("--vm-name", "--address HOST"),
}


class Connection:
    """Maps the Azure coordinates of a resource to settings here; added once, used by every attach that names them.

    >>> workspace = Workspace.from_config()
    >>> added = Connection.add(workspace, "gpu-vm", "vm", resource_group="lab", resource_name="gpu", address="10.0.0.7")
    >>> workspace.connections["gpu-vm"].settings
    {'address': '10.0.0.7'}
    >>> added.remove()
    """

    def __init__(self, workspace: Workspace, view: dict[str, Any]) -> None:
        self.workspace = workspace
        self.name: str = view["name"]
        self.kind: str = view["kind"]
        self.subscription_id: str = view["subscription_id"]
        self.resource_group: str = view["resource_group"]
        self.resource_name: str = view["resource_name"]
        self.settings: Dict[str, Any] = view["config"]

    @staticmethod
    def add(
        workspace: Workspace,
        name: str,
        kind: str,
        resource_group: str | None = None,
        resource_name: str | None = None,
        subscription_id: str | None = None,
        resource_id: str | None = None,
        credentials: dict[str, str] | None = None,
        exist_ok: bool = False,
        **settings: Any,
    ) -> Connection:
        """Add a connection for a `resource_id`, or for a `resource_group` and a `resource_name`.

        Settings and credentials depend on the kind:

        * "databricks": host="https://…", credentials={"token": …}
        * "aks": context="…" (if not the current one), credentials={"kubeconfig": the text of the file}
        * "batch": engine="slurm", address, username, login="password" or "key", credentials={"password": …} or
          {"private_key": …}; or engine="azurebatch", url="https://…", credentials={"account_key": …}
        * "adla": folder="/data/lake" or an address like "abfss://…"
        * "vm": address, port

        Credentials are stored in the workspace's key store, which does not return them. With `exist_ok`, an existing
        connection is changed.
        """
        place = given(
            resource_group=resource_group,
            resource_name=resource_name,
            subscription_id=subscription_id,
            resource_id=resource_id,
        )
        body = {"name": name, "kind": kind, **place, "config": settings, "credentials": credentials or {}}
        return Connection(workspace, call(workspace, "POST", "/connections", {**body, "exist_ok": exist_ok}))

    @staticmethod
    def list(workspace: Workspace) -> list[Connection]:
        found = call(workspace, "GET", "/connections")["connections"]
        return [Connection(workspace, view) for view in found]

    @staticmethod
    def get(workspace: Workspace, name: str) -> Connection:
        return Connection(workspace, call(workspace, "GET", f"/connections/{_checked(name)}"))

    @staticmethod
    def find(
        workspace: Workspace,
        kind: str,
        resource_group: str | None = None,
        resource_name: str | None = None,
        subscription_id: str | None = None,
        resource_id: str | None = None,
    ) -> Connection:
        """The connection for these coordinates. If there is none, the error has the command that adds it."""
        place = read_coordinates(resource_group, resource_name, subscription_id, resource_id)
        if kind not in _OPTIONS:
            raise ComputeTargetException(f"There are no connections of kind {kind!r:.100}; use {', '.join(_OPTIONS)}.")
        known = {each.name: each for each in Connection.list(workspace) if each.kind == kind}
        found = coordinates.matching(place, {name: each.coordinates for name, each in known.items()})
        if not found:
            raise ComputeTargetException(
                f"No connection says what {_described(place, resource_id)} means here; add one: "
                f"{line_to_add(kind, place, resource_id)}"
            )
        if len(found) > 1:
            raise ComputeTargetException(
                f"Several connections fit {_described(place, resource_id)}: {', '.join(found)}; "
                "name the subscription too."
            )
        return known[found[0]]

    @property
    def coordinates(self) -> Coordinates:
        return Coordinates(self.resource_group, self.resource_name, self.subscription_id)

    def remove(self) -> None:
        """Remove the connection with its credentials. Refused while targets use it."""
        call(self.workspace, "DELETE", f"/connections/{self.name}")

    def __repr__(self) -> str:
        place = f"resource_group={self.resource_group!r}, resource_name={self.resource_name!r}"
        return f"Connection(name={self.name!r}, kind={self.kind!r}, {place})"


def read_coordinates(
    resource_group: str | None, resource_name: str | None, subscription_id: str | None, resource_id: str | None
) -> Coordinates:
    """The coordinates of an attach configuration. Raises ComputeTargetException for invalid ones."""
    try:
        if resource_id:
            return coordinates.of_resource_id(resource_id)
        return coordinates.checked(resource_group or "", resource_name or "", subscription_id or "")
    except InvalidRequest as e:
        raise ComputeTargetException(e.text) from None


def line_to_add(kind: str, place: Coordinates, resource_id: str | None = None) -> str:
    """The command that adds a connection for these coordinates; words in capitals are placeholders."""
    option, rest = _OPTIONS[kind]
    if resource_id:
        where = ["--resource-id", resource_id]
    else:
        where = ["--resource-group", place.resource_group, option, place.name]
        where += ["--subscription", place.subscription] if place.subscription else []
    return f"windlass connection add {kind} NAME {' '.join(shlex.quote(word) for word in where)} {rest}"


def _described(place: Coordinates, resource_id: str | None) -> str:
    return resource_id or f"{place.name} of the resource group {place.resource_group}"


def _checked(name: str) -> str:
    try:
        return connection_name(str(name))
    except InvalidRequest as e:
        raise ComputeTargetException(e.text) from None
