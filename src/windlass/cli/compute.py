"""`windlass compute`: the targets of the workspace."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli import words
from windlass.cli.call import Call
from windlass.cli.command import Command, Group
from windlass.cli.errors import BY_CODE
from windlass.cli.escapes import one_line, shown
from windlass.cli.table import Column
from windlass.core import names


@click.group("compute", cls=Group, short_help="List, show, check and change targets.")
def compute() -> None:
    """Targets are named places to run. `local` is this machine and is always there."""


@compute.command("list", cls=Command, short_help="List the targets.")
@click.pass_obj
def list_targets(call: Call) -> None:
    """List the targets of the workspace, and how busy they are."""
    found = call.get("/targets")["targets"]
    if call.json:
        call.terminal.json({"targets": found})
    else:
        print_targets(call, found)


def print_targets(call: Call, targets: list[dict[str, Any]], indent: int = 0) -> None:
    columns = [
        Column("TARGET", least=8),
        Column("KIND"),
        Column("SLOTS", right=True),
        Column("RUNNING", right=True),
        Column("QUEUED", right=True),
    ]
    call.table(columns, [_row(target) for target in targets], indent)


def _row(target: dict[str, Any]) -> list[str]:
    return [
        target["name"],
        target["kind"],
        *(str(target.get(key) or 0) for key in ("slots", "active_runs", "queued_runs")),
    ]


@compute.command("show", cls=Command, short_help="Show a target.")
@click.argument("name")
@click.pass_obj
def show_target(call: Call, name: str) -> None:
    """Show the target NAME: its kind, configuration and load."""
    found = call.get(f"/targets/{names.target_name(name)}")
    if call.json:
        call.terminal.json(found)
        return
    _print(call, found)


def _print(call: Call, target: dict[str, Any]) -> None:
    call.terminal.line(f"Target {call.terminal.bold(shown(target['name']))}")
    call.facts(
        [
            ("Kind", target["kind"]),
            ("Slots", str(target.get("slots") or "")),
            ("Running", str(target.get("active_runs", ""))),
            ("Queued", str(target.get("queued_runs", ""))),
            *((shown(str(key)), shown(str(value))) for key, value in (target.get("config") or {}).items()),
        ]
    )


@compute.command("check", cls=Command, short_help="Check that a target could run something now.")
@click.argument("name", default="local")
@click.pass_obj
def check_target(call: Call, name: str) -> int:
    """Check that the target NAME (default: local) could run something now, and what it offers."""
    found = call.post(f"/targets/{names.target_name(name)}/check")
    if call.json:
        call.terminal.json(found)
    else:
        word = call.terminal.paint("ok", "green") if found["ok"] else call.terminal.paint("not ok", "red")
        call.terminal.line(f"{shown(name)}: {word}  {one_line(found['message'])}".rstrip())
        call.facts(
            (_label(key), _offer(key, value)) for key, value in (found.get("offers") or {}).items() if key != "boot_id"
        )
    return 0 if found["ok"] else BY_CODE["target_error"]


def _label(key: str) -> str:
    return shown(key.removesuffix("_mb").replace("_", " "))


def _offer(key: str, value: Any) -> str:
    if key.endswith("_mb") and isinstance(value, (int, float)):
        return words.size(value * 1e6)
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(str(item)) for item in value)
    return shown(str(value))


@compute.command("update", cls=Command, short_help="Change a target.")
@click.argument("name")
@click.option("--slots", type=click.IntRange(1, 10_000), required=True, metavar="N", help="How many runs at once.")
@click.pass_obj
def update_target(call: Call, name: str, slots: int) -> None:
    """Change the target NAME: how many runs it takes at once. Runs that are going on stay."""
    found = call.patch(f"/targets/{names.target_name(name)}", {"slots": slots})
    if call.json:
        call.terminal.json(found)
    else:
        _print(call, found)
