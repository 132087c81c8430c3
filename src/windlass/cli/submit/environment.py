"""The environment of a submit by its options: an existing Python, or packages from which one is built."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.cli.submit.active_python import active
from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.cli.context import CommandContext
    from windlass.client.environments.environment import Environment
    from windlass.client.submit.snapshot import File

_NAME = "command-line"
_VARIABLE = re.compile(r"(export\s+)?[A-Za-z_][A-Za-z0-9_]*=(?!=)")
_MOST_READ = 1 << 16
_VERSION = re.compile(r"3(\.\d+){1,2}\Z")


class ChosenEnvironment(NamedTuple):
    """An environment for a RunSpec, the same for Azure's run definition, and local files that it needs."""

    spec: dict[str, Any]
    definition: dict[str, Any]
    files: Sequence[File] = ()


def environment(values: dict[str, Any]) -> ChosenEnvironment:
    python, file = values["python"], values["env_file"]
    is_version = bool(python and _VERSION.match(python))
    if not values["pip"] and not file and not is_version:
        path = interpreter(python) if values["target"] == "local" else python or "python3"
        section = {"userManagedDependencies": True, "interpreterPath": path}
        return ChosenEnvironment({"interpreter": path}, {"name": "default-environment", "python": section})
    if python and not is_version:
        raise InvalidRequest(
            f"An environment with packages is built for a version of Python, not for {escape(python)}.",
            "Say --python 3.12, or leave out --pip and --env-file.",
        )
    return _with_packages(file, values["pip"], python, values["target"])


def interpreter(python: str | None) -> str:
    """The path of the interpreter `python`, or by default of the active environment's."""
    if python is None:
        return active() or sys.executable
    import shutil

    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise NotFound(f"There is no Python {escape(python)} here.", "--python takes a path, a name or a version.")
    return os.path.abspath(found)


def named_environment(context: CommandContext, text: str) -> Environment:
    """The environment NAME or NAME:VERSION of the workspace, or a curated one."""
    from windlass.client.environments.environment import Environment

    name, colon, version = text.partition(":")
    return Environment.get(context.sdk_workspace(), name, version if colon else None)


def refuse_both(values: dict[str, Any], others: Sequence[str]) -> None:
    """Refuse options beside --environment that would change the named environment."""
    option = next((other for other in others if values[other.lstrip("-").replace("-", "_")]), None)
    if values["environment"] is not None and option is not None:
        raise InvalidRequest(
            f"--environment and {option} cannot be used together.",
            "A named environment has its Python, packages and image. Take the one or the other.",
        )


def read_packages(file: str) -> Environment:
    """The packages of a conda file or a requirements.txt, as an environment. Case does not matter in its name."""
    from windlass.client.environments.conda_dependencies import find_conda_file
    from windlass.client.environments.environment import Environment

    path = find_conda_file(file)
    if not os.path.isfile(path):
        raise NotFound(f"There is no file {escape(file)}.", "Packages are in a requirements.txt or a conda file.")
    _refuse_variables(file, path)
    if path.lower().endswith((".yml", ".yaml")):
        return Environment.from_conda_specification(_NAME, path)
    return Environment.from_pip_requirements(_NAME, path)


def _refuse_variables(file: str, path: str) -> None:
    """Refuse a file of variables, such as .env: Docker has an option of the same name for those."""
    with open(path, encoding="utf-8", errors="replace") as opened:
        lines = [line.strip() for line in opened.read(_MOST_READ).splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if os.path.basename(path) == ".env" or (lines and all(map(_VARIABLE.match, lines))):
        raise InvalidRequest(
            f"{escape(file)} sets variables, and this option takes a list of packages: a requirements.txt or a conda "
            "file.",
            f"Variables are set by --variables-file {escape(file)}, or one by one: --env KEY=VALUE.",
        )


def _with_packages(file: str | None, pip: tuple[str, ...], version: str | None, target: str) -> ChosenEnvironment:
    from windlass.client.environments.conda_dependencies import CondaDependencies
    from windlass.client.environments.environment import Environment
    from windlass.client.submit.local_wheels import Wheels
    from windlass.client.submit.run_spec import environment_spec
    from windlass.core.codec import to_wire

    if file is None:
        made = Environment(_NAME)
        made.python.conda_dependencies = CondaDependencies.create(pip_packages=[])  # without the default packages
    else:
        made = read_packages(file)
    packages = made.python.conda_dependencies
    assert packages is not None  # each way makes one
    for package in pip:
        packages.add_pip_package(package)
    if version:
        packages.set_python_version(version)
    wheels = Wheels()
    spec: dict[str, Any] = to_wire(environment_spec(made, target, wheels))
    return ChosenEnvironment(spec, made.to_dict(), wheels.files())
