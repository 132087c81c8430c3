"""Which Python a submitted script gets: the one that `python` would be here, or an environment built for it."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from windlass.cli.escapes import shown
from windlass.core.errors import InvalidRequest, NotFound

_VERSION = re.compile(r"3(\.\d+){1,2}\Z")


def environment(python: str | None, pip: tuple[str, ...], file: str | None) -> dict[str, Any]:
    """The environment of a run, as a RunSpec has it."""
    if not pip and not file and not (python and _VERSION.match(python)):
        return {"interpreter": interpreter(python)}
    if python and not _VERSION.match(python):
        raise InvalidRequest(
            f"An environment with packages is built for a version of Python, not for {shown(python)}.",
            "Say --python 3.12, or leave out --pip and --env-file.",
        )
    found: dict[str, Any] = _read(file) if file else {"pip": []}
    found["pip"] = [*found["pip"], *pip]
    if python:
        found["python_version"] = python
    return {key: value for key, value in found.items() if value}


def interpreter(python: str | None) -> str:
    """The path of an interpreter that was named, or of the one that the active environment has."""
    if python is None:
        return _active() or sys.executable
    import shutil

    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise NotFound(f"There is no Python {shown(python)} here.", "--python takes a path, a name or a version.")
    return os.path.abspath(found)


def _active() -> str | None:
    """What an activated virtual or conda environment calls `python`: windlass may be installed elsewhere."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(variable)
        path = os.path.join(folder, "bin", "python") if folder else ""
        if path and os.access(path, os.X_OK):
            return path
    return None


def _read(file: str) -> dict[str, Any]:
    if not os.path.isfile(file):
        raise NotFound(f"There is no file {shown(file)}.", "--env-file takes a requirements.txt or a conda file.")
    if file.endswith((".yml", ".yaml")):
        return _read_conda(file)
    return _read_requirements(file)


def _read_conda(file: str) -> dict[str, Any]:
    from windlass.client.conda_dependencies import CondaDependencies, package_name

    packages = CondaDependencies(file)
    return {
        "python_version": packages.get_python_version(),
        "pip": list(packages.pip_packages),
        "pip_options": list(packages.pip_options),
        "conda": [package for package in packages.conda_packages if package_name(package) != "python"],
        "channels": list(packages.conda_channels),
    }


def _read_requirements(file: str) -> dict[str, Any]:
    try:
        with open(file, encoding="utf-8-sig") as lines:
            text = lines.read().replace("\\\n", " ")
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidRequest(f"{shown(file)} cannot be read: {e}") from None
    found: dict[str, Any] = {"pip": [], "pip_options": []}
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        if line.startswith(("-r", "--requirement", "-c", "--constraint", "-e", "--editable")):
            raise InvalidRequest(
                f"{shown(file)} refers to what is not sent along: {shown(line)}", "Name packages in it."
            )
        if line:
            found["pip_options" if line.startswith("-") else "pip"].append(line)
    return found
