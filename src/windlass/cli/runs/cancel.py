"""`windlass cancel`: ask runs to stop."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import Call
from windlass.cli.output import format
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN


class _Cancel(Command):
    absent_options = dict.fromkeys(
        ("--all", "-a"), "Name the runs: `windlass runs -s active` lists those that have not ended."
    )


@click.command("cancel", cls=_Cancel, short_help="Cancel runs.")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@click.pass_obj
def cancel(call: Call, runs: tuple[str, ...]) -> None:
    """Cancel each RUN: its script is asked to stop (SIGTERM), and after a grace period everything it started is killed.

    Runs that have ended stay as they are.
    """
    ids = run_reference.find_all(call, runs)
    found = [call.post(f"/runs/{run_id}/cancel") for run_id in ids]
    if call.json:
        call.terminal.json({"runs": found})
        return
    for run in found:
        call.terminal.line(f"{format.short_id(run['id'])}  {_answer(run)}")


def _answer(run: dict[str, Any]) -> str:
    if run["status"] == "CancelRequested":
        return "is asked to stop"
    if run["state"] == "Canceled":
        return "canceled"
    return f"had ended already: {run['status']}"
