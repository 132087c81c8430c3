"""Defaults of a submit by the project file, for the options that the command line does not have."""

from __future__ import annotations

import os
from typing import Any

from windlass.client.config import project_file

Values = dict[str, Any]
_ENVIRONMENT = ("environment", "env_file", "pip", "python", "image")


def with_project(values: Values) -> Values:
    """The options of a command line, completed by the project file of the current folder if there is one."""
    path = project_file.find()
    return values if path is None else _completed(values, project_file.read(path))


def _completed(values: Values, project: project_file.Project) -> Values:
    """Options win. A run configuration has an environment and resources of its own, and one option that chooses the
    environment replaces all of the project's.
    """
    found = project.values
    target = values["target"] or found.get("target")
    changed = {"target": target, "experiment": values["experiment"] or found.get("experiment")}
    if "variables_file" in found:
        from windlass.client.config.variables_file import check_of_project

        check_of_project(found["variables_file"])
        changed["variables_files"] = (found["variables_file"], *values["variables_files"])
    if not _is_run_configuration(target, values["source_directory"]):
        changed |= {key: each for key, each in _resources(project).items() if values[key] is None}
        if not any(values[key] for key in _ENVIRONMENT):
            changed |= {key: found[key] for key in ("environment", "env_file") if key in found}
    return {**values, **changed}


def _is_run_configuration(name: str | None, folder: str | None) -> bool:
    from windlass.cli.submit.run_configuration import has_file

    return name is not None and any(has_file(name, place) for place in {folder or os.curdir, os.curdir})


def _resources(project: project_file.Project) -> Values:
    """The resources, read as the options of the same names read them."""
    from windlass.cli.submit.options import OPTIONS
    from windlass.client.exceptions import UserErrorException

    readers = {option.key: option.read for option in OPTIONS}
    found = {}
    for key, value in project.values.get("resources", {}).items():
        read = readers[key]
        assert read is not None
        try:
            found[key] = read("" if isinstance(value, bool) else str(value))
        except ValueError as e:
            raise UserErrorException(f"{project.path}: resources.{key}: {e}") from None
    return found
