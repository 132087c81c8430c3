"""`windlass exec`: open a shell where a run is, or run a command there."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.errors import OWN_FAILURE
from windlass.cli.parameters.types import RUN


class CommandThere(Command):
    """A command whose exit code is that of a command elsewhere."""

    failure_code = OWN_FAILURE

    def explain_option(self, name: str, args: list[str]) -> str:
        return f"Put -- before the command: windlass {self.name} {' '.join(self.collect_usage_words())} -- COMMAND"

    def collect_usage_words(self) -> list[str]:
        return [str(each.make_metavar(click.Context(self))) for each in self.params if each.name in ("run", "target")]


TTY = click.option(
    "--tty/--no-tty",
    default=None,
    help="Give the command a terminal, or none. By default it has one if standard input and output are terminals.",
)


@click.command("exec", cls=CommandThere, short_help="Open a shell where a run is, or run a command there.")
@click.argument("run", type=RUN, metavar="RUN")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@TTY
@click.option("--rank", type=click.IntRange(0), metavar="N", help="With the variables of this rank of the run.")
@click.pass_obj
def exec(context: CommandContext, run: str, command: tuple[str, ...], tty: bool | None, rank: int | None) -> int:
    """Open a shell where RUN is, or run a command there: in its folder, with its variables, limits and interpreter, and
    in its container if it has one. The run must be running; its end ends the shell.

    Without a terminal, input and output are passed on byte by byte. The exit code is the command's. In a terminal,
    Enter, then ~. ends the connection.

    \b
    windlass exec @last
    windlass exec @last -- nvidia-smi
    windlass exec @last -- tar c outputs > outputs.tar
    """
    from windlass.cli.parameters import run_reference
    from windlass.cli.runs import remote_command

    run_id = run_reference.find(context, run)
    return remote_command.run(context, f"runs/{run_id}", command, tty, rank)
