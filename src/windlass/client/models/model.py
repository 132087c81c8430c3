"""Registered models: versions of files in a workspace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from windlass.client.exceptions import ModelNotFoundException, UserErrorException
from windlass.client.models import registry as registry
from windlass.client.runs.downloads import listed, safe_path, save_all
from windlass.client.unsupported import NO_DATA, not_provided, not_provided_parameters

if TYPE_CHECKING:
    from windlass.client.runs.run import Run
    from windlass.client.submit.resource_configuration import ResourceConfiguration
    from windlass.client.workspace.workspace import Workspace

_SERVICES = "Load the model in a script: Model.get_model_path(name), or model.download()."


class Model:
    """A version of a model: files that never change, with name, tags, properties and description.

    >>> model = Model(workspace, "credit-risk")  # the latest version
    >>> model.download("models")
    """

    class Framework:
        """Names of frameworks, for `model_framework`."""

        CUSTOM = "Custom"
        SCIKITLEARN = "ScikitLearn"
        PYTORCH = "PyTorch"
        TENSORFLOW = "TensorFlow"
        ONNX = "Onnx"
        TFKERAS = "TfKeras"
        MULTI = "Multi"

    def __init__(
        self,
        workspace: Workspace,
        name: Optional[str] = None,
        id: Optional[str] = None,
        tags: Optional[Sequence[Any]] = None,
        properties: Optional[Sequence[Any]] = None,
        version: Any = None,
        run_id: Optional[str] = None,
        model_framework: Optional[str] = None,
        expand: bool = True,
        **kwargs: Any,
    ) -> None:
        """The latest version that fits all given filters; `id` is "name:version"."""
        self.workspace = workspace
        self._view: Dict[str, Any] = kwargs.get("_view") or registry.view_of(
            workspace, name, id, tags, properties, version, run_id, model_framework
        )

    @staticmethod
    @not_provided_parameters(*NO_DATA, "datasets", "sample_input_dataset", "sample_output_dataset")
    def register(
        workspace: Workspace,
        model_path: str,
        model_name: str,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        datasets: Any = None,
        model_framework: Optional[str] = None,
        model_framework_version: Optional[str] = None,
        child_paths: Optional[Sequence[str]] = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Optional[ResourceConfiguration] = None,
    ) -> Model:
        """Register a file or a folder of this machine as the next version of a model.

        `resource_configuration` is for services that Azure deploys; it is accepted, and has no effect here.
        """
        files = registry.local_files(os.fspath(model_path), child_paths)
        body = registry.body_of(model_name, tags, properties, description, model_framework, model_framework_version)
        print(f"Registering model {model_name}")
        return Model(workspace, _view=registry.register(workspace, body, files))

    @staticmethod
    def list(
        workspace: Workspace,
        name: Optional[str] = None,
        tags: Optional[Sequence[Any]] = None,
        properties: Optional[Sequence[Any]] = None,
        run_id: Optional[str] = None,
        latest: bool = False,
        dataset_id: Optional[str] = None,
        expand: bool = True,
        page_count: int = 255,
        model_framework: Optional[str] = None,
    ) -> List[Model]:
        """All versions that fit the filters, the latest first. Tags and properties are names, or [name, value]."""
        found = registry.views(workspace, name, run_id, latest)
        return [
            Model(workspace, _view=view) for view in found if registry.matches(view, tags, properties, model_framework)
        ]

    @staticmethod
    def get_model_path(model_name: str, version: Any = None, _workspace: Optional[Workspace] = None) -> str:
        """The path of the model's file or folder on this machine, downloaded to ./azureml-models unless it is there. In
        a run's script no workspace need be named.
        """
        number = None if version is None else registry.version_number(version)
        there = registry.cached_path(model_name, number)
        workspace = _workspace or registry.workspace_of_run()
        if workspace is None or (there is not None and number is not None):
            if there is None:
                raise ModelNotFoundException(
                    f"Model {model_name} not found in cache at ./{registry.CACHE} or in current working directory.",
                    "Name the workspace: Model(workspace, name).download(), or _workspace=workspace.",
                )
            return there
        model = Model(workspace, model_name, version=number)
        return registry.cached_path(model.name, model.version) or registry.download_to_cache(model)

    @staticmethod
    def _get_model_path_remote(model_name: str, version: Any, workspace: Workspace) -> str:
        """get_model_path() with a workspace. Public code calls it by this name."""
        return Model.get_model_path(model_name, version, workspace)

    # Properties.

    @property
    def name(self) -> str:
        return str(self._view["name"])

    @property
    def version(self) -> int:
        return int(self._view["version"])

    @property
    def id(self) -> str:
        return str(self._view["id"])

    @property
    def description(self) -> str:
        return str(self._view["description"])

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._view["tags"])

    @property
    def properties(self) -> Dict[str, str]:
        return dict(self._view["properties"])

    @property
    def model_framework(self) -> Optional[str]:
        return self._view["framework"] or None

    @property
    def model_framework_version(self) -> Optional[str]:
        return self._view["framework_version"] or None

    @property
    def run_id(self) -> Optional[str]:
        """The id of the run that it was registered from."""
        run: Optional[str] = self._view["run"]
        return run

    @property
    def run(self) -> Optional[Run]:
        return None if self.run_id is None else self.workspace.get_run(self.run_id)

    @property
    def experiment_name(self) -> Optional[str]:
        name: Optional[str] = self._view["experiment"]
        return name

    @property
    def created_by(self) -> Dict[str, str]:
        return {"userName": self._view["created_by"]}

    @property
    def created_time(self) -> Any:
        return registry.timestamp(self._view["created_at"])

    @property
    def modified_time(self) -> Any:
        return registry.timestamp(self._view["changed_at"])

    @property
    def url(self) -> str:
        return f"aml://asset/{self.id}"

    # Download, changes and serialization.

    def download(self, target_dir: str = ".", exist_ok: bool = False, exists_ok: Optional[bool] = None) -> str:
        """Download its files to a folder; returns the path of its file, or of its folder."""
        may_be_there = exist_ok if exists_ok is None else exists_ok
        files = [
            listed(file, f"{self._path}/files", safe_path(target_dir, file["path"])) for file in self._view["files"]
        ]
        for file in files:
            if os.path.lexists(file.place) and not may_be_there:
                raise UserErrorException(
                    f"Illegal state to unpack. Path already exists: {file.place}", "Pass exist_ok=True to replace it."
                )
        skipped = save_all(self.workspace._session, files)
        if skipped:
            raise UserErrorException(
                f"The model {self.id} is not complete: {skipped[0]}", "Remove it, or name another folder."
            )
        return os.path.join(target_dir, files[0].name.partition("/")[0])

    @not_provided_parameters(*NO_DATA, "sample_input_dataset", "sample_output_dataset")
    def update(
        self,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Optional[ResourceConfiguration] = None,
    ) -> None:
        """Replace its tags or its description; parameters that are None stay as they are."""
        new = None if tags is None else {**dict.fromkeys(self.tags), **registry.texts(tags)}
        self._change(description=description, tags=new)

    def update_tags_properties(
        self,
        add_tags: Optional[Mapping[str, Any]] = None,
        remove_tags: Optional[Sequence[str]] = None,
        add_properties: Optional[Mapping[str, Any]] = None,
    ) -> None:
        tags = {**dict.fromkeys(remove_tags or ()), **registry.texts(add_tags)}
        self._change(tags=tags or None, properties=registry.texts(add_properties) or None)

    def add_tags(self, tags: Mapping[str, Any]) -> None:
        self.update_tags_properties(add_tags=tags)

    def remove_tags(self, tags: Any) -> None:
        self.update_tags_properties(remove_tags=[tags] if isinstance(tags, str) else list(tags))

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        """Add properties. Each can be set only once."""
        self.update_tags_properties(add_properties=properties)

    def delete(self) -> None:
        """Delete this version. Its number is not used again."""
        self.workspace._session.call("DELETE", self._path)

    def serialize(self) -> Dict[str, Any]:
        return {
            "createdTime": self._view["created_at"],
            "createdBy": self.created_by,
            "description": self.description,
            "experimentName": self.experiment_name,
            "framework": self.model_framework,
            "frameworkVersion": self.model_framework_version,
            "id": self.id,
            "name": self.name,
            "properties": self.properties,
            "runId": self.run_id,
            "tags": self.tags,
            "version": self.version,
        }

    @staticmethod
    def deserialize(workspace: Workspace, model_payload: Dict[str, Any]) -> Model:
        """The model from the result of serialize(), requested from the server."""
        return Model(workspace, id=model_payload["id"])

    # Not provided in this version.

    @staticmethod
    @not_provided("Deploying a model", _SERVICES)
    def deploy(
        workspace: Workspace,
        name: str,
        models: Any,
        inference_config: Any = None,
        deployment_config: Any = None,
        deployment_target: Any = None,
        overwrite: bool = False,
        show_output: bool = False,
    ) -> Any: ...

    @staticmethod
    @not_provided("Deploying a model", _SERVICES)
    def print_configuration(
        models: Any, inference_config: Any, deployment_config: Any, deployment_target: Any
    ) -> None: ...

    @staticmethod
    @not_provided("Packaging a model", _SERVICES)
    def package(
        workspace: Workspace,
        models: Any,
        inference_config: Any = None,
        generate_dockerfile: bool = False,
        image_name: Optional[str] = None,
        image_label: Optional[str] = None,
    ) -> Any: ...

    @staticmethod
    @not_provided("Profiling a model", _SERVICES)
    def profile(
        workspace: Workspace,
        profile_name: str,
        models: Any,
        inference_config: Any,
        input_dataset: Any,
        cpu: Optional[float] = None,
        memory_in_gb: Optional[float] = None,
        description: Optional[str] = None,
    ) -> Any: ...

    @not_provided(*NO_DATA)
    def add_dataset_references(self, datasets: Any) -> None: ...

    @property
    @not_provided(*NO_DATA)
    def datasets(self) -> Any: ...

    @property
    @not_provided(*NO_DATA)
    def sample_input_dataset(self) -> Any: ...

    @property
    @not_provided(*NO_DATA)
    def sample_output_dataset(self) -> Any: ...

    @not_provided("Addresses of a model's files that open without a token", "model.download() fetches them.")
    def get_sas_urls(self) -> Any: ...

    @property
    def _path(self) -> str:
        return f"{self.workspace._path}/models/{self.name}/{self.version}"

    def _change(self, **fields: Any) -> None:
        body = {key: value for key, value in fields.items() if value is not None}
        self._view = self.workspace._session.call("PATCH", self._path, body)

    def __repr__(self) -> str:
        return (
            f"Model(workspace={self.workspace!r}, name={self.name}, id={self.id}, version={self.version}, "
            f"tags={self.tags}, properties={self.properties})"
        )
