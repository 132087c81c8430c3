"""`windlass events`: the story of a run."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import Call
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.core.sanitize import one_line


@click.command("events", cls=Command, short_help="Tell the story of a run.")
@click.argument("run", type=RUN)
@click.pass_obj
def events(call: Call, run: str) -> None:
    """Tell the story of RUN: every change of its state, when and why."""
    run_id = run_reference.find(call, run)
    found = _read(call, run_id)
    if call.json:
        call.terminal.json({"run": run_id, "events": found})
        return
    terminal = call.terminal
    columns = [
        Column("TIME"),
        Column("EVENT", paint=lambda state: lambda cell: terminal.state(cell, state)),
        Column("WHY", wraps=True),
    ]
    call.table(columns, [[format.clock(event["at"]), _what(event), _why(event)] for event in found])


def _read(call: Call, run_id: str) -> list[dict[str, Any]]:
    """The whole story; the server tells it in pages."""
    found: list[dict[str, Any]] = []
    while page := call.get(f"/runs/{run_id}/events", {"after": found[-1]["seq"] if found else 0})["events"]:
        found += page
    return found


def _what(event: dict[str, Any]) -> str:
    return str(event.get("state") or event["kind"].replace("_", " "))


def _why(event: dict[str, Any]) -> str:
    reason = (event.get("reason") or "").replace("_", " ")
    return one_line(event.get("message") or reason)
