"""`windlass ssh`: open a shell on the machine of a target."""

from __future__ import annotations

import click

from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import TARGET
from windlass.cli.runs.exec import TTY, CommandThere


@click.command("ssh", cls=CommandThere, short_help="Open a shell on the machine of a target.")
@click.argument("target", type=TARGET, metavar="TARGET")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@TTY
@click.pass_obj
def ssh(context: CommandContext, target: str, command: tuple[str, ...], tty: bool | None) -> int:
    """Open a shell on the machine of TARGET, or run a command there, as the account that its runs have. For owners of
    the workspace.

    It goes through the server: no key or address of the machine is needed here.

    \b
    windlass ssh gpu-box
    windlass ssh gpu-box -- df -h
    """
    from windlass.cli.runs import remote_command

    return remote_command.run(context, f"targets/{target}", command, tty)
