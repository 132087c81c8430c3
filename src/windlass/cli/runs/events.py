"""`windlass events`: the events of a run."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.core.sanitize import one_line


@click.command("events", cls=Command, short_help="List the events of a run.")
@click.argument("run", type=RUN)
@click.pass_obj
def events(context: CommandContext, run: str) -> None:
    """List the events of RUN: every change of its state, when and why."""
    run_id = run_reference.find(context, run)
    found = _read(context, run_id)
    if context.json:
        context.terminal.json({"run": run_id, "events": found})
        return
    terminal = context.terminal
    columns = [
        Column("TIME"),
        Column("EVENT", paint=lambda state: lambda cell: terminal.state(cell, state)),
        Column("WHY", wraps=True),
    ]
    context.print_table(columns, [[format.time_of_day(event["at"]), _what(event), _why(event)] for event in found])


def _read(context: CommandContext, run_id: str) -> list[dict[str, Any]]:
    """Read all events, page by page."""
    found: list[dict[str, Any]] = []
    while page := context.get(f"/runs/{run_id}/events", {"after": found[-1]["seq"] if found else 0})["events"]:
        found += page
    return found


def _what(event: dict[str, Any]) -> str:
    return str(event.get("state") or event["kind"].replace("_", " "))


def _why(event: dict[str, Any]) -> str:
    reason = (event.get("reason") or "").replace("_", " ")
    return one_line(event.get("message") or reason)
