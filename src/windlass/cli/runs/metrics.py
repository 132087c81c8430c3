"""`windlass metrics`: the metrics of a run."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.core.errors import NotFound
from windlass.core.sanitize import escape

SUMMARY_COLUMNS = (
    Column("NAME"),
    Column("LAST", right=True, least=8),
    Column("MIN", right=True),
    Column("MAX", right=True),
    Column("POINTS", right=True),
)


@click.command("metrics", cls=Command, short_help="Show the metrics of a run.")
@click.argument("run", type=RUN)
@click.argument("name", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Every value as CSV: name, index, step, time, value.")
@click.pass_obj
def metrics(context: CommandContext, run: str, name: str | None, as_csv: bool) -> None:
    """Show the metrics of RUN, or every value of the metric NAME."""
    run_id = run_reference.find(context, run)
    asked = {"name": name} if name else None if as_csv or context.json else {"last": "true"}
    found = context.get(f"/runs/{run_id}/metrics", asked)["metrics"]
    for each, metric in sorted(found.items()):
        if metric.get("skipped"):
            context.terminal.note(f"{format.count(metric['skipped'], 'value')} of {escape(each)} cannot be read.")
    if name and name not in found:
        raise NotFound(
            f"Run {run_id} has no metric {name!r}.", f"windlass metrics {format.short_id(run_id)} lists them."
        )
    if as_csv:
        _print_csv(found)
    elif context.json:
        context.terminal.json({"run": run_id, "metrics": found})
    elif not found:
        context.terminal.line("No metrics. A script logs them: Run.get_context().log('loss', 0.1)")
    elif name:
        _print_series(context, found[name])
    else:
        context.print_table(SUMMARY_COLUMNS, summary_rows(found))


def summary_rows(found: dict[str, Any]) -> list[list[str]]:
    return [_summary(name, metric) for name, metric in sorted(found.items())]


def _summary(name: str, metric: dict[str, Any]) -> list[str]:
    if metric.get("kind") not in (None, "", "scalar"):
        return [name, _kind(metric["kind"]), "", "", str(metric["count"])]
    several = metric["count"] > 1 and metric.get("min") is not None
    return [
        name,
        format.number(metric["values"][-1]["v"]) if metric["values"] else "",
        format.number(metric["min"]) if several else "",
        format.number(metric["max"]) if several else "",
        str(metric["count"]),
    ]


def _kind(kind: str) -> str:
    return f"({kind.replace('_', ' ')})"


def _print_series(context: CommandContext, metric: dict[str, Any]) -> None:
    rows = [
        [str(index), _text(point.get("s")), format.date_and_time(point.get("t")), _text(point["v"])]
        for index, point in enumerate(metric["values"])
    ]
    columns = [Column("INDEX", right=True), Column("STEP", right=True), Column("TIME"), Column("VALUE", least=10)]
    context.print_table(columns, rows)


def _text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        import json

        return json.dumps(value)
    return format.number(value)


def _print_csv(found: dict[str, Any]) -> None:
    import csv
    import json
    import sys

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["name", "index", "step", "time", "value"])
    for name, metric in sorted(found.items()):
        for index, point in enumerate(metric["values"]):
            value = point["v"]
            text = json.dumps(value) if isinstance(value, (dict, list)) else value
            writer.writerow([name, index, point.get("s"), point.get("t"), text])
