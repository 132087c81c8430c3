"""`windlass status`: the server, the targets and what runs now."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.compute.target_output import print_queue, print_targets
from windlass.cli.context import CommandContext
from windlass.cli.runs.listing import print_runs
from windlass.cli.server.server import home, named_server_status, private_server_status, server_facts
from windlass.core.sanitize import escape

_RUNS_SHOWN = 10


@click.command("status", cls=Command, short_help="Show the server, the targets and what runs now.")
@click.pass_obj
def status(context: CommandContext) -> None:
    """Show the server, the targets and the runs that have not ended. Starts nothing."""
    found = _server(context)
    if not found["running"]:
        if context.json:
            context.terminal.json({"server": found, "targets": [], "runs": []})
        else:
            context.terminal.line("The server is not running. It starts with the first command that needs it:")
            context.terminal.line("  windlass submit train.py")
        return
    targets = context.get("/targets")["targets"]
    active = context.get("/runs", {"state": "active", "limit": 100})["runs"]
    if context.json:
        context.terminal.json({"server": found, "targets": targets, "runs": active})
    else:
        _print(context, found, targets, active)


def _server(context: CommandContext) -> dict[str, Any]:
    return named_server_status(context) if context.is_remote else private_server_status(home(context))


def _print(context: CommandContext, found: dict[str, Any], targets: list[Any], active: list[Any]) -> None:
    terminal = context.terminal
    terminal.line(f"Server {terminal.bold(escape(found['url']))}")
    context.print_facts(server_facts(context, found))
    terminal.line("\nTargets")
    print_targets(context, targets, indent=2)
    queue = [run for run in active if run["state"] == "Queued"]
    if queue:
        terminal.line("")
        print_queue(context, sorted(queue, key=lambda run: str(run["created_at"])), len(queue))
    if active:
        terminal.line("\nRuns")
        print_runs(context, active[:_RUNS_SHOWN], [], indent=2)
        if len(active) > _RUNS_SHOWN:
            terminal.line(terminal.dim("  and more: windlass runs -s active"))
    else:
        terminal.line("\nNothing is running.")
