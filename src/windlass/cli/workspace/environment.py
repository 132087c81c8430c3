"""`windlass environment`: environments that the workspace keeps under names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters.types import ENVIRONMENT, FILE
from windlass.cli.submit.environment import named_environment, read_packages
from windlass.core import names
from windlass.core.errors import WindlassError
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.client.environments.environment import Environment

View = dict[str, Any]
# Packages that every environment has.
_TOOLS = ("pip", "setuptools", "wheel")


@click.group("environment", cls=Group, short_help="List, show and register environments.")
def environment() -> None:
    """Environments that the workspace keeps, in versions that never change. A run gets one, or a curated one such as
    AzureML-Minimal, with `windlass submit --environment NAME[:VERSION]`.
    """


@environment.command("list", cls=Command, short_help="List the environments.")
@click.option("-a", "--all", "everything", is_flag=True, help="Curated ones too.")
@click.pass_obj
def list_environments(context: CommandContext, everything: bool) -> None:
    """List the environments of the workspace, the latest version of each."""
    found = context.get("/environments")["environments"]
    if everything:
        from windlass.client.environments import curated

        found += [_curated_view(each) for each in curated.list_all().values()]
    columns = [
        Column("ENVIRONMENT"),
        Column("VERSION", right=True),
        Column("CONTENTS", least=12),
        Column("REGISTERED", right=True),
        Column("BY", least=8),
    ]
    none = "No environments yet: windlass environment register NAME --env-file requirements.txt"
    context.print_list("environments", found, none, columns, lambda view: _row(context, view))


def _row(context: CommandContext, view: View) -> list[str]:
    registered = format.ago(view["created_at"], context.now)
    return [view["name"], view["version"], _contents(view), registered, view["created_by"] or ""]


@environment.command("show", cls=Command, short_help="Show an environment.")
@click.argument("name", type=ENVIRONMENT, metavar="NAME[:VERSION]")
@click.pass_obj
def show_environment(context: CommandContext, name: str) -> None:
    """Show the environment NAME: its versions, packages, image and variables. Without a version, it is the latest."""
    found = named_environment(context, name)
    view = _view(context, found)
    if context.json:
        context.terminal.json(view)
        return
    context.terminal.line(f"Environment {context.terminal.bold(escape(f'{found.name}:{found.version}'))}")
    context.print_facts(_facts(context, view, found))


@environment.command("register", cls=Command, short_help="Register an environment under a name.")
@click.argument("name", type=ENVIRONMENT)
@click.option("--env-file", type=FILE, metavar="FILE", help="Its packages, in a requirements.txt or a conda file.")
@click.option("--image", metavar="IMAGE", help="Its runs are executed in containers of this image.")
@click.pass_obj
def register_environment(context: CommandContext, name: str, env_file: str | None, image: str | None) -> None:
    """Register an environment in the workspace as NAME. If it differs from the latest version, it is the next version.

    \b
    windlass environment register training --env-file requirements.txt
    windlass environment register torch --image pytorch/pytorch:2.5.1
    """
    if env_file is None and image is None:
        raise click.UsageError("Say what is in it: --env-file FILE, --image IMAGE, or both.")
    kept = _described(name, env_file, image).register(context.sdk_workspace())
    if context.json:
        context.terminal.json(_view(context, kept))
        return
    context.terminal.line(f"{kept.name}:{kept.version} is registered.")
    context.terminal.line(f"Run something with it: windlass submit --environment {kept.name} train.py")


def _described(name: str, env_file: str | None, image: str | None) -> Environment:
    from windlass.client.environments.environment import Environment

    checked = names.own_environment_name(name)
    if env_file is None:
        made = Environment.from_docker_image(checked, names.image_reference(image or ""))
    else:
        made = read_packages(env_file)
        made.name = checked
    if image is not None:
        made.docker.base_image, made.docker.enabled = names.image_reference(image), True
    return made


def _view(context: CommandContext, found: Environment) -> View:
    """The environment as the API has it, with all its versions."""
    from windlass.client.environments import curated

    if curated.is_curated(found.name or ""):
        there = [_curated_view(found)]
    else:
        there = context.get(f"/environments/{found.name}/versions")["environments"]
    view = next(each for each in there if each["version"] == found.version)
    kept = ("version", "created_by", "created_at")
    return {**view, "versions": [{key: each[key] for key in kept} for each in there]}


def _curated_view(found: Environment) -> View:
    """A curated environment as the API has registered ones; without a creator and a time."""
    view = {"name": found.name, "version": found.version, "definition": found.to_dict()}
    return {**view, "created_by": None, "created_at": None}


def _contents(view: View) -> str:
    """A short description. A definition that this version cannot use is listed, too."""
    from windlass.client.environments.environment import Environment

    try:
        found = Environment.from_dict(view["definition"])
        parts = [*_origin(found), _python(found)]
    except WindlassError:
        return "not for this version"
    count = len(_packages(found))
    parts += [format.count(count, "package")] if count else []
    return ", ".join(filter(None, parts)) or "the Python that is there"


def _origin(found: Environment) -> list[str]:
    """The image or Dockerfile of its containers."""
    from windlass.client.submit.container_spec import image_of

    origin = image_of(found)
    return [f"image {origin['image']}"] if "image" in origin else ["a Dockerfile"] if "dockerfile" in origin else []


def _python(found: Environment) -> str:
    """The Python version or path that the definition asks for; empty if it asks for none."""
    python, packages = found.python, found.python.conda_dependencies
    if python.user_managed_dependencies or packages is None:
        return python.interpreter_path if python.interpreter_path not in (None, "python") else ""
    return f"python {packages.get_python_version()}" if packages.python_is_chosen else ""


def _packages(found: Environment) -> list[str]:
    """The packages, without those that every environment has."""
    from windlass.client.environments.conda_lines import name_of
    from windlass.client.environments.sdk_packages import is_sdk

    packages = found.python.conda_dependencies
    if found.python.user_managed_dependencies or packages is None:
        return []
    conda = [line for line in packages.conda_packages if name_of(line) != "python" and line not in _TOOLS]
    return [line for line in (*conda, *packages.pip_packages) if not is_sdk(line)]


def _facts(context: CommandContext, view: View, found: Environment) -> Iterator[tuple[str, str]]:
    from windlass.client.submit.container_spec import image_of

    yield "Versions", ", ".join(escape(each["version"]) for each in view["versions"])
    yield "Registered", format.at(view["created_at"], context.now)
    yield "By", escape(view["created_by"] or "")
    there = "" if _packages(found) else "the one that is there"
    yield "Python", escape(_python(found).removeprefix("python ") or there)
    origin = image_of(found)
    where = "" if found.docker.enabled else "  (where its runs live in containers)"
    yield "Image", escape(origin["image"]) + where if "image" in origin else ""
    yield from _listed("Dockerfile", origin.get("dockerfile", "").splitlines())
    yield from _listed("Packages", [_package(line) for line in _packages(found)])
    packages = found.python.conda_dependencies
    variables = {**(packages.variables if packages else {}), **found.environment_variables}
    yield from _listed("Variables", [f"{name}={value}" for name, value in variables.items()])


def _listed(what: str, values: list[str]) -> Iterator[tuple[str, str]]:
    for at, value in enumerate(values):
        yield what if at == 0 else "", escape(value)


def _package(line: str) -> str:
    """A requirement; for a wheel in the workspace its file name, without the digest."""
    return line.rpartition("/")[2] if line.startswith("wheel:") else line
