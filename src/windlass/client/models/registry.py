"""Client of the server's model registry: register, find and download models; local cache of downloaded ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from windlass.client import names
from windlass.client.exceptions import ModelMissing, ModelPathMissing, UserErrorException
from windlass.client.runs.files import files_below
from windlass.client.submit import snapshot

if TYPE_CHECKING:
    from windlass.client.models.model import Model
    from windlass.client.runs.run import Run
    from windlass.client.workspace.workspace import Workspace

View = Dict[str, Any]
CACHE = "azureml-models"


def register_of_run(run: Run, name: str, path: str, script_folder: Optional[str], **fields: Any) -> View:
    """Register the file or folder `path` of a run's record, or else of its `script_folder`: outputs become part of the
    record only when the run has ended.
    """
    where = names.relative_path(os.path.normpath(path).replace(os.sep, "/"))
    body = {**body_of(name, **fields), "run": run.id}
    workspace = run.experiment.workspace
    place = os.path.join(script_folder, where) if script_folder is not None else ""
    if os.path.exists(place) and not any(_is_part(each, where) for each in run.get_file_names()):
        return register(workspace, body, local_files(place, None))
    session = workspace._session
    found: View = session.call("POST", f"{workspace._path}/models", {**body, "path": where})
    return found


def _is_part(path: str, of: str) -> bool:
    return path == of or path.startswith(f"{of}/")


def register(workspace: Workspace, body: View, files: Sequence[snapshot.File]) -> View:
    taken = snapshot.Snapshot("", files)
    asked = {**body, "files": taken.manifest()}
    found: View = snapshot.post_with_files(workspace._session, workspace._path, "models", asked, taken)
    return found


def body_of(
    name: str,
    tags: Optional[Mapping[str, Any]],
    properties: Optional[Mapping[str, Any]],
    description: Optional[str],
    model_framework: Optional[str],
    model_framework_version: Optional[str],
) -> View:
    return {
        "name": names.model_name(str(name)),
        "tags": texts(tags),
        "properties": texts(properties),
        "description": description or "",
        "framework": model_framework or "",
        "framework_version": str(model_framework_version or ""),
    }


def texts(given: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Values as texts, as in Azure."""
    return {str(key): str(value) for key, value in (given or {}).items()}


def local_files(path: str, children: Optional[Sequence[str]]) -> List[snapshot.File]:
    """A file under its name, or all files below a folder; with `children` only those."""
    from windlass.client.http import embedded_server

    whole = os.path.abspath(path)
    if os.path.isfile(whole):
        return [snapshot.digest_file(whole, embedded_server.home())]
    if not os.path.isdir(whole):
        raise ModelPathMissing(f'Error, provided model path "{path}" cannot be found', "Name a file or a folder.")
    chosen = None if children is None else {os.path.normpath(child).replace(os.sep, "/") for child in children}
    found = [
        snapshot.digest_file(location, embedded_server.home())._replace(path=f"{os.path.basename(whole)}/{relative}")
        for relative, location in files_below(whole)
        if chosen is None or any(_is_part(relative, child) for child in chosen)
    ]
    if not found:
        raise UserErrorException(f"There is no file of a model in {path}.")
    return found


def view_of(
    workspace: Workspace,
    name: Optional[str],
    id: Optional[str],
    tags: Optional[Sequence[Any]],
    properties: Optional[Sequence[Any]],
    version: Any,
    run_id: Optional[str],
    framework: Optional[str],
) -> View:
    if id:
        name, version = names.split_reference(id)
    if not (name or tags or properties or run_id or framework):
        raise UserErrorException("Say which model: its name or id, tags, properties or its run.")
    number = None if version is None else version_number(version)
    is_any = number is None and not (tags or properties or run_id or framework)
    found = views(workspace, name, run_id, is_latest=is_any)
    for view in found:
        if number in (None, view["version"]) and matches(view, tags, properties, framework):
            return view
    what = f"Model with id {id}" if id else f"Model with name {name}" if name else "A model like that"
    which = f", version {number}," if number is not None and not id else ""
    raise ModelMissing(
        f"ModelNotFound: {what}{which} not found in provided workspace", _suggestion(workspace, name, found)
    )


def _suggestion(workspace: Workspace, name: Optional[str], versions: Sequence[View]) -> str:
    import difflib

    if name and versions:
        return f"The latest version is {versions[0]['version']}."
    there = [view["name"] for view in views(workspace, is_latest=True)]
    near = difflib.get_close_matches(name or "", there, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "What there is: Model.list(workspace)."


def views(
    workspace: Workspace, name: Optional[str] = None, run: Optional[str] = None, is_latest: bool = False
) -> List[View]:
    query = {"name": name and names.model_name(str(name)), "run": run, "latest": "true" if is_latest else None}
    asked = {key: value for key, value in query.items() if value}
    found: List[View] = workspace._session.call("GET", f"{workspace._path}/models", query=asked)["models"]
    return found


def matches(view: View, tags: Any, properties: Any, framework: Optional[str]) -> bool:
    if framework and view["framework"] != framework:
        return False
    return _has(view["tags"], tags) and _has(view["properties"], properties)


def _has(values: Dict[str, str], wanted: Any) -> bool:
    """Whether `values` has all that are wanted: names, or pairs of a name and a value."""
    pairs = wanted.items() if isinstance(wanted, dict) else [wanted] if isinstance(wanted, str) else wanted or ()
    for each in pairs:
        name, *value = [each] if isinstance(each, str) else each
        if name not in values or (value and values[name] != str(value[0])):
            return False
    return True


def version_number(version: Any) -> int:
    try:
        return int(version)
    except ValueError:
        raise UserErrorException(f"A version of a model is a number, not {version!r}.") from None


def workspace_of_run() -> Optional[Workspace]:
    from windlass.client.runs.run import Run

    run = Run.get_context()
    return run.experiment.workspace if isinstance(run, Run) else None


def cached_path(name: str, version: Optional[int]) -> Optional[str]:
    """The model's path below ./azureml-models: that version, or the highest one there; None if there is none."""
    folder = os.path.join(CACHE, names.model_name(name))
    numbers = [int(each) for each in os.listdir(folder) if each.isdecimal()] if os.path.isdir(folder) else []
    if version is not None:
        numbers = [version] if version in numbers else []
    if not numbers:
        return None
    place = os.path.join(folder, str(max(numbers)))
    there = os.listdir(place)
    return os.path.join(place, there[0]) if there else None


def download_to_cache(model: Model) -> str:
    """Download it below ./azureml-models. The version's folder appears when it is complete; a file lock makes other
    processes wait for a download that is under way. A `.part` folder that is there under the lock was left by a
    process that ended.
    """
    import shutil

    from windlass.client.http.embedded_server import locked

    folder = os.path.join(CACHE, names.model_name(model.name))
    os.makedirs(folder, exist_ok=True)
    with locked(os.path.join(folder, f".{model.version}.lock")):
        there = cached_path(model.name, model.version)
        if there is None:
            partial = os.path.join(folder, f".{model.version}.part")
            shutil.rmtree(partial, ignore_errors=True)
            try:
                model.download(partial)
                os.rename(partial, os.path.join(folder, str(model.version)))
            finally:
                shutil.rmtree(partial, ignore_errors=True)
            there = cached_path(model.name, model.version)
    assert there is not None
    return there


def timestamp(text: str) -> Any:
    from windlass.core.codec import parse_time

    return parse_time(text)
