"""`windlass cost`: node time of runs, and its approximate cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters.types import TARGET
from windlass.cli.submit.options import read_duration
from windlass.core import names
from windlass.core.codec import format_time

_RUNS_SHOWN = 10
_OF_TARGETS = [
    Column("TARGET"), Column("VM SIZE", least=10), Column("RUNS", right=True), Column("NODE TIME", right=True),
    Column("PER HOUR", right=True), Column("COST", right=True),
]  # fmt: skip
_OF_RUNS = [
    Column("RUN"), Column("EXPERIMENT", least=8), Column("TARGET", least=8), Column("STATE"),
    Column("SUBMITTED", right=True), Column("NODE TIME", right=True), Column("COST", right=True),
]  # fmt: skip


@click.command("cost", cls=Command, short_help="Show the node time of runs, and its approximate cost.")
@click.argument("target", type=TARGET, required=False)
@click.option("--since", metavar="TIME", help="Only runs submitted since then: 7d, 12h, 2026-01-31.")
@click.pass_obj
def cost(context: CommandContext, target: str | None, since: str | None) -> None:
    """Show the node time of runs on clusters (all of them, or TARGET), and its approximate cost in US dollars by the
    prices of `windlass compute sizes`.
    """
    query = {"target": names.target_name(target) if target else None, "since": _moment(context, since)}
    found = context.get("/cost", {key: value for key, value in query.items() if value})
    if context.json:
        context.terminal.json(found)
    elif not found["runs"]:
        context.terminal.line("No run had nodes of a cluster.")
    else:
        _print(context, found, None if target else _RUNS_SHOWN)


def _moment(context: CommandContext, since: str | None) -> str | None:
    """Convert --since to a time of the API; a duration counts back from now."""
    if since is None:
        return None
    try:
        return format_time(context.now - timedelta(seconds=read_duration(since)))
    except (ValueError, OverflowError):
        return since


def _print(context: CommandContext, found: dict[str, Any], most: int | None) -> None:
    terminal, runs = context.terminal, found["runs"]
    context.print_table(_OF_TARGETS, [_target_row(row) for row in [*found["targets"], *_total(found["targets"])]])
    terminal.line("\nRuns")
    context.print_table(_OF_RUNS, [_run_row(context, run) for run in runs[:most]], indent=2)
    if most is not None and len(runs) > most:
        terminal.line(terminal.dim(f"  and {len(runs) - most} more: windlass cost TARGET"))


def _total(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sum, as a last row, if there are several targets."""
    if len(targets) < 2:
        return []
    known = [row["cost"] for row in targets if row["cost"] is not None]
    return [
        {
            "target": "in all",
            "runs": sum(row["runs"] for row in targets),
            "node_seconds": sum(row["node_seconds"] for row in targets),
            "cost": sum(known) if known else None,
        }
    ]


def _target_row(row: dict[str, Any]) -> list[str]:
    priority = " (low priority)" if row.get("vm_priority") == "lowpriority" else ""
    size = f"{row['vm_size']}{priority}" if row.get("vm_size") else ""
    price = row.get("price_per_hour")
    return [
        row["target"],
        size,
        str(row["runs"]),
        format.duration(row["node_seconds"]),
        "" if price is None else f"${price:.3f}",
        _dollars(row["cost"]),
    ]


def _run_row(context: CommandContext, run: dict[str, Any]) -> list[str]:
    return [
        format.short_id(run["run"]),
        run["experiment"],
        run["target"],
        run["state"],
        format.ago(run["created_at"], context.now),
        format.duration(run["node_seconds"]),
        _dollars(run["cost"]),
    ]


def _dollars(amount: float | None) -> str:
    if amount is None:
        return "?"
    return f"${amount:.2f}" if amount >= 0.01 or not amount else "<$0.01"
