"""`windlass studio`: the web pages of the server, in a browser that is signed in."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext


@click.command("studio", cls=Command, short_help="Open the studio in a browser, signed in.")
@click.option("--print", "only_print", is_flag=True, help="Print the address instead of opening a browser.")
@click.pass_obj
def studio(context: CommandContext, only_print: bool) -> None:
    """Open the studio, the web pages of the server, in a browser that is signed in with your token.

    Where there is no display, it prints the address, and the line for an SSH tunnel. The address is good once, within
    two minutes.
    """
    from windlass.cli.output import browser

    browser.show(context, context.workspace_path, only_print)
