"""`windlass version`."""

from __future__ import annotations

import click

from windlass._version import __version__
from windlass.cli.command import Command
from windlass.cli.context import CommandContext


@click.command("version", cls=Command, short_help="Print the version.")
@click.pass_obj
def version(context: CommandContext) -> None:
    """Print the version of this command. `windlass server status` shows the server's."""
    if context.json:
        context.terminal.json({"version": __version__})
    else:
        context.terminal.line(f"windlass {__version__}")
