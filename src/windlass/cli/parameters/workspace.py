"""The workspace of a command: that of --workspace, else that of the current folder's config.json, else that of
WINDLASS_WORKSPACE, else that of the project file, else the default.
"""

from __future__ import annotations

import os

from windlass.client.config import project_file
from windlass.client.workspace import config_file

DEFAULT = "default"


def resolve(named: str | None) -> str:
    if named:
        from windlass.core.names import workspace_name

        return workspace_name(named)
    found = _file()
    if found is None:
        return os.environ.get("WINDLASS_WORKSPACE") or _of_project()
    return _existing(config_file.read(found))


def _of_project() -> str:
    name = project_file.workspace_of()
    return DEFAULT if name is None else _existing(config_file.WorkspaceReference("", "", name))


def _existing(named: config_file.WorkspaceReference) -> str:
    if named.workspace_name != DEFAULT:
        from windlass.client.workspace.workspace import Workspace

        Workspace(*named)  # creates it on the private server, whose owner is the user of this command
    return named.workspace_name


def _file() -> str | None:
    try:
        return config_file.find(os.getcwd())
    except FileNotFoundError:
        return None  # the current folder was deleted
