"""`windlass submit`: run a script on a target and show its log."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.errors import OWN_FAILURE
from windlass.cli.parameters.types import CONFIGURATION, ENVIRONMENT, EXPERIMENT, FILE, FOLDER, SECRET
from windlass.cli.submit import watch
from windlass.cli.submit.options import OPTIONS, Option, divide
from windlass.cli.submit.project_defaults import with_project
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # not generic in older versions of click


COMPLETED: dict[str, _ParamType] = {
    "experiment": EXPERIMENT,
    "target": CONFIGURATION,
    "source_directory": FOLDER,
    "env_file": FILE,
    "variables_files": FILE,
    "environment": ENVIRONMENT,
    "secrets": SECRET,
    "python": FILE,
}


OPTION_HINTS = {
    **dict.fromkeys(("--cores", "--cpu", "--num-cpus"), "--cpus N asks for CPUs."),
    **dict.fromkeys(("--mem", "--ram"), "--memory SIZE asks for memory: --memory 8G."),
    **dict.fromkeys(("--gpu", "--num-gpus"), "--gpus N asks for GPUs."),
    **dict.fromkeys(("--no-wait", "--async", "--background", "--detached", "--no-follow"),
                    "--detach prints the run's id and does not wait."),
    **dict.fromkeys(("--compute", "--compute-target"), "-c NAME chooses the target."),
    **dict.fromkeys(("--node-count", "--num-nodes", "--instances"), "--nodes N asks for nodes of a cluster."),
}  # fmt: skip


class _Submit(Command):
    # Failures of Windlass have one exit code; all others are the script's.
    failure_code = OWN_FAILURE
    option_hints = OPTION_HINTS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Pass everything after `--` or -m MODULE on as it is."""
        divided = divide(args)
        if divided.is_command or divided.is_module:
            args = [*divided.options, "--", *divided.rest]
        left = super().parse_args(ctx, args)
        ctx.params["is_command"] = divided.is_command
        return left

    def explain_option(self, name: str, args: list[str]) -> str:
        """The hint for an unknown option before the script, which may be meant for the script."""
        from windlass.cli.parameters.suggestions import similar

        near = similar(name, [each for option in OPTIONS for each in option.names if each.startswith("--")])
        if near:
            return f"Did you mean {near}? Options of the script follow the script."
        script = next((word for word in args if word.endswith(".py")), "train.py")
        given = next((word for word in args if word.split("=")[0] == name), name)
        rest = args[args.index(given) + 1 :] if given in args else []
        value = rest[:1] if rest and rest[0] != script and "=" not in given and not rest[0].startswith("-") else []
        line = shlex.join(["windlass", "submit", script, given, *value])
        return f"Options of the script follow the script: {escape(line)}"


class _Type(_ParamType):
    """The type of an option, converted by the function in the table of options."""

    def __init__(self, option: Option, completed: _ParamType | None) -> None:
        self.name = option.metavar
        self._option = option
        self._completed = completed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self._option.read is None or not isinstance(value, str):
            return value
        try:
            return self._option.read(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [] if self._completed is None else self._completed.shell_complete(ctx, param, incomplete)


def click_option(option: Option, completed: Mapping[str, _ParamType] = COMPLETED) -> click.Option:
    """The option for click. `completed` has the types, by key, whose values a shell completes."""
    names = [*option.names, option.key]
    if option.read is None:
        return click.Option(names, is_flag=True, help=option.help)
    default = {} if option.is_many or option.default is None else {"default": option.default}
    kind = _Type(option, completed.get(option.key))
    return click.Option(names, type=kind, multiple=option.is_many, metavar=option.metavar, help=option.help, **default)


@click.pass_obj
def _submit(context: CommandContext, /, **values: Any) -> int:
    """Run SCRIPT with its ARGUMENTS on a target: the folder is sent along, the log is shown live, and the exit code is
    the script's (128+n: killed by signal n; 124: time limit; 130: canceled; 125: it could not be run).

    SCRIPT is of Python, or a shell script, which is executed by the program that its first line names, else by sh. It
    may be left out where the run configuration of -c names one. A command that is no script stands behind `--`, and
    finds the programs of the run's environment.

    Options of windlass stand before SCRIPT; everything after it goes to the script as it is.

    Ctrl-C asks: Ctrl-C again cancels the run, Enter leaves it running.

    \b
    windlass submit train.py --alpha 0.1
    windlass submit -e my-exp --detach train.py
    windlass submit --pip scikit-learn train.py
    windlass submit -c gpus --gpus 1 --memory 8G -m trainer.main --epochs 3
    windlass submit -c cluster --nodes 2 -- torchrun train.py
    """
    return watch.submit(context, with_project(values))


submit = _Submit(
    "submit",
    callback=_submit,
    help=_submit.__doc__,
    short_help="Run a script on a target and show what it prints.",
    context_settings={"allow_interspersed_args": False},
    params=[
        *(click_option(option) for option in OPTIONS),
        click.Argument(["script"], type=FILE, required=False),
        click.Argument(["arguments"], nargs=-1, type=FILE),
    ],
)
