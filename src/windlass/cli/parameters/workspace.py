"""Which workspace a command works in: the one that is named, else the one of the current folder, else the default."""

from __future__ import annotations

import os

from windlass.client.workspace import config_file

DEFAULT = "default"


def workspace(named: str | None) -> str:
    if named:
        from windlass.core.names import workspace_name

        return workspace_name(named)
    found = _file()
    if found is None:
        return os.environ.get("WINDLASS_WORKSPACE") or DEFAULT
    project = config_file.read(found)
    if project.workspace_name != DEFAULT:
        from windlass.client.workspace.workspace import Workspace

        Workspace(*project)  # on the private server, made if it is not there: whoever names it owns the server
    return project.workspace_name


def _file() -> str | None:
    try:
        return config_file.find(os.getcwd())
    except FileNotFoundError:
        return None  # the current folder was deleted
