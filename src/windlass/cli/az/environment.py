"""`az ml environment` of the CLI v1 and v2."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.az.declaration import COUNT, NAME, V1, AzGroup, Values, flag, ignored, many, option, required
from windlass.cli.context import CommandContext
from windlass.core import names
from windlass.core.errors import NotFound

if TYPE_CHECKING:
    from windlass.client.environments.environment import Environment

_DIRECTORY = required(option("-d --directory", "The folder of the definition.", "FOLDER"))
_VERSION = option("-v --version", "The version. [default: the latest]", "VERSION")
_LABEL = option("-l --label", "The label: latest.", "LABEL")
_OVERWRITE = flag("--overwrite", "Overwrite existing files.")
_ARCHIVED = "Archiving environments is not provided in this version: versions stay, and take no room when unused."

environment = AzGroup("environment", "Make, register, list and download environments (CLI v1 and v2).")


@environment.declare(
    "scaffold", "Write the files of an environment to a folder.", required(NAME), _DIRECTORY, _OVERWRITE, *V1
)
def scaffold(context: CommandContext, values: Values) -> Any:
    from windlass.client.environments.conda_dependencies import CondaDependencies
    from windlass.client.environments.environment import Environment

    made = Environment(names.own_environment_name(values["name"]))
    made.python.conda_dependencies = CondaDependencies()
    _save(made, values)
    return _shape(made)


def _save(made: Environment, values: Values) -> None:
    if os.path.isdir(values["directory"]) and os.listdir(values["directory"]) and not values["overwrite"]:
        raise click.UsageError(f"{values['directory']} is there already; --overwrite writes over it.")
    made.save_to_directory(values["directory"], overwrite=True)


@environment.declare("register", "Register the environment of a folder.", _DIRECTORY, *V1)
def register(context: CommandContext, values: Values) -> Any:
    from windlass.client.environments.environment import Environment

    if not os.path.isdir(values["directory"]):
        raise NotFound(f"There is no folder {values['directory']}.", "`az ml environment scaffold` makes one.")
    return _shape(Environment.load_from_directory(values["directory"]).register(context.sdk_workspace()))


@environment.declare(
    "create",
    "Register an environment: of a YAML file, an image, a conda file or a Dockerfile.",
    option("-f --file", "The environment, as a YAML file.", "FILE"),
    NAME,
    _VERSION._replace(help="Its version. [default: the next number]"),
    option("-i --image", "The image of its containers.", "IMAGE"),
    option("-c --conda-file", "Its packages.", "FILE"),
    option("-b --build-context", "The folder of its Dockerfile.", "FOLDER"),
    option("-d --dockerfile-path", "The Dockerfile in that folder. [default: Dockerfile]", "FILE"),
    many("--set", "Replace what the file says.", "KEY=VALUE"),
    *ignored("--description", "--tags", "--datastore", "--os-type", "--registry-name"),
)
def create(context: CommandContext, values: Values) -> Any:
    made = _described(values)
    made.name = names.own_environment_name(values["name"] or made.name or "")
    made.version = values["version"] or made.version
    return _shape(made.register(context.sdk_workspace()))


def _described(values: Values) -> Environment:
    from windlass.client.environments import environment_file
    from windlass.client.environments.environment import Environment

    if values["file"]:
        return environment_file.load(values["file"], values["set"])
    if not values["name"] or not any(values[key] for key in ("image", "conda_file", "build_context")):
        raise click.UsageError("the following arguments are required: --file/-f, or --name/-n with --image/-i")
    if values["build_context"]:
        path = os.path.join(values["build_context"], values["dockerfile_path"] or "Dockerfile")
        return Environment.from_dockerfile(values["name"], path, values["conda_file"])
    if values["image"]:
        return Environment.from_docker_image(values["name"], values["image"], conda_specification=values["conda_file"])
    return Environment.from_conda_specification(values["name"], values["conda_file"])


@environment.declare(
    "list",
    "List the environments of the workspace, the latest version of each.",
    NAME._replace(help="Only the versions of this one."),
    option("-r --max-results", "How many.", "N", kind=COUNT),
    *V1,
    *ignored("--archived-only", "--include-archived", "--registry-name"),
)
def list_environments(context: CommandContext, values: Values) -> Any:
    from windlass.client.environments.environment import Environment

    versions = f"/{names.environment_name(values['name'])}/versions" if values["name"] else ""
    found = [_of_view(Environment, view) for view in context.get(f"/environments{versions}")["environments"]]
    return [_shape(each) for each in found][: values["max_results"]]


def _of_view(kind: type[Environment], view: dict[str, Any]) -> Environment:
    made = kind.from_dict(view["definition"])
    made.name, made.version = view["name"], str(view["version"])
    return made


@environment.declare("show", "Show an environment.", required(NAME), _VERSION, _LABEL, *V1, *ignored("--registry-name"))
def show(context: CommandContext, values: Values) -> Any:
    return _shape(_get(context, values))


@environment.declare(
    "download",
    "Write the definition of an environment to a folder.",
    required(NAME),
    _DIRECTORY,
    _VERSION,
    _OVERWRITE,
    *V1,
)
def download(context: CommandContext, values: Values) -> Any:
    found = _get(context, values)
    _save(found, values)
    return _shape(found)


def _get(context: CommandContext, values: Values) -> Environment:
    from windlass.client.environments.environment import Environment

    return Environment.get(context.sdk_workspace(), values["name"], values["version"], values.get("label"))


environment.explain("archive restore", _ARCHIVED)
environment.explain("update", "Versions of an environment never change: `az ml environment create` makes the next one.")
environment.explain("share", "Registries are not provided in this version: environments are kept in the workspace.")


def _shape(found: Environment) -> dict[str, Any]:
    """The definition in the words of the CLI v1, with the keys of the CLI v2."""
    packages = found.python.conda_dependencies
    is_managed = packages is not None and not found.python.user_managed_dependencies
    return {
        **found.to_dict(),
        "conda_file": packages.as_dict() if packages is not None and is_managed else None,
        "image": found.docker.base_image,
        "os_type": "linux",
    }
