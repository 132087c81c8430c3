"""Client of the workspace's environment registry: registered versions, curated ones, and the wheels that they name."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.client import names
from windlass.client.environments import curated
from windlass.client.environments.environment import Environment
from windlass.client.exceptions import ResourceNotFound, UserErrorException
from windlass.client.submit import snapshot
from windlass.client.submit.container_spec import dockerfile_text
from windlass.client.submit.local_wheels import Reference, Wheels
from windlass.core.errors import Conflict, NotFound

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace

_LATEST = "latest"
# Keys of the registry's record that are not part of the definition.
_NOT_DEFINING = ("name", "version", "assetId")


def get(workspace: Workspace, name: str, version: Any = None, label: str | None = None) -> Environment:
    if label is not None and (version is not None or label.lower() != _LATEST):
        raise UserErrorException(
            f"There is no environment with the label {label!r}.", "The one label is 'Latest'; else name the version."
        )
    if curated.is_curated(name):
        return _curated(name, version)
    query = {"version": names.environment_version(str(version))} if version is not None else None
    try:
        found = workspace._session.call(
            "GET", f"{workspace._path}/environments/{names.environment_name(name)}", query=query
        )
    except NotFound as e:
        raise ResourceNotFound(e.message, _suggestion(workspace, name) or e.hint) from None
    return _from_view(found)


def _curated(name: str, version: Any) -> Environment:
    """The curated environment in the only version here; a warning if code names one of Azure's versions."""
    found = curated.find(name)
    if version is not None and str(version) != found.version:
        print(f"Warning: {name} has no version {version} here; this is version {found.version}.", file=sys.stderr)
    return found


def find_all(workspace: Workspace) -> dict[str, Environment]:
    """{name: environment}: the latest version of each registered one, and the curated ones."""
    found = workspace._session.call("GET", f"{workspace._path}/environments")["environments"]
    return {**curated.list_all(), **{view["name"]: _from_view(view) for view in found}}


def register(environment: Environment, workspace: Workspace) -> Environment:
    """Register an environment, and upload the wheels that its packages name to the workspace.

    A version that the caller set is used, or refused with a conflict. A version that get() set is replaced by the next
    number on a conflict.
    """
    if not environment.name:
        raise UserErrorException("Name is required to register an environment.")
    definition = {key: value for key, value in environment.to_dict().items() if key not in _NOT_DEFINING}
    _upload_files(environment, definition, workspace)
    name, path = names.own_environment_name(environment.name), f"{workspace._path}/environments"
    version = names.environment_version(str(environment.version)) if environment.version else None
    body = {"name": name, "definition": definition, "version": version}
    try:
        return _from_view(workspace._session.call("POST", path, body))
    except Conflict:
        if version is None or version != environment._found_as:
            raise
        return _from_view(workspace._session.call("POST", path, {**body, "version": None}))


def add_private_pip_wheel(workspace: Workspace, file_path: str, exist_ok: bool = False) -> str:
    """Upload a wheel to the workspace. Returns the text that names it in a list of pip packages."""
    from windlass.client.http import embedded_server

    name = names.wheel_name(os.path.basename(file_path))
    if not os.path.isfile(file_path):
        raise UserErrorException(f"Please make sure file exists: {os.path.abspath(file_path)}")
    file = snapshot.digest_file(os.path.abspath(file_path), embedded_server.home())
    body = {"name": name, "digest": file.digest, "exist_ok": exist_ok}
    kept = snapshot.post_with_files(workspace._session, workspace._path, "wheels", body, snapshot.Snapshot("", [file]))
    return str(Reference(kept["digest"], kept["size"], kept["name"]))


def _upload_files(environment: Environment, definition: dict[str, Any], workspace: Workspace) -> None:
    docker = definition["docker"]
    if docker["baseDockerfile"]:  # a path is valid on this machine only
        docker["baseDockerfile"] = dockerfile_text(docker["baseDockerfile"])
    packages = environment.python.conda_dependencies
    inline = definition["python"].get("condaDependencies")
    if packages is None or not inline:
        return
    wheels = Wheels()
    for item in inline.get("dependencies") or []:
        if isinstance(item, dict):
            lines = item["pip"] or []
            item["pip"] = [line if line.startswith("-") else wheels.resolve(line, packages.base) for line in lines]
    files = [file for file in wheels.files() if file.location]
    if files:
        digests = {"digests": [file.digest for file in files]}
        missing = workspace._session.call("POST", f"{workspace._path}/blobs/missing", digests)["missing"]
        snapshot.upload(workspace._session, workspace._path, snapshot.Snapshot("", files), missing)


def _from_view(view: dict[str, Any]) -> Environment:
    made = Environment.from_dict(view["definition"], f"environment {view['name']}")
    made.name, made.version = view["name"], str(view["version"])
    made._found_as = made.version
    return made


def _suggestion(workspace: Workspace, name: str) -> str:
    import difflib

    found = workspace._session.call("GET", f"{workspace._path}/environments")["environments"]
    latest = {view["name"]: view["version"] for view in found}
    if name in latest:
        return f"The latest version is {latest[name]}."
    near = difflib.get_close_matches(name, latest, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else ""
