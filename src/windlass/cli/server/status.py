"""`windlass status`: the server, the targets and what runs now."""

from __future__ import annotations

import os
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.compute.target_output import print_queue, print_targets
from windlass.cli.context import CommandContext
from windlass.cli.runs.listing import print_runs
from windlass.cli.server.server import home, named_server_status, private_server_status, server_facts
from windlass.client.config import project_file
from windlass.client.workspace.signed_in import signed_in
from windlass.core.sanitize import escape

_RUNS_SHOWN = 10


@click.command("status", cls=Command, short_help="Show the server, the targets and what runs now.")
@click.pass_obj
def status(context: CommandContext) -> None:
    """Show the server, the targets and the runs that have not ended, and the project file with the defaults of this
    folder if there is one. Starts nothing.
    """
    project = _project()
    found = _server(context)
    if not found["running"]:
        if context.json:
            context.terminal.json({"server": found, "project": project, "targets": [], "runs": []})
        else:
            _print_stopped(context, found)
            _print_project(context, project)
        return
    targets = context.get("/targets")["targets"]
    active = context.get("/runs", {"state": "active", "limit": 100})["runs"]
    if context.json:
        context.terminal.json({"server": found, "project": project, "targets": targets, "runs": active})
    else:
        _print_server(context, found)
        _print_project(context, project)
        _print(context, targets, active)


def _server(context: CommandContext) -> dict[str, Any]:
    return named_server_status(context) if context.is_remote else private_server_status(home(context))


def _project() -> dict[str, Any] | None:
    path = project_file.find()
    return None if path is None else {"file": path, **project_file.read(path).values}


def _print_stopped(context: CommandContext, found: dict[str, Any]) -> None:
    if found["url"]:
        context.terminal.line(f"The server at {escape(found['url'])} does not answer.")
    else:
        context.terminal.line("The server is not running. It starts with the first command that needs it:")
        context.terminal.line("  windlass submit train.py")


def _print_server(context: CommandContext, found: dict[str, Any]) -> None:
    context.terminal.line(f"Server {context.terminal.bold(escape(found['url']))}")
    facts = server_facts(context, found)
    if context.is_remote:
        member = signed_in(context.session)
        facts.append(("Member", f"{escape(member['name'])} ({member['role']})"))
        facts.append(("Workspace", escape(context.workspace_path.rpartition("/")[2])))
    context.print_facts(facts)


def _print_project(context: CommandContext, project: dict[str, Any] | None) -> None:
    """The project file, and the defaults that it sets."""
    if project is None:
        return
    context.terminal.line(f"\nProject {context.terminal.bold(escape(project['file']))}")
    resources = ", ".join(f"{key} {value}" for key, value in project.get("resources", {}).items())
    folder = os.path.dirname(os.path.dirname(project["file"]))
    files = {key: os.path.relpath(project[key], folder) for key in project_file.FILES if key in project}
    values = {**project, **files, "resources": resources}
    names = [key for key in project_file.KEYS if values.get(key)]
    context.print_facts((key.replace("_", " ").capitalize(), escape(str(values[key]))) for key in names)


def _print(context: CommandContext, targets: list[Any], active: list[Any]) -> None:
    terminal = context.terminal
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
