"""`windlass python`: Python with `azureml` on its path."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.azureml import launch
from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import File


class PassThroughCommand(Command):
    """A command that passes its arguments to another program, after options of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {
            name: option for option in self.get_params(ctx) if isinstance(option, click.Option) for name in option.opts
        }
        at = 0
        while at < len(args) and (option := own.get(args[at].partition("=")[0])) is not None:
            at += 1 if option.is_flag or "=" in args[at] else 2
        return super().parse_args(ctx, [*args[:at], "--", *args[at:]])


@click.command("python", cls=PassThroughCommand, short_help="Run Python with `azureml` on its path.")
@click.option("--python", metavar="PATH", type=File("file"), help="The Python to run. [default: see below]")
@click.argument("words", nargs=-1, type=File("file"), metavar="[FILE | -m MODULE | -c CODE] [ARGUMENT]...")
@click.pass_obj
def python(context: CommandContext, python: str | None, words: tuple[str, ...]) -> Any:
    """Run a script, a module, code, or an interactive Python, where `import azureml` and `import windlass` work.

    It is the Python of the active environment (virtual or conda), else the one that windlass is installed in;
    WINDLASS_PYTHON names another one. Everything after its own options goes to Python: windlass python -u train.py

    \b
    windlass python train.py --epochs 3
    windlass python -m pytest
    """
    context.export_options()
    launch.start_python(python, words)
