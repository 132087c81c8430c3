"""`windlass experiment`: the command lines of Azure ML Workbench, with `windlass` in place of `az ml`. They do what
`windlass submit` and `windlass prepare` do.
"""

from __future__ import annotations

import os
from typing import Any

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.errors import OWN_FAILURE
from windlass.cli.parameters.types import CONFIGURATION, FILE, FOLDER, RUN, TARGET
from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape


@click.group("experiment", cls=Group, short_help="Submit scripts, and prepare targets for them.")
def experiment() -> None:
    """Prepare targets, submit scripts, and look after their runs, with the options of Azure ML Workbench.

    `windlass submit` and `windlass prepare` are the current commands.
    """


experiment.not_provided = {
    "clean": "`windlass gc` deletes what runs left and the settings no longer keep.",
    "diagnostics": "`windlass logs RUN` prints a run's log, and `windlass events RUN` lists its events.",
    "monitor": "`windlass logs -f RUN` follows a run, and `windlass metrics RUN` shows its metrics.",
    "return": "`windlass download RUN` fetches the files of a run.",
}


class _Submit(Command):
    failure_code = OWN_FAILURE  # every other exit code is the script's


_OPTIONS = (
    click.option(
        "-c", "--run-configuration", type=CONFIGURATION, metavar="NAME", help="A run configuration, or a target."
    ),
    click.option(
        "-t", "--target", type=TARGET, metavar="NAME", help="The target, in place of the run configuration's."
    ),
    click.option("-d", "--conda-dependencies", type=FILE, metavar="FILE", help="The packages, as a conda file."),
    click.option(
        "-p", "--project", type=FOLDER, metavar="FOLDER", help="The project's folder. [default: the current one]"
    ),
    click.option("-a", "--async", "is_async", is_flag=True, help="Print the run's id and do not wait."),
    click.option("-s", "--spark-dependencies", hidden=True),
    click.option("-u", "--untracked", is_flag=True, hidden=True),
    # No effect: the command waits anyway.
    click.option("--wait", is_flag=True, hidden=True),
)


def _with_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@experiment.command(
    "submit", cls=_Submit, short_help="Run a script.", context_settings={"allow_interspersed_args": False}
)
@_with_options
@click.option("--prepare", "is_prepared", is_flag=True, help="Build the environment first, whatever the file says.")
@click.argument("script", type=FILE, required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def submit(
    ctx: click.Context,
    /,
    script: str | None,
    arguments: tuple[str, ...],
    is_async: bool,
    is_prepared: bool,
    **values: Any,
) -> int:
    """Run SCRIPT with its ARGUMENTS by a run configuration, which may name SCRIPT itself. The exit code is the
    script's.
    """
    from windlass.cli.submit import watch
    from windlass.cli.submit.options import parse
    from windlass.cli.submit.request import Request

    _warn(ctx.obj, values)
    _change_folder(values["project"])
    conda = ["--env-file", values["conda_dependencies"]] if values["conda_dependencies"] else []
    name, target = _configuration(values)
    parsed = parse(["-c", name, *conda, "-"])
    if parsed is None:
        raise InvalidRequest("There is nothing to run.", "Name a script: windlass experiment submit -c NAME train.py")
    parsed.values.update(instead=target, script=script, arguments=arguments)
    context: CommandContext = ctx.obj
    if is_prepared:
        code = _prepare(ctx, values)
        if code:
            return code
    if not is_async:
        return watch.submit(context, parsed.values)
    run = Request(context, parsed.values).send()
    if context.json:
        context.terminal.json(run)
    else:
        context.terminal.line(f"RunId:{run['id']}")
    return 0


@experiment.command("prepare", cls=Command, short_help="Build the environment of a run configuration.")
@_with_options
@click.option("--check", is_flag=True, help="Only say whether it is prepared.")
@click.pass_context
def prepare(ctx: click.Context, /, is_async: bool, check: bool, **values: Any) -> Any:
    """Build the environment of a run configuration on its target, ahead of the first run."""
    _warn(ctx.obj, values)
    _change_folder(values["project"])
    return _prepare(ctx, values, check=check, wait=not is_async)


def _prepare(ctx: click.Context, values: dict[str, Any], check: bool = False, wait: bool = True) -> int:
    from windlass.cli.submit.prepare import build, configuration

    name, target = _configuration(values)
    return build(ctx.obj, configuration(name, values["conda_dependencies"], target), check, wait)


_RUN = click.option("-r", "--run", type=RUN, required=True, metavar="RUN", help="The run's id.")


@experiment.command("cancel", cls=Command, short_help="Cancel a run.")
@_RUN
@click.pass_context
def cancel(ctx: click.Context, /, run: str) -> Any:
    """Cancel a run."""
    from windlass.cli.runs.cancel import cancel as cancel_runs

    return ctx.invoke(cancel_runs, runs=(run,))


@experiment.command("status", cls=Command, short_help="Show a run.")
@_RUN
@click.pass_context
def status(ctx: click.Context, /, run: str) -> Any:
    """Show a run: its state, metrics and files."""
    from windlass.cli.runs.show import show

    return ctx.invoke(show, run=run)


def _configuration(values: dict[str, Any]) -> tuple[str, str | None]:
    """The run configuration or target that is named, and the target that replaces the configuration's own."""
    name, target = values["run_configuration"], values["target"]
    if not name and not target:
        raise click.UsageError("Missing option '-c' / '--run-configuration'.")
    return (name, target) if name and target and name != target else (name or target, None)


def _warn(context: CommandContext, values: dict[str, Any]) -> None:
    """Warn of Workbench's options that have no effect here."""
    if values["spark_dependencies"] is not None:
        context.terminal.note("Warning: --spark-dependencies has no meaning here: no target is of Spark.")
    if values["untracked"]:
        context.terminal.note("Warning: --untracked has no meaning here: every run is kept in the history.")


def _change_folder(project: str | None) -> None:
    if project is None:
        return
    try:
        os.chdir(project)
    except OSError as e:
        raise NotFound(f"There is no project {escape(project)}: {e.strerror}.") from None
