"""Models that the workspace keeps, in versions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

from windlass.client import snapshot
from windlass.client.exceptions import ModelNotFoundException, NotProvided, UserErrorException
from windlass.client.run_files import download, files_below, quoted
from windlass.core import names

if TYPE_CHECKING:
    from windlass.client.run import Run
    from windlass.client.workspace import Workspace

_SERVICES = "Load the model in a script: Model.get_model_path(name), or model.download()."
_CACHE = "azureml-models"


class Model:
    """A version of a model: files that never change, with what is said of them.

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
        """The latest that all of this is true of; `id` is "name:version"."""
        self.workspace = workspace
        self._view: Dict[str, Any] = kwargs.get("_view") or _find(
            workspace, name, id, tags, properties, version, run_id, model_framework
        )

    @staticmethod
    def register(
        workspace: Workspace,
        model_path: str,
        model_name: str,
        tags: Optional[Dict[str, str]] = None,
        properties: Optional[Dict[str, str]] = None,
        description: Optional[str] = None,
        datasets: Any = None,
        model_framework: Optional[str] = None,
        model_framework_version: Optional[str] = None,
        child_paths: Optional[Sequence[str]] = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Any = None,
        **kwargs: Any,
    ) -> Model:
        """Keep a file or a folder of this machine as the next version of a model."""
        refuse_data(datasets, sample_input_dataset, sample_output_dataset)
        files = _files(os.fspath(model_path), child_paths)
        body = _body(model_name, tags, properties, description, model_framework, model_framework_version)
        print(f"Registering model {model_name}")
        return _registered(workspace, body, files)

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
        """All versions that this is true of, the latest first. Tags and properties are names, or [name, value]."""
        found = _list(workspace, name, run_id, latest)
        return [Model(workspace, _view=view) for view in found if _fits(view, tags, properties, model_framework)]

    @staticmethod
    def get_model_path(model_name: str, version: Any = None, _workspace: Optional[Workspace] = None) -> str:
        """Where the model's file or folder is on this machine: what was fetched before, or is fetched now into
        ./azureml-models. In a run's script no workspace need be named.
        """
        number = None if version is None else _number(version)
        there = _fetched(model_name, number)
        workspace = _workspace or _workspace_of_run()
        if workspace is None or (there is not None and number is not None):
            if there is None:
                raise ModelNotFoundException(
                    f"Model {model_name} not found in cache at ./{_CACHE} or in current working directory.",
                    "Name the workspace: Model(workspace, name).download(), or _workspace=workspace.",
                )
            return there
        model = Model(workspace, model_name, version=number)
        return _fetched(model.name, model.version) or model.download(
            os.path.join(_CACHE, model.name, str(model.version))
        )

    # What it is.

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
        """The run that made it."""
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
        return _time(self._view["created_at"])

    @property
    def modified_time(self) -> Any:
        return _time(self._view["changed_at"])

    @property
    def url(self) -> str:
        return f"aml://asset/{self.id}"

    # What one may do with it.

    def download(self, target_dir: str = ".", exist_ok: bool = False, exists_ok: Optional[bool] = None) -> str:
        """Fetch its files into a folder; returns the path of its file, or of its folder."""
        may_be_there = exist_ok if exists_ok is None else exists_ok
        files = [names.relative_path(file["path"]) for file in self._view["files"]]
        for path in files:
            place = os.path.join(target_dir, path)
            if os.path.lexists(place) and not may_be_there:
                raise UserErrorException(
                    f"Illegal state to unpack. Path already exists: {place}", "Pass exist_ok=True to replace it."
                )
        for path in files:
            where = f"{self._path}/files/{quoted(path)}"
            download(self.workspace._session, where, os.path.join(target_dir, path))
        return os.path.join(target_dir, files[0].partition("/")[0])

    def update(
        self,
        tags: Optional[Dict[str, str]] = None,
        description: Optional[str] = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Any = None,
    ) -> None:
        """Replace its tags or its description; what is None stays."""
        refuse_data(None, sample_input_dataset, sample_output_dataset)
        new = None if tags is None else {**dict.fromkeys(self.tags), **_texts(tags)}
        self._change(description=description, tags=new)

    def update_tags_properties(
        self,
        add_tags: Optional[Dict[str, str]] = None,
        remove_tags: Optional[Sequence[str]] = None,
        add_properties: Optional[Dict[str, str]] = None,
    ) -> None:
        tags = {**dict.fromkeys(remove_tags or ()), **_texts(add_tags)}
        self._change(tags=tags or None, properties=_texts(add_properties) or None)

    def add_tags(self, tags: Dict[str, str]) -> None:
        self.update_tags_properties(add_tags=tags)

    def remove_tags(self, tags: Any) -> None:
        self.update_tags_properties(remove_tags=[tags] if isinstance(tags, str) else list(tags))

    def add_properties(self, properties: Dict[str, str]) -> None:
        """A property is set once."""
        self.update_tags_properties(add_properties=properties)

    def delete(self) -> None:
        """Remove this version. Its number is not given again."""
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

    # What this version lacks.

    @staticmethod
    def deploy(*args: Any, **kwargs: Any) -> Any:
        raise NotProvided("Deploying a model", _SERVICES)

    @staticmethod
    def package(*args: Any, **kwargs: Any) -> Any:
        raise NotProvided("Packaging a model", _SERVICES)

    @staticmethod
    def profile(*args: Any, **kwargs: Any) -> Any:
        raise NotProvided("Profiling a model", _SERVICES)

    @property
    def _path(self) -> str:
        return f"{self.workspace._path}/models/{self.name}/{self.version}"

    def _change(self, **said: Any) -> None:
        body = {key: value for key, value in said.items() if value is not None}
        self._view = self.workspace._session.call("PATCH", self._path, body)

    def __repr__(self) -> str:
        return (
            f"Model(workspace={self.workspace!r}, name={self.name}, id={self.id}, version={self.version}, "
            f"tags={self.tags}, properties={self.properties})"
        )


def register_of_run(run: Run, name: str, path: str, written: Optional[str], **said: Any) -> Model:
    """The file or folder `path` of a run's record; or of what its script has just `written` to that folder, which is
    part of the record only when the run has ended.
    """
    where = names.relative_path(os.path.normpath(path).replace(os.sep, "/"))
    body = {**_body(name, **said), "run": run.id}
    workspace = run.experiment.workspace
    place = os.path.join(written, where) if written is not None else ""
    if os.path.exists(place) and not any(_is_part(each, where) for each in run.get_file_names()):
        return _registered(workspace, body, _files(place, None))
    session = workspace._session
    return Model(workspace, _view=session.call("POST", f"{workspace._path}/models", {**body, "path": where}))


def _is_part(path: str, of: str) -> bool:
    return path == of or path.startswith(f"{of}/")


def _registered(workspace: Workspace, body: Dict[str, Any], files: Sequence[snapshot.File]) -> Model:
    asked = {**body, "files": snapshot.Snapshot("", files).manifest()}
    return Model(workspace, _view=snapshot.post_with_files(workspace._session, workspace._path, "models", asked, files))


def _body(
    name: str,
    tags: Optional[Dict[str, str]],
    properties: Optional[Dict[str, str]],
    description: Optional[str],
    model_framework: Optional[str],
    model_framework_version: Optional[str],
) -> Dict[str, Any]:
    return {
        "name": names.model_name(str(name)),
        "tags": _texts(tags),
        "properties": _texts(properties),
        "description": description or "",
        "framework": model_framework or "",
        "framework_version": str(model_framework_version or ""),
    }


def _texts(given: Optional[Dict[str, Any]]) -> Dict[str, str]:
    """As Azure has it, values are told as texts."""
    return {str(key): str(value) for key, value in (given or {}).items()}


def refuse_data(*given: Any) -> None:
    if any(given):
        raise NotProvided("The data of a model", "Say in its tags what it was made from.")


def _files(path: str, children: Optional[Sequence[str]]) -> List[snapshot.File]:
    """A file, or all files below a folder, under its name; with `children` some of them."""
    from windlass.client import embedded

    whole = os.path.abspath(path)
    if os.path.isfile(whole):
        return [snapshot.look_at(whole, embedded.home())]
    if not os.path.isdir(whole):
        raise UserErrorException(f'Error, provided model path "{path}" cannot be found', "Name a file or a folder.")
    chosen = None if children is None else {os.path.normpath(child).replace(os.sep, "/") for child in children}
    found = [
        snapshot.look_at(location, embedded.home())._replace(path=f"{os.path.basename(whole)}/{relative}")
        for relative, location in files_below(whole)
        if chosen is None or any(_is_part(relative, child) for child in chosen)
    ]
    if not found:
        raise UserErrorException(f"There is no file of a model in {path}.")
    return found


def _find(
    workspace: Workspace,
    name: Optional[str],
    id: Optional[str],
    tags: Optional[Sequence[Any]],
    properties: Optional[Sequence[Any]],
    version: Any,
    run_id: Optional[str],
    framework: Optional[str],
) -> Dict[str, Any]:
    if id:
        name, version = names.split_reference(id)
    if not (name or tags or properties or run_id or framework):
        raise UserErrorException("Say which model: its name or id, tags, properties or its run.")
    number = None if version is None else _number(version)
    found = _list(workspace, name, run_id)
    for view in found:
        if number in (None, view["version"]) and _fits(view, tags, properties, framework):
            return view
    what = f"Model with id {id}" if id else f"Model with name {name}" if name else "A model like that"
    which = f", version {number}," if number is not None and not id else ""
    raise ModelNotFoundException(
        f"ModelNotFound: {what}{which} not found in provided workspace", _suggestion(workspace, name, found)
    )


def _suggestion(workspace: Workspace, name: Optional[str], versions: Sequence[Dict[str, Any]]) -> str:
    import difflib

    if name and versions:
        return f"The latest version is {versions[0]['version']}."
    there = [view["name"] for view in _list(workspace, is_latest=True)]
    near = difflib.get_close_matches(name or "", there, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "What there is: Model.list(workspace)."


def _list(
    workspace: Workspace, name: Optional[str] = None, run: Optional[str] = None, is_latest: bool = False
) -> List[Dict[str, Any]]:
    query = {"name": name and names.model_name(str(name)), "run": run, "latest": "true" if is_latest else None}
    asked = {key: value for key, value in query.items() if value}
    found: List[Dict[str, Any]] = workspace._session.call("GET", f"{workspace._path}/models", query=asked)["models"]
    return found


def _fits(view: Dict[str, Any], tags: Any, properties: Any, framework: Optional[str]) -> bool:
    if framework and view["framework"] != framework:
        return False
    return _has(view["tags"], tags) and _has(view["properties"], properties)


def _has(said: Dict[str, str], wanted: Any) -> bool:
    """All of them: names, or pairs of a name and a value."""
    pairs = wanted.items() if isinstance(wanted, dict) else [wanted] if isinstance(wanted, str) else wanted or ()
    for each in pairs:
        name, *value = [each] if isinstance(each, str) else each
        if name not in said or (value and said[name] != str(value[0])):
            return False
    return True


def _number(version: Any) -> int:
    try:
        return int(version)
    except ValueError:
        raise UserErrorException(f"A version of a model is a number, not {version!r}.") from None


def _workspace_of_run() -> Optional[Workspace]:
    from windlass.client.run import Run

    run = Run.get_context()
    return run.experiment.workspace if isinstance(run, Run) else None


def _fetched(name: str, version: Optional[int]) -> Optional[str]:
    """What is below ./azureml-models: that version, or the highest that is there."""
    folder = os.path.join(_CACHE, names.model_name(name))
    numbers = [int(each) for each in os.listdir(folder) if each.isdecimal()] if os.path.isdir(folder) else []
    if version is not None:
        numbers = [version] if version in numbers else []
    if not numbers:
        return None
    place = os.path.join(folder, str(max(numbers)))
    there = os.listdir(place)
    return os.path.join(place, there[0]) if there else None


def _time(text: str) -> Any:
    from windlass.core.codec import parse_time

    return parse_time(text)
