"""`windlass status`: the server, the targets and what runs now."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.compute.target_output import print_queue, print_targets
from windlass.cli.context import Call
from windlass.cli.runs.listing import print_runs
from windlass.cli.server.server import home, server_facts, status_of, status_of_named
from windlass.core.sanitize import shown

_RUNS_SHOWN = 10


@click.command("status", cls=Command, short_help="Show the server, the targets and what runs now.")
@click.pass_obj
def status(call: Call) -> None:
    """Show the server, the targets and the runs that have not ended. Starts nothing."""
    found = _server(call)
    if not found["running"]:
        if call.json:
            call.terminal.json({"server": found, "targets": [], "runs": []})
        else:
            call.terminal.line("The server is not running. It starts with the first command that needs it:")
            call.terminal.line("  windlass submit train.py")
        return
    targets = call.get("/targets")["targets"]
    active = call.get("/runs", {"state": "active", "limit": 100})["runs"]
    if call.json:
        call.terminal.json({"server": found, "targets": targets, "runs": active})
    else:
        _print(call, found, targets, active)


def _server(call: Call) -> dict[str, Any]:
    return status_of_named(call) if call.is_remote else status_of(home(call))


def _print(call: Call, found: dict[str, Any], targets: list[Any], active: list[Any]) -> None:
    terminal = call.terminal
    terminal.line(f"Server {terminal.bold(shown(found['url']))}")
    call.facts(server_facts(call, found))
    terminal.line("\nTargets")
    print_targets(call, targets, indent=2)
    queue = [run for run in active if run["state"] == "Queued"]
    if queue:
        terminal.line("")
        print_queue(call, sorted(queue, key=lambda run: str(run["created_at"])), len(queue))
    if active:
        terminal.line("\nRuns")
        print_runs(call, active[:_RUNS_SHOWN], [], indent=2)
        if len(active) > _RUNS_SHOWN:
            terminal.line(terminal.dim("  and more: windlass runs -s active"))
    else:
        terminal.line("\nNothing is running.")
