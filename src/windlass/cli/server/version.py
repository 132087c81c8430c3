"""`windlass version`."""

from __future__ import annotations

import click

from windlass._version import __version__
from windlass.cli.command import Command
from windlass.cli.context import Call


@click.command("version", cls=Command, short_help="Print the version.")
@click.pass_obj
def version(call: Call) -> None:
    """Print the version of this command. `windlass server status` tells the server's."""
    if call.json:
        call.terminal.json({"version": __version__})
    else:
        call.terminal.line(f"windlass {__version__}")
