"""The workspace of a command: that of --workspace, else that of the current folder's config.json, else the default."""

from __future__ import annotations

import os

from windlass.client.workspace import config_file

DEFAULT = "default"


def resolve(named: str | None) -> str:
    if named:
        from windlass.core.names import workspace_name

        return workspace_name(named)
    found = _file()
    if found is None:
        return os.environ.get("WINDLASS_WORKSPACE") or DEFAULT
    project = config_file.read(found)
    if project.workspace_name != DEFAULT:
        from windlass.client.workspace.workspace import Workspace

        Workspace(*project)  # creates it on the private server, whose owner is the user of this command
    return project.workspace_name


def _file() -> str | None:
    try:
        return config_file.find(os.getcwd())
    except FileNotFoundError:
        return None  # the current folder was deleted
