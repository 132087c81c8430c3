"""`windlass runconfiguration`: the run configurations of a project, as Azure ML Workbench has them."""

from __future__ import annotations

import os

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import FOLDER, TARGET
from windlass.client.config.run_configuration_file import EXTENSION, FOLDERS
from windlass.core import names
from windlass.core.errors import AlreadyExists, InvalidRequest, NotFound
from windlass.core.sanitize import escape

_PROJECT = click.option(
    "-p", "--project", type=FOLDER, default=os.curdir, metavar="FOLDER", help="The project's folder."
)
_NAME = click.option("-n", "--name", required=True, metavar="NAME", help="The run configuration's name.")


@click.group("runconfiguration", cls=Group, short_help="List, create and delete run configurations.")
def runconfiguration() -> None:
    """List, create and delete the run configurations of a project: the .runconfig files in aml_config or .azureml."""


@runconfiguration.command("list", cls=Command, short_help="List them.")
@_PROJECT
@click.pass_obj
def list_configurations(context: CommandContext, project: str) -> None:
    """List the run configurations of the project."""
    found = configurations(project)
    if context.json:
        context.terminal.json({"run_configurations": found})
    else:
        context.terminal.lines([escape(name) for name in found])


@runconfiguration.command("create", cls=Command, short_help="Create one.")
@_NAME
@click.option("-t", "--target", type=TARGET, required=True, metavar="TARGET", help="Where its runs go.")
@_PROJECT
@click.pass_obj
def create(context: CommandContext, name: str, target: str, project: str) -> None:
    """Create the run configuration NAME for a target."""
    from windlass.client.config import workbench_compute_file

    _check(name)
    if name in configurations(project):
        raise AlreadyExists(f"There is a run configuration {escape(name)} already.", "Choose another name.")
    found = context.get(f"/targets/{names.target_name(target)}")
    *others, path = workbench_compute_file.write_configuration(found, project, name)
    if context.json:
        context.terminal.json({"name": name, "target": target, "file": path})
    else:
        context.terminal.lines([f"Wrote {escape(each)}" for each in (*others, path)])


@runconfiguration.command("delete", cls=Command, short_help="Delete one.")
@_NAME
@_PROJECT
@click.pass_obj
def delete(context: CommandContext, name: str, project: str) -> None:
    """Delete the run configuration NAME."""
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.exceptions import UserErrorException

    _check(name)
    try:
        RunConfiguration.delete(project, name)
    except UserErrorException as e:
        raise NotFound(e.message, "See what there is: windlass runconfiguration list") from None
    if context.json:
        context.terminal.json({"name": name, "deleted": True})
    else:
        context.terminal.line(f"Deleted {escape(name)}.")


def configurations(project: str) -> list[str]:
    """The names of a project's run configurations, sorted."""
    found: set[str] = set()
    for folder in FOLDERS:
        place = os.path.join(project, folder)
        if os.path.isdir(place):
            found.update(file[: -len(EXTENSION)] for file in os.listdir(place) if file.endswith(EXTENSION))
    return sorted(found)


def _check(name: str) -> None:
    if os.path.basename(name) != name or name in ("", os.curdir, os.pardir):
        raise InvalidRequest(f"{escape(name)} is not the name of a run configuration.")
