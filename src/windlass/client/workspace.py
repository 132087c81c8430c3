"""A workspace: the top container of experiments, runs and targets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from windlass.client import embedded, workspace_config
from windlass.client.exceptions import NotProvided, UserErrorException
from windlass.client.workspace_config import Named
from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from windlass.client.compute import ComputeTarget
    from windlass.client.environment import Environment
    from windlass.client.experiment import Experiment
    from windlass.client.http import Session
    from windlass.client.keyvault import Keyvault
    from windlass.client.model import Model
    from windlass.client.run import Run

DEFAULT = "default"
_DATA = "Pass paths as arguments of the script."
_MODELS = "Model.get_model_path(name) fetches a registered model, for a service of your own."


class Workspace:
    """The top container.

    >>> workspace = Workspace.from_config()
    >>> workspace.name
    'default'
    """

    def __init__(
        self,
        subscription_id: str | None = "",
        resource_group: str | None = "",
        workspace_name: str = DEFAULT,
        auth: Any = None,
        sku: str = "basic",
        tags: Any = None,
        **kwargs: Any,
    ) -> None:
        self._session: Session = embedded.session()  # for good: what this process is told later is for others
        self._name = _checked(workspace_name)
        self._given = Named(str(subscription_id or ""), str(resource_group or ""), self._name)
        self._found: dict[str, Any] | None = None
        if kwargs.get("_check", True):
            self._found = self._find()

    def _find(self) -> dict[str, Any]:
        """On the private server a workspace that a project names is made: whoever names it owns the server."""
        try:
            found: dict[str, Any] = self._session.call("GET", self._path)
        except NotFound:
            if not self._session.address.home:
                raise
            body = {"name": self._name, "exist_ok": True, **_description(self._given)}
            found = self._session.call("POST", "/workspaces", body)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Other processes find the server themselves."""
        return {name: value for name, value in vars(self).items() if name != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _session=embedded.session())

    @property
    def _path(self) -> str:
        return f"/workspaces/{self._name}"

    @property
    def _view(self) -> dict[str, Any]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def _experiment(self, name: str) -> Experiment:
        """An experiment that is known to be there."""
        from windlass.client.experiment import Experiment

        return Experiment(self, name, _create_in_cloud=False)

    # Where a workspace comes from.

    @staticmethod
    def from_config(
        path: str | None = None, auth: Any = None, _logger: Any = None, _file_name: str | None = None
    ) -> Workspace:
        """The workspace that the current folder (or `path`) belongs to; without a config.json, the default one.

        In a run's script without a `path` it is the run's workspace: the run's token is good for no other.
        """
        if path is None and os.environ.get("WINDLASS_RUN_TOKEN"):
            return workspace_of_run()
        place = os.path.abspath(path or ".")
        found = place if os.path.isfile(place) else workspace_config.find(place, _file_name)
        if found is None:
            if path is not None:
                raise UserErrorException(
                    f"The workspace configuration file config.json, could not be found in {place} or its parent "
                    "directories.",
                    "Workspace.from_config() without a path uses the default workspace; ws.write_config() writes one.",
                )
            return Workspace()
        return Workspace(*workspace_config.read(found))

    @staticmethod
    def create(
        name: str,
        auth: Any = None,
        subscription_id: str | None = None,
        resource_group: str | None = None,
        location: str | None = None,
        create_resource_group: bool = True,
        sku: str = "basic",
        tags: dict[str, Any] | None = None,
        exist_ok: bool = False,
        show_output: bool = True,
        **kwargs: Any,
    ) -> Workspace:
        """Make a workspace. What Azure needs around one (storage account, key vault, …) is not needed here."""
        named = Named(subscription_id or "", resource_group or "", _checked(name))
        body: dict[str, Any] = {"name": name, "exist_ok": exist_ok, **_description(named), "location": location or ""}
        body["tags"] = {str(key): str(value) for key, value in (tags or {}).items()}
        made = Workspace(*named, _check=False)
        made._found = made._session.call("POST", "/workspaces", body)
        return made

    @staticmethod
    def get(
        name: str,
        auth: Any = None,
        subscription_id: str | None = None,
        resource_group: str | None = None,
        location: str | None = None,
        cloud: str | None = None,
        id: str | None = None,
    ) -> Workspace:
        return Workspace(subscription_id, resource_group, name)

    @staticmethod
    def list(
        subscription_id: str | None = None, auth: Any = None, resource_group: str | None = None
    ) -> dict[str, list[Workspace]]:
        """{name: [workspace]}, of a subscription and resource group where given."""
        found: dict[str, Any] = {}
        for view in embedded.session().call("GET", "/workspaces")["workspaces"]:
            fits = subscription_id in (None, "", view["subscription_id"])
            if fits and resource_group in (None, "", view["resource_group"]):
                workspace = Workspace(view["subscription_id"], view["resource_group"], view["name"], _check=False)
                workspace._found = view
                found.setdefault(view["name"], []).append(workspace)
        return found

    def write_config(self, path: str | None = None, file_name: str | None = None) -> None:
        """Write .azureml/config.json, so that from_config() finds this workspace from here and below."""
        from windlass.client.runconfig import config_folder

        base = os.path.abspath(path or ".")
        folder = os.path.join(base, config_folder(base))
        name = file_name or "config.json"
        named = Named(self.subscription_id, self.resource_group, self.name)
        try:
            workspace_config.write(folder, named, name if name.endswith(".json") else f"{name}.json")
        except OSError as e:
            raise UserErrorException(f"Could not write the config file to: {folder}: {e.strerror}") from e

    # What it is.

    @property
    def name(self) -> str:
        return self._name

    @property
    def subscription_id(self) -> str:
        return str(self._view["subscription_id"]) or self._given.subscription_id

    @property
    def resource_group(self) -> str:
        return str(self._view["resource_group"]) or self._given.resource_group

    @property
    def location(self) -> str:
        return str(self._view["location"])

    @property
    def tags(self) -> dict[str, str]:
        return dict(self._view["tags"])

    @property
    def sku(self) -> str:
        return "Basic"

    @property
    def _workspace_id(self) -> str:
        return self._name

    def get_details(self) -> dict[str, Any]:
        scope = f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"
        kind = "Microsoft.MachineLearningServices/workspaces"
        return {
            "id": f"{scope}/providers/{kind}/{self.name}",
            "name": self.name,
            "location": self.location,
            "type": kind,
            "tags": self.tags,
            "sku": self.sku,
            "workspaceid": self._workspace_id,
            "friendlyName": self.name,
            "creationTime": self._view["created_at"],
        }

    # What it holds.

    @property
    def experiments(self) -> dict[str, Experiment]:
        from windlass.client.experiment import Experiment

        return {experiment.name: experiment for experiment in Experiment.list(self)}

    @property
    def compute_targets(self) -> dict[str, ComputeTarget]:
        from windlass.client.compute import ComputeTarget

        return {target.name: target for target in ComputeTarget.list(self)}

    @property
    def environments(self) -> dict[str, Environment]:
        from windlass.client.environment import Environment

        return Environment.list(self)

    @property
    def models(self) -> dict[str, Model]:
        """The latest version of each."""
        from windlass.client.model import Model

        return {model.name: model for model in Model.list(self, latest=True)}

    def get_run(self, run_id: str) -> Run:
        from windlass.client.run import make_run

        view = self._session.call("GET", f"{self._path}/runs/{names.run_id(str(run_id))}")
        return make_run(self._experiment(view["experiment"]), view)

    def get_default_keyvault(self) -> Keyvault:
        """The workspace's secrets."""
        from windlass.client.keyvault import Keyvault

        return Keyvault(self)

    # What this version lacks.

    @property
    def datastores(self) -> Any:
        raise NotProvided("Datastores", _DATA)

    @property
    def datasets(self) -> Any:
        raise NotProvided("Datasets", _DATA)

    @property
    def webservices(self) -> Any:
        raise NotProvided("Web services", _MODELS)

    @property
    def images(self) -> Any:
        raise NotProvided("Images", _MODELS)

    def get_default_datastore(self) -> Any:
        raise NotProvided("Datastores", _DATA)

    def set_default_datastore(self, name: str) -> None:
        raise NotProvided("Datastores", _DATA)

    def get_default_compute_target(self, type: str) -> Any:
        raise NotProvided("A default cluster", "The target `local` is always there.")

    def get_mlflow_tracking_uri(self, _with_auth: bool = False) -> str:
        raise NotProvided("MLflow tracking", "Log with Run.get_context().log().")

    @staticmethod
    def setup() -> Workspace:
        """As from_config(), which makes what is not there yet."""
        return Workspace.from_config()

    @property
    def service_context(self) -> Any:
        raise NotProvided("The service behind a workspace", "get_details() tells what there is to know of a workspace.")

    def delete(self, delete_dependent_resources: bool = False, no_wait: bool = False) -> None:
        raise NotProvided("Deleting a workspace", "windlass gc removes what is not needed any more.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workspace) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return (
            f"Workspace.create(name='{self.name}', subscription_id='{self.subscription_id}', "
            f"resource_group='{self.resource_group}')"
        )


def workspace_of_run() -> Workspace:
    """The workspace of the run that this script is part of; nobody is asked."""
    return Workspace(
        os.environ.get("AZUREML_ARM_SUBSCRIPTION"),
        os.environ.get("AZUREML_ARM_RESOURCEGROUP"),
        os.environ["WINDLASS_WORKSPACE"],
        _check=False,
    )


def _checked(name: str) -> str:
    try:
        return names.workspace_name(str(name))
    except InvalidRequest as e:
        raise UserErrorException(e.message) from None


def _description(named: Named) -> dict[str, str]:
    return {"subscription_id": named.subscription_id, "resource_group": named.resource_group}
