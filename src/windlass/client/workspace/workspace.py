"""Workspace: the top container of experiments, runs and targets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from windlass.client import names
from windlass.client.exceptions import UserErrorException, WorkspaceExists, WorkspaceNotFound
from windlass.client.unsupported import not_provided
from windlass.client.workspace import config_file
from windlass.client.workspace.config_file import WorkspaceReference
from windlass.core.errors import AlreadyExists, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from windlass.client.compute.attached.connections import Connection
    from windlass.client.compute.target import ComputeTarget
    from windlass.client.environments.environment import Environment
    from windlass.client.experiment import Experiment
    from windlass.client.http.session import Session
    from windlass.client.models.model import Model
    from windlass.client.runs.moments import Moment
    from windlass.client.runs.run import Run
    from windlass.client.workspace.authentication import AbstractAuthentication
    from windlass.client.workspace.keyvault import Keyvault

DEFAULT = "default"
_CLUSTERS = {"cpu": "cpu-cluster", "gpu": "gpu-cluster"}
_DATASTORES = ("Datastores", "Pass paths as arguments of the script.")
_DATASETS = ("Datasets", "Pass paths as arguments of the script.")
_MODELS = "Model.get_model_path(name) fetches a registered model, for a service of your own."
_NETWORK = ("Private endpoints", "WINDLASS_URL names a shared server, and its settings the address it listens at.")
_CONNECTIONS = ("A workspace's connections to registries and feeds", "Keep what they need in get_default_keyvault().")
_ACCOUNTS = "A workspace needs no storage account, registry or key vault of Azure's."


class _ClusterConfiguration:
    """A class attribute that is created when it is read, since its creation imports the classes of clusters."""

    def __init__(self, vm_size: str) -> None:
        self._vm_size = vm_size

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        from windlass.client.compute.amlcompute import AmlCompute

        return AmlCompute.provisioning_configuration(min_nodes=0, max_nodes=2, vm_size=self._vm_size)


class Workspace:
    """The top container.

    >>> workspace = Workspace.from_config()
    >>> workspace.name
    'default'
    """

    DEFAULT_CPU_CLUSTER_CONFIGURATION = _ClusterConfiguration("STANDARD_DS2_V2")
    DEFAULT_GPU_CLUSTER_CONFIGURATION = _ClusterConfiguration("STANDARD_NC6")
    DEFAULT_CPU_CLUSTER_NAME = _CLUSTERS["cpu"]
    DEFAULT_GPU_CLUSTER_NAME = _CLUSTERS["gpu"]

    def __init__(
        self,
        subscription_id: str | None,
        resource_group: str | None,
        workspace_name: str,
        auth: AbstractAuthentication | None = None,
        _location: str | None = None,
        _disable_service_check: bool = False,
        _workspace_id: str | None = None,
        sku: str = "basic",
        tags: dict[str, Any] | None = None,
        _cloud: str = "AzureCloud",
        *,
        _check: bool = True,
    ) -> None:
        """Find a workspace by its name. `auth`, `sku` and `tags` are accepted and have no effect on an existing one."""
        self._session = _session()  # fixed: a change of WINDLASS_URL concerns new objects only
        self._name = names.workspace_name(str(workspace_name))
        self._given = WorkspaceReference(str(subscription_id or ""), str(resource_group or ""), self._name)
        self._given_auth = auth
        self._found: dict[str, Any] | None = None
        if _check:
            self._found = self._find()

    def _find(self) -> dict[str, Any]:
        """The workspace's view. On the private server a missing one is created: the caller owns that server."""
        try:
            found: dict[str, Any] = self._session.call("GET", self._path)
        except NotFound as e:
            if not self._session.address.home:
                raise WorkspaceNotFound(e.message, e.hint) from None
            body = {"name": self._name, "exist_ok": True, **_description(self._given)}
            found = self._session.call("POST", "/workspaces", body)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the session: the other process finds the server itself."""
        return {name: value for name, value in vars(self).items() if name != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _session=_session())

    @property
    def _path(self) -> str:
        return f"/workspaces/{self._name}"

    @property
    def _view(self) -> dict[str, Any]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def _experiment(self, name: str) -> Experiment:
        """An experiment that is known to exist; no request is sent."""
        from windlass.client.experiment import Experiment

        return Experiment(self, name, _create_in_cloud=False)

    # Constructors and lists.

    @staticmethod
    def from_config(
        path: str | None = None,
        auth: AbstractAuthentication | None = None,
        _logger: Any = None,
        _file_name: str | None = None,
    ) -> Workspace:
        """The workspace that the current folder (or `path`) belongs to, by its config.json; without one, that of its
        project file .windlass/project.toml (with Python 3.11), else the default one.

        In a run's script without a `path` it is the run's workspace: the run's token is valid for no other.
        """
        if path is None and os.environ.get("WINDLASS_RUN_TOKEN"):
            return workspace_of_run()
        place = os.path.abspath(path or ".")
        found = place if os.path.isfile(place) else config_file.find(place, _file_name)
        if found is None:
            if path is not None:
                raise UserErrorException(
                    f"The workspace configuration file config.json, could not be found in {place} or its parent "
                    "directories.",
                    "Workspace.from_config() without a path uses the default workspace; ws.write_config() writes one.",
                )
            from windlass.client.config import project_file

            return Workspace("", "", project_file.workspace_of() or DEFAULT, auth)
        return Workspace(*config_file.read(found), auth)

    @staticmethod
    def create(
        name: str,
        auth: AbstractAuthentication | None = None,
        subscription_id: str | None = None,
        resource_group: str | None = None,
        location: str | None = None,
        create_resource_group: bool = True,
        sku: str = "basic",
        tags: dict[str, Any] | None = None,
        friendly_name: str | None = None,
        storage_account: str | None = None,
        key_vault: str | None = None,
        app_insights: str | None = None,
        container_registry: str | None = None,
        adb_workspace: str | None = None,
        primary_user_assigned_identity: str | None = None,
        cmk_keyvault: str | None = None,
        resource_cmk_uri: str | None = None,
        hbi_workspace: bool = False,
        default_cpu_compute_target: Any = None,
        default_gpu_compute_target: Any = None,
        private_endpoint_config: Any = None,
        private_endpoint_auto_approval: bool = True,
        exist_ok: bool = False,
        show_output: bool = True,
        user_assigned_identity_for_cmk_encryption: str | None = None,
        system_datastores_auth_mode: str = "accessKey",
        v1_legacy_mode: bool | None = None,
    ) -> Workspace:
        """Create a workspace; with `exist_ok`, an existing one of that name is used.

        The parameters for the Azure resources around a workspace (storage account, key vault, identities, networks) are
        accepted and have no effect. With `default_cpu_compute_target` or `default_gpu_compute_target`, a
        configuration of a cluster, that target is created too.
        """
        named = WorkspaceReference(subscription_id or "", resource_group or "", names.workspace_name(str(name)))
        body: dict[str, Any] = {"name": name, "exist_ok": exist_ok, **_description(named), "location": location or ""}
        body["tags"] = {str(key): str(value) for key, value in (tags or {}).items()}
        made = Workspace(*named, auth, _check=False)
        try:
            made._found = made._session.call("POST", "/workspaces", body)
        except AlreadyExists as e:
            raise WorkspaceExists(e.message, "Pass exist_ok=True to use it.") from None
        made._create_cluster("cpu", default_cpu_compute_target)
        made._create_cluster("gpu", default_gpu_compute_target)
        return made

    def _create_cluster(self, kind: str, configuration: Any) -> None:
        from windlass.client.compute.target import ComputeTarget

        if configuration is not None and _CLUSTERS[kind] not in self.compute_targets:
            ComputeTarget.create(self, _CLUSTERS[kind], configuration)

    @staticmethod
    def get(
        name: str,
        auth: AbstractAuthentication | None = None,
        subscription_id: str | None = None,
        resource_group: str | None = None,
        location: str | None = None,
        cloud: str = "AzureCloud",
        id: str | None = None,
    ) -> Workspace:
        """Find a workspace by its name; `location`, `cloud` and `id` have no effect here."""
        return Workspace(subscription_id, resource_group, name, auth)

    @staticmethod
    def list(
        subscription_id: str | None, auth: AbstractAuthentication | None = None, resource_group: str | None = None
    ) -> dict[str, list[Workspace]]:
        """{name: [workspace]}, of a subscription and a resource group; None and "" stand for all of them."""
        found: dict[str, Any] = {}
        for view in _session().call("GET", "/workspaces")["workspaces"]:
            fits = subscription_id in (None, "", view["subscription_id"])
            if fits and resource_group in (None, "", view["resource_group"]):
                workspace = Workspace(view["subscription_id"], view["resource_group"], view["name"], auth, _check=False)
                workspace._found = view
                found.setdefault(view["name"], []).append(workspace)
        return found

    def write_config(self, path: str | None = None, file_name: str | None = None) -> None:
        """Write .azureml/config.json, so that from_config() finds this workspace from here and below."""
        from windlass.client.config.run_configuration import config_folder

        base = os.path.abspath(path or ".")
        folder = os.path.join(base, config_folder(base))
        name = file_name or "config.json"
        named = WorkspaceReference(self.subscription_id, self.resource_group, self.name)
        try:
            config_file.write(folder, named, name if name.endswith(".json") else f"{name}.json")
        except OSError as e:
            raise UserErrorException(f"Could not write the config file to: {folder}: {e.strerror}") from e

    # Properties.

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
    def discovery_url(self) -> str:
        """The address of the server."""
        return self._session.address.url

    @property
    def _workspace_id(self) -> str:
        return self._name

    @property
    def _workspace_name(self) -> str:
        return self._name

    @property
    def _auth(self) -> AbstractAuthentication:
        """The `auth` of the constructor; by default an InteractiveLoginAuthentication, which does not prompt here."""
        if self._given_auth is None:
            from windlass.client.workspace.authentication import InteractiveLoginAuthentication

            self._given_auth = InteractiveLoginAuthentication()
        return self._given_auth

    _auth_object = _auth

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

    # Contents.

    @property
    def experiments(self) -> dict[str, Experiment]:
        from windlass.client.experiment import Experiment

        return {experiment.name: experiment for experiment in Experiment.list(self)}

    @property
    def compute_targets(self) -> dict[str, ComputeTarget]:
        from windlass.client.compute.target import ComputeTarget

        return {target.name: target for target in ComputeTarget.list(self)}

    @property
    def connections(self) -> dict[str, Connection]:
        """{name: connection}: what stands for Azure's services and resources here."""
        from windlass.client.compute.attached.connections import Connection

        return {connection.name: connection for connection in Connection.list(self)}

    @property
    def environments(self) -> dict[str, Environment]:
        from windlass.client.environments.environment import Environment

        return Environment.list(self)

    @property
    def models(self) -> dict[str, Model]:
        """{name: model}, the latest version of each."""
        from windlass.client.models.model import Model

        return {model.name: model for model in Model.list(self, latest=True)}

    def get_run(self, run_id: str) -> Run:
        from windlass.client.runs.run import make_run

        view = self._session.call("GET", f"{self._path}/runs/{names.run_id(str(run_id))}")
        return make_run(self._experiment(view["experiment"]), view)

    def get_runs(
        self,
        *,
        status: str | None = None,
        tags: Any = None,
        include_children: bool = False,
        submitted_by: str | Sequence[str] | None = None,
        mine: bool = False,
        search: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        archived: bool | None = False,
    ) -> Iterator[Run]:
        """The runs of all experiments, the newest first; by the filters of Experiment.get_runs(). The status "active"
        stands for all runs that have not ended.
        """
        from windlass.client.runs.listing import in_workspace

        return in_workspace(
            self,
            status,
            tags,
            None if include_children else "none",
            submitted_by=submitted_by,
            mine=mine,
            search=search,
            since=since,
            until=until,
            archived=archived,
        )

    def get_default_keyvault(self) -> Keyvault:
        """The key vault with the workspace's secrets."""
        from windlass.client.workspace.keyvault import Keyvault

        return Keyvault(self)

    def get_default_compute_target(self, type: str) -> ComputeTarget:
        """The target `cpu-cluster` for "CPU", and `gpu-cluster` for "GPU"."""
        from windlass.client.compute.target import ComputeTarget

        if str(type).lower() not in _CLUSTERS:
            raise UserErrorException(f"There is no default target of the type {type!r}.", "It is CPU or GPU.")
        return ComputeTarget(self, _CLUSTERS[type.lower()])

    @staticmethod
    def setup() -> Workspace:
        """The same as from_config()."""
        return Workspace.from_config()

    # Not provided in this version.

    @property
    @not_provided(*_DATASTORES)
    def datastores(self) -> Any: ...

    @property
    @not_provided(*_DATASETS)
    def datasets(self) -> Any: ...

    @property
    @not_provided("Web services", _MODELS)
    def webservices(self) -> Any: ...

    @property
    @not_provided("Images", _MODELS)
    def images(self) -> Any: ...

    @not_provided(*_DATASTORES)
    def get_default_datastore(self) -> Any: ...

    @not_provided(*_DATASTORES)
    def set_default_datastore(self, name: str) -> None: ...

    @not_provided("MLflow tracking", "Log with Run.get_context().log().")
    def get_mlflow_tracking_uri(self, _with_auth: bool = False) -> Any: ...

    @property
    @not_provided("The service behind a workspace", "get_details() describes the workspace.")
    def service_context(self) -> Any: ...

    @property
    @not_provided("Linked services", "ComputeTarget.attach() adds what runs are sent to.")
    def linked_services(self) -> Any: ...

    @not_provided("Deleting a workspace", "windlass gc removes what is not needed any more.")
    def delete(self, delete_dependent_resources: bool = False, no_wait: bool = False) -> None: ...

    @not_provided("Changing a workspace", "Workspace.create() makes another one, with the tags that it is given.")
    def update(
        self,
        friendly_name: str | None = None,
        description: str | None = None,
        tags: dict[str, Any] | None = None,
        image_build_compute: str | None = None,
        service_managed_resources_settings: Any = None,
        primary_user_assigned_identity: str | None = None,
        allow_public_access_when_behind_vnet: bool | None = None,
        v1_legacy_mode: bool | None = None,
    ) -> Any: ...

    @not_provided("Changing the resources of a workspace", _ACCOUNTS)
    def update_dependencies(self, container_registry: str | None = None, force: bool = False) -> Any: ...

    @not_provided("The keys of a workspace's resources", _ACCOUNTS)
    def list_keys(self) -> Any: ...

    @not_provided("The keys of a workspace's resources", _ACCOUNTS)
    def sync_keys(self, no_wait: bool = False) -> None: ...

    @not_provided("Diagnosing a workspace", "windlass doctor looks for what is wrong with the server and its targets.")
    def diagnose_workspace(self, diagnose_parameters: Any) -> Any: ...

    @property
    @not_provided(*_NETWORK)
    def private_endpoints(self) -> Any: ...

    @not_provided(*_NETWORK)
    def add_private_endpoint(
        self,
        private_endpoint_config: Any,
        private_endpoint_auto_approval: bool = True,
        location: str | None = None,
        show_output: bool = True,
        tags: dict[str, Any] | None = None,
    ) -> Any: ...

    @not_provided(*_NETWORK)
    def delete_private_endpoint_connection(self, private_endpoint_connection_name: str) -> None: ...

    @not_provided(*_CONNECTIONS)
    def set_connection(self, name: str, category: str, target: str, authType: str, value: str) -> Any: ...

    @not_provided(*_CONNECTIONS)
    def list_connections(self, category: str | None = None, target: str | None = None) -> Any: ...

    @not_provided(*_CONNECTIONS)
    def get_connection(self, name: str) -> Any: ...

    @not_provided(*_CONNECTIONS)
    def delete_connection(self, name: str) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workspace) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return (
            f"Workspace.create(name='{self.name}', subscription_id='{self.subscription_id}', "
            f"resource_group='{self.resource_group}')"
        )

    def get_portal_url(self) -> str:
        """The address of the workspace in the studio."""
        return f"{self._session.address.url}/workspaces/{self.name}"

    def _repr_html_(self) -> str:
        from windlass.client.notebook.html import workspace_html

        return workspace_html(self)


def workspace_of_run() -> Workspace:
    """The workspace of the run that this script is part of; no request is sent."""
    return Workspace(
        os.environ.get("AZUREML_ARM_SUBSCRIPTION"),
        os.environ.get("AZUREML_ARM_RESOURCEGROUP"),
        os.environ["WINDLASS_WORKSPACE"],
        _check=False,
    )


def _session() -> Session:
    """The session to the server. Imported late: scripts that only log metrics do not need it."""
    from windlass.client.http import embedded_server

    return embedded_server.session()


def _description(named: WorkspaceReference) -> dict[str, str]:
    return {"subscription_id": named.subscription_id, "resource_group": named.resource_group}
