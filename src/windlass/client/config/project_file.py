"""The project file: `.windlass/project.toml`, defaults for the commands that are typed in a folder and below it.

It comes with a repository that others wrote, so it names files inside of the project only, and no server: that would
decide where the user's token goes.
"""

from __future__ import annotations

import os
import stat
from importlib import import_module
from typing import Any, Dict, NamedTuple

from windlass.client.exceptions import UserErrorException
from windlass.core.errors import InvalidRequest

FILE = os.path.join(".windlass", "project.toml")
RESOURCES = ("nodes", "cpus", "memory", "gpus")
FILES = ("env_file", "variables_file")
_TEXTS = ("workspace", "experiment", "target", "environment", *FILES)
KEYS = (*_TEXTS, "resources")


class Project(NamedTuple):
    """What a project file says. `values` has its keys as they are written, and absolute paths of files."""

    path: str
    values: Dict[str, Any]


def find(folder: str | None = None) -> str | None:
    """The project file of a folder (the current one by default), or of the nearest folder above it that has one.

    The search ends at the root of a repository, and before the user's home, whose `.windlass` is the server's. It costs
    two stat calls a folder: every command does it.
    """
    try:
        place = os.getcwd() if folder is None else os.path.abspath(folder)
    except FileNotFoundError:
        return None  # the current folder was deleted
    home = os.path.realpath(os.path.expanduser("~"))
    while place != home:
        path = os.path.join(place, FILE)
        if os.path.isfile(path):
            return None if _is_open_to_all(place) else path
        above = os.path.dirname(place)
        if above == place or os.path.lexists(os.path.join(place, ".git")):
            return None
        place = above
    return None


def _is_open_to_all(folder: str) -> bool:
    """Whether every user of the machine may write to a folder, as to /tmp: its files may be anybody's."""
    return bool(os.stat(folder).st_mode & stat.S_IWOTH)


def workspace_of(folder: str | None = None) -> str | None:
    """The workspace that the project file of a folder names; None without one, and on Pythons before 3.11."""
    path = find(folder)
    return None if path is None or not _has_toml() else read(path).values.get("workspace")


def read(path: str) -> Project:
    """Read a project file. Errors name the file and the key."""
    values = _parse(path)
    _refuse_unknown(path, values, KEYS, "")
    for key in _TEXTS:
        if key in values and (not isinstance(values[key], str) or not values[key].strip()):
            raise UserErrorException(f"{path}: {key} is a text, not {values[key]!r:.60}.", f'{key} = "..."')
    _check(path, values)
    folder = os.path.dirname(os.path.dirname(path))
    return Project(path, {**values, **{key: _inside(path, folder, key, values[key]) for key in FILES if key in values}})


def _parse(path: str) -> Dict[str, Any]:
    if not _has_toml():
        raise UserErrorException(f"{path} cannot be read by this Python.", "Project files need Python 3.11.")
    toml: Any = import_module("tomllib")  # by name: this module also travels to older Pythons
    try:
        with open(path, "rb") as file:
            found: Dict[str, Any] = toml.load(file)
            return found
    except toml.TOMLDecodeError as e:
        raise UserErrorException(f"{path} is not valid TOML: {str(e).rstrip('.')}.", 'target = "local"') from None
    except UnicodeDecodeError:
        raise UserErrorException(f"{path} is not UTF-8 text.") from None
    except OSError as e:
        raise UserErrorException(f"{path} cannot be read: {e.strerror}.") from None


def _has_toml() -> bool:
    import sys

    return sys.version_info >= (3, 11)


def _refuse_unknown(path: str, values: Dict[str, Any], known: tuple[str, ...], prefix: str) -> None:
    unknown = next((key for key in values if key not in known), None)
    if unknown is None:
        return
    import difflib

    near = difflib.get_close_matches(unknown.lower(), known, n=1)
    hint = f"Did you mean {prefix}{near[0]}?" if near else f"It has {', '.join(prefix + key for key in known)}."
    raise UserErrorException(f"{path}: there is no key {prefix}{unknown!s:.60}.", hint)


def _check(path: str, values: Dict[str, Any]) -> None:
    from windlass.client import names

    resources = values.get("resources", {})
    if not isinstance(resources, dict):
        raise UserErrorException(f"{path}: resources is a table.", '[resources] and below it: memory = "8G"')
    _refuse_unknown(path, resources, RESOURCES, "resources.")
    if "environment" in values and "env_file" in values:
        raise UserErrorException(f"{path}: environment and env_file are both given.", "Take the one or the other.")
    for key, valid in (("workspace", names.workspace_name), ("experiment", names.experiment_name)):
        if key in values:
            try:
                valid(values[key])
            except InvalidRequest as e:
                raise UserErrorException(f"{path}: {key}: {e.message}", e.hint) from None


def _inside(path: str, folder: str, key: str, name: str) -> str:
    """The absolute path of a file that the project names; it has to be inside of the project's folder."""
    root, whole = os.path.realpath(folder), os.path.realpath(os.path.join(folder, name))
    if os.path.commonpath([root, whole]) != root:
        raise UserErrorException(
            f"{path}: {key} is outside of the project: {name}", f"Its path is relative to {folder}, and stays in it."
        )
    return os.path.join(folder, name)
