"""`windlass open`: the page of a run, in a browser that is signed in."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import RUN


@click.command("open", cls=Command, short_help="Open the page of a run in a browser, signed in.")
@click.argument("run", type=RUN, required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the address instead of opening a browser.")
@click.pass_obj
def open(context: CommandContext, run: str | None, only_print: bool) -> None:
    """Open the page of a run in a browser that is signed in with your token; without RUN, the workspace's page.

    Where there is no display, it prints the address, and the line for an SSH tunnel. The address is good once, within
    two minutes.
    """
    from windlass.cli.output import browser
    from windlass.cli.parameters import run_reference

    path = context.workspace_path
    browser.show(context, path if run is None else f"{path}/runs/{run_reference.find(context, run)}", only_print)
