"""`windlass runs`: the list of runs."""

from __future__ import annotations

import re
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters.suggestions import did_you_mean
from windlass.cli.parameters.types import EXPERIMENT, MEMBER, TARGET
from windlass.client.runs.moments import as_text
from windlass.client.workspace.signed_in import signed_in
from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape

_PAGE = 1000
_SERVER_TOKEN = "owner"  # the name of the server's own token, which its only user has on a private server
# Spelled out, since importing them takes longer than the rest of this command; a test compares.
STATES = (
    "active", "NotStarted", "Queued", "Starting", "Provisioning", "Preparing", "Running", "Finalizing", "NotResponding",
    "Completed", "Failed", "Canceled",
)  # fmt: skip
_METRIC = re.compile(r"-?metric\.(.+?)\s*(?:[<>=!]+\s*[^<>=!\s]+\s*)?\Z")


@click.command("runs", cls=Command, short_help="List runs.")
@click.option("-e", "--experiment", type=EXPERIMENT, metavar="NAME", help="Only runs of this experiment.")
@click.option("-s", "--state", "states", type=click.Choice(STATES, case_sensitive=False), multiple=True,
              metavar="STATE", help="Only runs in this state; active: not ended. Repeatable.")  # fmt: skip
@click.option("-c", "--target", type=TARGET, metavar="NAME", help="Only runs on this target.")
@click.option("-t", "--tag", "tags", multiple=True, metavar="KEY[=VALUE]", help="Only runs with this tag. Repeatable.")
@click.option("-w", "--where", multiple=True, metavar="'metric.NAME<VALUE'",
              help="Only runs whose last value of a metric fits: < <= > >= = !=. Repeatable.")  # fmt: skip
@click.option("--mine", is_flag=True, help="Only runs that you submitted.")
@click.option("--by", "members", type=MEMBER, multiple=True, metavar="NAME",
              help="Only runs that this member submitted. Repeatable.")  # fmt: skip
@click.option("--search", metavar="TEXT", help="Only runs with this text in id, name, experiment, arguments or tags.")
@click.option("--since", metavar="TIME", help="Only runs submitted since then: 30m, 3h, 2d (ago), 2026-01-31, or "
              "2026-01-31T12:00:00Z.")  # fmt: skip
@click.option("--until", metavar="TIME", help="Only runs submitted until then; as --since.")
@click.option("--archived", is_flag=True, help="Only archived runs, which other lists leave out.")
@click.option("--sort", metavar="KEY", help="created_at, started_at, duration, name, state, experiment, metric.NAME "
              "...; -KEY for descending. [default: -created_at]")  # fmt: skip
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Show this metric. Repeatable.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="How many.")
@click.option("-a", "--all", "everything", is_flag=True, help="All runs, also child runs and archived ones.")
@click.pass_obj
def runs(context: CommandContext, /, limit: int, everything: bool, **filters: Any) -> None:
    """List runs, the newest first.

    \b
    windlass runs -s active
    windlass runs --mine --since 2d
    windlass runs -e demo --where 'metric.loss<0.1' --sort metric.loss
    """
    shown_metrics = _metrics_to_show(filters)
    query = _query(context, filters, shown_metrics)
    if not everything:
        query["parent"] = "none"
    elif not filters["archived"]:
        query["archived"] = "all"
    found, more = _read(context, query, None if everything else limit)
    _refuse_unknown(context, filters, shown_metrics, found)
    if context.json:
        context.terminal.json({"runs": found, "more": more})
    elif not found:
        context.terminal.line(_nothing(filters))
    else:
        print_runs(context, found, shown_metrics)
        if more:
            context.terminal.note(f"The first {len(found)}; -n {len(found) * 5} or --all shows more.")


def _refuse_unknown(
    context: CommandContext, filters: dict[str, Any], metrics: list[str], found: list[dict[str, Any]]
) -> None:
    """Refuse an unknown experiment, target or metric: an empty list or column would hide a mistyped name."""
    if not found:
        _refuse_unknown_experiment(context, filters["experiment"])
        if filters["target"]:
            _refuse_unknown_target(context, filters["target"])
    for name in metrics:
        if not any(name in (run.get("metrics") or {}) for run in found):
            _refuse_unknown_metric(context, name)


def _refuse_unknown_experiment(context: CommandContext, name: str | None) -> None:
    known = [each["name"] for each in context.get("/experiments")["experiments"]] if name else []
    if name and known and name not in known:
        hint = did_you_mean(name, known, "Type `windlass experiments` to list them.")
        raise NotFound(f"There is no experiment {escape(name)}.", hint)


def _refuse_unknown_target(context: CommandContext, name: str) -> None:
    """Called only if no runs were found, since a target that was detached still has runs."""
    known = [each["name"] for each in context.get("/targets")["targets"]]
    if name not in known:
        raise NotFound(
            f"There is no target {escape(name)}.", did_you_mean(name, known, "Type `windlass compute list`.")
        )


def _refuse_unknown_metric(context: CommandContext, name: str) -> None:
    """Refuse a metric that no run has, or that has no numbers. Sorted by the metric, a run that has it comes first."""
    query = {"sort": f"metric.{name}", "metrics": [name], "limit": 1}
    [*first] = context.get("/runs", query)["runs"]
    if not first or name in (first[0].get("metrics") or {}):
        return
    newest = context.get("/runs", {"limit": 1})["runs"][0]
    known = context.get(f"/runs/{newest['id']}/metrics", {"last": "true"})["metrics"]
    short = format.short_id(newest["id"])
    if name in known:
        message = f"{escape(name)} is a {known[name]['kind'].replace('_', ' ')}, and lists show numbers."
        raise InvalidRequest(message, f"Type `windlass metrics {short} {escape(name)}` to see it.")
    hint = did_you_mean(name, known, f"Type `windlass metrics {short}` to see those of the newest run.")
    raise NotFound(f"No run has a metric {escape(name)}.", hint)


def _metrics_to_show(filters: dict[str, Any]) -> list[str]:
    """The metrics asked for, and those that are filtered or sorted by."""
    named = list(filters["metrics"])
    for text in (*filters["where"], filters["sort"] or ""):
        found = _METRIC.match(text.strip())
        if found:
            named.append(found.group(1).strip())
    return list(dict.fromkeys(named))


def _query(context: CommandContext, filters: dict[str, Any], metrics: list[str]) -> dict[str, Any]:
    query = {
        "experiment": filters["experiment"],
        "state": list(filters["states"]),
        "target": filters["target"],
        "tag": [tag.replace("=", ":", 1) for tag in filters["tags"]],
        "where": list(filters["where"]),
        "search": filters["search"],
        "since": filters["since"] and as_text(filters["since"], context.now),
        "until": filters["until"] and as_text(filters["until"], context.now),
        "submitted_by": [*filters["members"], *([signed_in(context.session)["name"]] if filters["mine"] else [])],
        "archived": "only" if filters["archived"] else None,
        "sort": filters["sort"],
        "metrics": metrics,
    }
    return {key: value for key, value in query.items() if value}


def _read(context: CommandContext, query: dict[str, Any], limit: int | None) -> tuple[list[dict[str, Any]], bool]:
    """As many runs as asked for, page by page, and whether there are more."""
    runs: list[dict[str, Any]] = []
    cursor: str | None = None
    while limit is None or len(runs) < limit:
        page_query = {**query, "limit": _PAGE if limit is None else min(_PAGE, limit - len(runs))}
        if cursor:
            page_query["cursor"] = cursor
        page = context.get("/runs", page_query)
        runs += page["runs"]
        cursor = page.get("next")
        if not cursor:
            return runs, False
    return runs, True


def _nothing(filters: dict[str, Any]) -> str:
    if any(filters.values()):
        return "No such runs. All of them: windlass runs --all"
    return "No runs yet. Start one: windlass submit train.py"


def print_runs(context: CommandContext, runs: list[dict[str, Any]], metrics: list[str], indent: int = 0) -> None:
    terminal = context.terminal
    columns = [
        Column("RUN", paint=lambda _: terminal.bold),
        Column("EXPERIMENT", least=8),
        Column("NAME", least=6),
        Column("TARGET", least=5),
        Column("STATE", paint=lambda state: lambda cell: terminal.state(cell, state)),
        *(Column(name, right=True, least=6) for name in metrics),
        Column("BY", least=5),
        Column("SUBMITTED", right=True),
        Column("TOOK", right=True),
    ]
    has_members = any(run["submitted_by"] not in ("", _SERVER_TOKEN) for run in runs)
    context.print_table(columns, [_row(context, run, metrics, has_members) for run in runs], indent)


def _row(context: CommandContext, run: dict[str, Any], metrics: list[str], has_members: bool) -> list[str]:
    values = run.get("metrics") or {}
    return [
        format.short_id(run["id"]),
        run["experiment"],
        run["name"],
        run["target"],
        run["status"],
        *(format.number(values.get(name)) for name in metrics),
        run["submitted_by"] if has_members else "",  # a column without content is left out
        format.ago(run["created_at"], context.now),
        format.duration(format.took(run, context.now)),
    ]
