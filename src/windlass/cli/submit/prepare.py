"""`windlass prepare`: build the environment of a run configuration on its target before the first run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import CONFIGURATION, ENVIRONMENT, FILE
from windlass.cli.submit.environment import named_environment, refuse_both

if TYPE_CHECKING:
    from windlass.client.config.run_configuration import RunConfiguration

_NOT_PREPARED = 1


@click.command("prepare", cls=Command, short_help="Build an environment on a target, ahead of the first run.")
@click.option(
    "-c",
    "--target",
    "--run-configuration",
    "name",
    type=CONFIGURATION,
    required=True,
    metavar="NAME",
    help="A run configuration of this project, or a target.",
)
@click.option(
    "-d",
    "--conda-file",
    "--conda-dependencies",
    "conda_file",
    type=FILE,
    metavar="FILE",
    help="The packages, in a conda file or a requirements.txt. [default: those of the run configuration, else (but for "
    "local) aml_config/conda_dependencies.yml]",
)
@click.option(
    "--environment",
    type=ENVIRONMENT,
    metavar="NAME[:VERSION]",
    help="This environment of the workspace, or a curated one; without a version, the latest.",
)
@click.option("--strict-environment", is_flag=True, help="Refuse a Python or a release that is not to be had.")
@click.option("--check", is_flag=True, help="Only say whether it is prepared; the exit code is 1 if not.")
@click.option("--wait/--async", "wait", default=True, help="Wait and show the build log, or print the run's id.")
@click.pass_obj
def prepare(
    context: CommandContext, /, name: str, strict_environment: bool, check: bool, wait: bool, **packages: str | None
) -> int:
    """Build the environment that runs of NAME will need, so that they need not wait for it.

    It is built once on each machine, by a run that does nothing else: its log and its end are kept. Where nobody names
    packages, a run on `local` uses the Python that is there, and there is nothing to prepare.

    \b
    windlass prepare -c local --conda-file environment.yml
    windlass prepare -c gpu-box --environment training:2
    windlass prepare -c gpu-box --check
    """
    refuse_both(packages, ["--conda-file"])
    wanted = configuration(name, packages["conda_file"])
    if packages["environment"] is not None:
        wanted.environment = named_environment(context, packages["environment"])
    if strict_environment:
        wanted.environment.python.strict = True
    return build(context, wanted, check, wait)


def build(context: CommandContext, wanted: RunConfiguration, check: bool, wait: bool) -> int:
    from windlass.client.environments.build import is_prepared, prepare
    from windlass.client.submit.script_run_config import ScriptRunConfig

    if not check and _uses_existing_python(wanted):
        return _print_nothing_to_build(context)
    config = ScriptRunConfig(os.getcwd(), run_config=wanted)
    workspace = context.sdk_workspace()
    if check:
        return _print_state(context, is_prepared(workspace, config))
    run = prepare(workspace, config)._view
    if not wait:
        context.terminal.json(run) if context.json else context.terminal.line(run["id"])
        return 0
    from windlass.cli.submit.watch import watch_run

    return watch_run(context, run)


def _print_state(context: CommandContext, is_prepared: bool) -> int:
    if context.json:
        context.terminal.json({"prepared": is_prepared})
    else:
        word = "already" if is_prepared else "is not"
        context.terminal.line(f"The compute target {word} prepared for the specified run configuration.")
    return 0 if is_prepared else _NOT_PREPARED


def _uses_existing_python(wanted: RunConfiguration) -> bool:
    """Whether runs use an interpreter of this computer, without a container."""
    from windlass.client.submit.container_spec import container_of
    from windlass.client.submit.run_spec import environment_spec

    if wanted.target != "local" or container_of(wanted) is not None:
        return False
    return not environment_spec(wanted.environment, wanted.target).is_built


def _print_nothing_to_build(context: CommandContext) -> int:
    """Print that nothing is built, instead of a run that does nothing: the user expects packages to be configured."""
    if context.json:
        context.terminal.json({"prepared": True})
    context.terminal.note("There is nothing to prepare: runs on local use the Python that is there.")
    context.terminal.note("Packages are named by --conda-file, --environment, or a run configuration.")
    return 0


def configuration(name: str, conda_file: str | None, target: str | None = None) -> RunConfiguration:
    from windlass.cli.submit import run_configuration

    found = run_configuration.load(os.getcwd(), name, target)
    if conda_file is not None:
        from windlass.cli.submit.environment import read_packages

        found.environment.python.user_managed_dependencies = False
        found.environment.python.conda_dependencies = read_packages(conda_file).python.conda_dependencies
    return found
