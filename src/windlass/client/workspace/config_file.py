"""Workspace configuration files of a folder: config.json, and project.json of older projects."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from windlass.client.config.file_location import read_json
from windlass.client.exceptions import UserErrorException

FOLDERS = (".azureml", "aml_config", ".windlass", "")
FILES = ("config.json", "project.json")
_SCOPE = (
    r"/subscriptions/(?P<subscription>[^/]*)/resourceGroups/(?P<group>[^/]*)/.*/workspaces/(?P<workspace>[^/]+)"
    r"(?:/(?:projects|experiments)/(?P<experiment>[^/]+))?"
)
_CONFIG_FORM = '{"subscription_id": "", "resource_group": "", "workspace_name": "default"}'
_PROJECT_FORM = (
    '{"Id": "EXPERIMENT", "Scope": "/subscriptions/ID/resourceGroups/GROUP/providers/'
    'Microsoft.MachineLearningServices/workspaces/WORKSPACE/projects/EXPERIMENT"}'
)
_PROVIDER = "providers/Microsoft.MachineLearningServices"


class WorkspaceReference(NamedTuple):
    """The workspace that a file names, with its Azure subscription and resource group."""

    subscription_id: str
    resource_group: str
    workspace_name: str


def find(path: str, file_name: str | None = None) -> str | None:
    """The file for a folder: in its configuration folders, or in those of a folder above it."""
    files = (file_name,) if file_name else FILES
    for folder in FOLDERS:
        for file in files:
            found = _upwards(os.path.abspath(path), os.path.join(folder, file))
            if found is not None:
                return found
    return None


def _upwards(start: str, relative: str) -> str | None:
    while True:
        candidate = os.path.join(start, relative)
        if os.path.isfile(candidate) and _is_ours(candidate):
            return candidate
        if os.path.dirname(start) == start:
            return None
        start = os.path.dirname(start)


def _is_ours(path: str) -> bool:
    """A config.json outside of a configuration folder may belong to any program: then it must name a workspace."""
    if os.path.basename(os.path.dirname(path)) in FOLDERS:
        return True
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(100_000)
    except (OSError, ValueError):
        return False
    return '"workspace_name"' in text or '"Scope"' in text


def read(path: str) -> WorkspaceReference:
    try:
        body = read_json(path)
    except UserErrorException as e:
        raise UserErrorException(
            f"The workspace configuration cannot be read: {e.message}", "Correct it, or remove it."
        ) from None
    if isinstance(body, dict) and isinstance(body.get("workspace_name"), str) and body["workspace_name"]:
        given = (str(body.get("subscription_id") or ""), str(body.get("resource_group") or ""))
        return WorkspaceReference(*given, body["workspace_name"])
    found = re.match(_SCOPE, str(body.get("Scope") or ""), re.IGNORECASE) if isinstance(body, dict) else None
    if found is None:
        form = _PROJECT_FORM if os.path.basename(path) == "project.json" else _CONFIG_FORM
        raise UserErrorException(f"The workspace configuration {path} names no workspace.", f"It looks like {form}.")
    return WorkspaceReference(*found.group("subscription", "group", "workspace"))


def read_experiment(path: str) -> str:
    """The experiment that a project.json, or a config.json of the same format, names for its folder; "" if none."""
    body = read_json(path)
    found = re.match(_SCOPE, str(body.get("Scope") or ""), re.IGNORECASE) if isinstance(body, dict) else None
    return (found.group("experiment") or "") if found else ""


def write(folder: str, named: WorkspaceReference, file_name: str) -> str:
    return _write(folder, named._asdict(), file_name)


def write_project(folder: str, named: WorkspaceReference, experiment: str, file_name: str = "project.json") -> str:
    """Write the older format, which names the folder's experiment too: {"Id", "Scope"}."""
    place = f"/subscriptions/{named.subscription_id}/resourceGroups/{named.resource_group}/{_PROVIDER}"
    scope = f"{place}/workspaces/{named.workspace_name}/projects/{experiment}"
    return _write(folder, {"Id": experiment, "Scope": scope}, file_name)


def _write(folder: str, body: dict[str, str], file_name: str) -> str:
    import json

    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, file_name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(body, file, indent=4)
        file.write("\n")
    return path
