"""`windlass cancel`: cancel runs."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN


class _Cancel(Command):
    option_hints = dict.fromkeys(
        ("--all", "-a"), "Name the runs: `windlass runs -s active` lists those that have not ended."
    )


@click.command("cancel", cls=_Cancel, short_help="Cancel runs.")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@click.pass_obj
def cancel(context: CommandContext, runs: tuple[str, ...]) -> None:
    """Cancel each RUN: its script is asked to stop (SIGTERM), and after a grace period everything it started is killed.

    Runs that have ended stay as they are.
    """
    ids = run_reference.find_all(context, runs)
    found = [context.post(f"/runs/{run_id}/cancel") for run_id in ids]
    if context.json:
        context.terminal.json({"runs": found})
        return
    for run in found:
        context.terminal.line(f"{format.short_id(run['id'])}  {_answer(run)}")


def _answer(run: dict[str, Any]) -> str:
    if run["status"] == "CancelRequested":
        return "is asked to stop"
    if run["state"] == "Canceled":
        return "canceled"
    return f"had ended already: {run['status']}"
