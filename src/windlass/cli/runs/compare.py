"""`windlass compare`: runs side by side, with the differences marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column, Paint
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.cli.runs.show import environment_of


@click.command("compare", cls=Command, short_help="Compare runs: parameters, metrics, differences.")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN RUN...")
@click.option("-d", "--differences", is_flag=True, help="Show only what differs.")
@click.pass_obj
def compare(context: CommandContext, runs: tuple[str, ...], differences: bool) -> None:
    """Compare runs side by side: parameters, metrics, files. What differs is marked with '*'."""
    ids = run_reference.find_all(context, runs)
    if len(ids) < 2:
        raise click.UsageError("Comparing needs two different runs.")
    found = [_facts(context, run_id) for run_id in ids]
    sections = {part: _rows([facts[part] for facts in found]) for part in ("run", "parameters", "metrics", "files")}
    if context.json:
        context.terminal.json({"runs": ids, **sections})
    else:
        _print(context, ids, sections, differences)


def _facts(context: CommandContext, run_id: str) -> dict[str, dict[str, Any]]:
    run = context.get(f"/runs/{run_id}")
    metrics = context.get(f"/runs/{run_id}/metrics", {"last": "true"})["metrics"]
    files = context.get(f"/runs/{run_id}/files")["files"]
    spec = run.get("spec") or {}
    return {
        "run": {
            "state": run["status"],
            "experiment": run["experiment"],
            "target": run.get("target"),
            "script": spec.get("script"),
            "environment": environment_of(spec.get("environment") or {}),
            "snapshot": (run.get("snapshot") or "")[:12],
            "took": format.duration(format.took(run, context.now)),
            "exit code": run.get("exit_code"),
        },
        "parameters": parameters(spec.get("arguments") or ()),
        "metrics": {name: _last(metric) for name, metric in sorted(metrics.items())},
        "files": {f["path"]: f.get("digest") or f["size"] for f in files if f["path"].startswith("outputs/")},
    }


def _last(metric: dict[str, Any]) -> Any:
    if metric.get("kind") not in (None, "", "scalar"):
        return f"({metric['kind'].replace('_', ' ')})"
    return metric["values"][-1]["v"] if metric["values"] else None


def parameters(arguments: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Arguments by name: `--alpha 0.1`, `--alpha=0.1` and `-a 0.1`; the rest by position."""
    named: dict[str, Any] = {}
    position = 0
    rest = list(arguments)
    while rest:
        argument = str(rest.pop(0))
        if not _is_option(argument):
            position += 1
            named[f"argument {position}"] = argument
            continue
        name, equals, value = argument.partition("=")
        if not equals and rest and not _is_option(str(rest[0])):
            value = str(rest.pop(0))
        named[name] = value if value or equals else True
    return named


def _is_option(argument: str) -> bool:
    """Whether it begins like an option and is not a negative number."""
    return len(argument) > 1 and argument[0] == "-" and not (argument[1].isdigit() or argument[1] == ".")


def _rows(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for column in columns for name in column)
    rows = []
    for name in names:
        values = [column.get(name) for column in columns]
        rows.append({"name": name, "values": values, "differs": any(_differ(values[0], v) for v in values[1:])})
    return rows


def _differ(one: Any, other: Any) -> bool:
    both_nan = one != one and other != other
    return bool(one != other and not both_nan)


def _print(
    context: CommandContext, ids: list[str], sections: dict[str, list[dict[str, Any]]], differences: bool
) -> None:
    """One table, so that the runs stand below each other in all sections."""
    rows: list[list[str]] = []
    for title, found in sections.items():
        kept = [row for row in found if row["differs"] or not differences]
        if kept:
            rows.append([title.capitalize(), *("" for _ in ids)])
            rows += [_cells(title, row) for row in kept]
    if not rows:
        context.terminal.line("No differences.")
        return
    columns = [Column("", least=16, paint=_painter(context, sections))]
    columns += [Column(format.short_id(run_id), least=9) for run_id in ids]
    context.print_table(columns, rows)


def _painter(context: CommandContext, sections: Iterable[str]) -> Callable[[str], Paint | None]:
    titles = {title.capitalize() for title in sections}

    def choose(cell: str) -> Paint | None:
        if cell in titles:
            return context.terminal.bold
        return (lambda text: context.terminal.paint(text, "yellow")) if cell.startswith("*") else None

    return choose


def _cells(title: str, row: dict[str, Any]) -> list[str]:
    show = _file if title == "files" else format.number
    mark = "*" if row["differs"] else " "
    return [f"{mark} {row['name']}", *("-" if value in (None, "") else show(value) for value in row["values"])]


def _file(value: Any) -> str:
    return value[:12] if isinstance(value, str) else format.size(value)
