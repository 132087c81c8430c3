"""Environments in the workspace: registered ones in versions, curated ones, and the wheels that they name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from windlass.client import curated, snapshot
from windlass.client.environment import Environment
from windlass.client.exceptions import UserErrorException
from windlass.client.wheels import Reference, Wheels
from windlass.core import names
from windlass.core.errors import Conflict, NotFound, SnapshotIncomplete

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from windlass.client.snapshot import File
    from windlass.client.workspace import Workspace

_LATEST = "latest"
# What the registry says of an environment, not the environment of itself.
_NOT_DEFINING = ("name", "version", "assetId")


def get(workspace: Workspace, name: str, version: Any = None, label: str | None = None) -> Environment:
    if label is not None and (version is not None or label.lower() != _LATEST):
        raise UserErrorException(
            f"There is no environment with the label {label!r}.", "The one label is 'Latest'; versions are numbers."
        )
    if curated.is_curated(name):
        return curated.find(name)
    try:
        return _made(_ask(workspace, name, _number(version) if version is not None else None))
    except NotFound as e:
        raise NotFound(e.message, _suggestion(workspace, name) or e.hint) from None


def find_all(workspace: Workspace) -> dict[str, Environment]:
    """The latest of each that is registered, and the curated ones."""
    found = workspace._session.call("GET", f"{workspace._path}/environments")["environments"]
    return {**curated.all_of_them(), **{view["name"]: _made(view) for view in found}}


def register(environment: Environment, workspace: Workspace) -> Environment:
    """Files that its packages name are kept in the workspace, so that everybody can use it.

    One that says its version gets that, or is refused: the server counts versions by itself.
    """
    if not environment.name:
        raise UserErrorException("Name is required to register an environment.")
    name = names.own_environment_name(environment.name)
    definition = {key: value for key, value in environment.to_dict().items() if key not in _NOT_DEFINING}
    _keep_files(environment, definition, workspace)
    wanted = _number(environment.version) if environment.version else None
    if wanted is not None:
        there = _look(workspace, name, wanted)
        if there is not None and _says(there, definition):
            return _made(there)
        _require_next(workspace, name, definition, wanted)
    body = {"name": name, "definition": definition}
    made = _made(workspace._session.call("POST", f"{workspace._path}/environments", body))
    if wanted is not None and made.version != str(wanted):
        raise Conflict(f"Somebody else registered {name} meanwhile, and so this became version {made.version}.")
    return made


def add_private_pip_wheel(workspace: Workspace, file_path: str, exist_ok: bool = False) -> str:
    """Keep a wheel in the workspace. Returns what names it among pip packages."""
    from windlass.client import embedded

    name = names.wheel_name(os.path.basename(file_path))
    if not os.path.isfile(file_path):
        raise UserErrorException(f"Please make sure file exists: {os.path.abspath(file_path)}")
    file = snapshot.look_at(os.path.abspath(file_path), embedded.home())
    body = {"name": name, "digest": file.digest, "exist_ok": exist_ok}
    kept = _sending(workspace, [file], lambda: workspace._session.call("POST", f"{workspace._path}/wheels", body))
    return str(Reference(kept["digest"], kept["size"], kept["name"]))


def _ask(workspace: Workspace, name: str, version: int | None) -> dict[str, Any]:
    """What the server has of that version, or of the latest."""
    query = {"version": version} if version is not None else None
    path = f"{workspace._path}/environments/{names.environment_name(name)}"
    found: dict[str, Any] = workspace._session.call("GET", path, query=query)
    return found


def _look(workspace: Workspace, name: str, version: int | None = None) -> dict[str, Any] | None:
    try:
        return _ask(workspace, name, version)
    except NotFound:
        return None


def _says(view: dict[str, Any], definition: dict[str, Any]) -> bool:
    """Whether it is the same environment: what was registered by older versions may lack keys."""
    return _made(view).to_dict() == _made({**view, "definition": definition}).to_dict()


def _require_next(workspace: Workspace, name: str, definition: dict[str, Any], wanted: int) -> None:
    latest = _look(workspace, name)
    number = 0 if latest is None else latest["version"]
    if wanted <= number:
        problem = "That has another definition, and versions never change."
    elif latest is not None and _says(latest, definition):
        problem = f"With this definition it is version {number} already."
    elif wanted > number + 1:
        problem = f"Versions are counted, and the next one is {number + 1}."
    else:
        return
    raise UserErrorException(
        f"The environment {name} cannot be registered as version {wanted}. {problem}",
        "environment.version = None registers it as what comes next.",
    )


def _keep_files(environment: Environment, definition: dict[str, Any], workspace: Workspace) -> None:
    packages = environment.python.conda_dependencies
    inline = definition["python"].get("condaDependencies")
    if packages is None or not inline:
        return
    wheels = Wheels()
    for item in inline.get("dependencies") or []:
        if isinstance(item, dict):
            lines = item["pip"] or []
            item["pip"] = [line if line.startswith("-") else wheels.take(line, packages.base) for line in lines]
    files = [file for file in wheels.files() if file.location]
    if files:
        digests = {"digests": [file.digest for file in files]}
        missing = workspace._session.call("POST", f"{workspace._path}/blobs/missing", digests)["missing"]
        snapshot.upload(workspace._session, workspace._path, snapshot.Snapshot("", files), missing)


def _sending(workspace: Workspace, files: Sequence[File], ask: Callable[[], Any]) -> dict[str, Any]:
    """Ask; if the server lacks the bytes, send them and ask again."""
    try:
        found: dict[str, Any] = ask()
    except SnapshotIncomplete as e:
        missing = e.details.get("missing") or []
        snapshot.upload(workspace._session, workspace._path, snapshot.Snapshot("", files), missing)
        found = ask()
    return found


def _made(view: dict[str, Any]) -> Environment:
    made = Environment.from_dict(view["definition"], f"environment {view['name']}")
    made.name, made.version = view["name"], str(view["version"])
    return made


def _number(version: Any) -> int:
    try:
        return int(str(version))
    except ValueError:
        raise UserErrorException(f"A version of an environment is a number, not {version!r}.") from None


def _suggestion(workspace: Workspace, name: str) -> str:
    import difflib

    found = workspace._session.call("GET", f"{workspace._path}/environments")["environments"]
    near = difflib.get_close_matches(name, [view["name"] for view in found], n=3)
    return f"Did you mean {' or '.join(near)}?" if near else ""
