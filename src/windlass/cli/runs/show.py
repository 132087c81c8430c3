"""`windlass show`: one run with its state, metrics and files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.cli.runs.metrics import SUMMARY_COLUMNS, summary_rows
from windlass.client.runs.labels import RERUN_OF
from windlass.core.sanitize import escape, one_line

_FILES_SHOWN = 12
_REPLACED = "replaced."  # prefix of the properties that record replacements in the environment


@click.command("show", cls=Command, short_help="Show a run: state, metrics, files.")
@click.argument("run", type=RUN)
@click.pass_obj
def show(context: CommandContext, run: str) -> None:
    """Show a run: its state and why, what was run where, its metrics and files."""
    run_id = run_reference.find(context, run)
    found = context.get(f"/runs/{run_id}")
    metrics = context.get(f"/runs/{run_id}/metrics", {"last": "true"})["metrics"]
    files = context.get(f"/runs/{run_id}/files")["files"]
    if context.json:
        context.terminal.json({**found, "metrics": metrics, "files": files})
        return
    _print_head(context, found)
    _print_metrics(context, metrics)
    _print_files(context, files)
    _print_next(context, found, files)


def _print_head(context: CommandContext, run: dict[str, Any]) -> None:
    terminal, now = context.terminal, context.now
    dot = terminal.symbol(" · ", ", ")
    properties: dict[str, Any] = run.get("properties") or {}
    replaced = {key: text for key, text in properties.items() if key.startswith(_REPLACED)}
    others = {key: text for key, text in properties.items() if key not in replaced and key != RERUN_OF}
    terminal.line(f"Run {terminal.bold(escape(run['id']))}")
    context.print_facts(
        [
            ("State", terminal.state(run["status"])),
            ("Why", _why(run)),
            ("Name", escape(run.get("name") or "")),
            ("About", one_line(run.get("description") or "")),
            ("Experiment", f"{escape(run['experiment'])}{dot}number {run['number']}"),
            ("Parent", escape(run.get("parent") or "")),
            ("Rerun of", escape(properties.get(RERUN_OF) or "")),
            ("Target", escape(run.get("target") or "")),
            *(("Has", share) for share in allocation_of(run.get("allocation") or ())),
            ("Command", escape(command_of(run.get("spec") or {}))),
            ("Python", escape(environment_of((run.get("spec") or {}).get("environment") or {}))),
            *(("Replaced", escape(text)) for text in replaced.values()),
            ("Submitted", format.at(run["created_at"], now) + _by(run)),
            ("Started", format.at(run.get("started_at"), now)),
            ("Ended", format.at(run.get("ended_at"), now)),
            ("Archived", format.at(run.get("archived_at"), now)),
            ("Took", format.duration(format.took(run, now))),
            ("Attempt", _attempts(run)),
            ("Used", _usage(run.get("usage") or {}, dot)),
            ("Tags", pairs_of(run.get("tags") or {})),
            ("Properties", pairs_of(others)),
            ("Page", run.get("url") or ""),
        ]
    )


def _why(run: dict[str, Any]) -> str:
    if run["state"] in ("Completed", "Running"):
        return ""
    error = run.get("error") or {}
    return one_line(run.get("message") or error.get("message") or "")


def _attempts(run: dict[str, Any]) -> str:
    """The number of the attempt, and how earlier attempts ended; empty for the first."""
    number = run.get("attempt", 1)
    earlier = [each for each in run.get("attempts") or () if each["number"] < number]
    ends = ", ".join(f"{each['number']}: {_end_of(each)}" for each in earlier)
    return "" if number == 1 else f"{number} ({ends})" if ends else str(number)


def _end_of(attempt: dict[str, Any]) -> str:
    if attempt["reason"] == "exited":
        return f"exit code {attempt['exit_code']}"
    return one_line((attempt["reason"] or "").replace("_", " "))


def _by(run: dict[str, Any]) -> str:
    return f" by {escape(run['submitted_by'])}" if run.get("submitted_by") else ""


def command_of(spec: dict[str, Any]) -> str:
    """The command of a run, quoted for a shell."""
    if spec.get("command"):
        return shlex.join("python" if word == "{python}" else word for word in spec["command"])
    return shlex.join([spec["script"], *spec.get("arguments", ())]) if spec.get("script") else ""


def allocation_of(shares: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The CPUs, memory and GPUs that a run has on each of its nodes, as far as known."""
    for share in shares:
        gpus = ", ".join(map(str, share["gpus"]))
        parts = [
            f"{share['cores']:g} cores" if share["cores"] else "",
            f"{format.size(share['memory_mb'] * 1e6)} memory" if share["memory_mb"] else "",
            f"GPU {gpus}" if gpus else "",
        ]
        said = ", ".join(filter(None, parts))
        if said or share["node"]:
            yield escape(f"{share['node']}: {said}" if share["node"] and said else share["node"] or said)


def environment_of(environment: dict[str, Any]) -> str:
    if environment.get("interpreter"):
        return str(environment["interpreter"])
    packages = [*environment.get("conda", ()), *environment.get("pip", ())]
    version = environment.get("python_version")
    return ", ".join([*([f"Python {version}"] if version else []), *packages])


def pairs_of(pairs: dict[str, Any]) -> str:
    return ", ".join(
        escape(f"{key}={value}" if value not in (None, "") else key) for key, value in sorted(pairs.items())
    )


def _usage(usage: dict[str, Any], dot: str) -> str:
    parts = []
    if usage.get("cpu_seconds") is not None:
        parts.append(f"CPU {format.duration(usage['cpu_seconds'])}")
    if usage.get("peak_rss_mb") is not None:
        parts.append(f"memory {format.size(usage['peak_rss_mb'] * 1e6)} at most")
    if usage.get("peak_gpu_mb") is not None:
        parts.append(f"GPU memory {format.size(usage['peak_gpu_mb'] * 1e6)} at most")
    return dot.join(parts)


def _print_metrics(context: CommandContext, metrics: dict[str, Any]) -> None:
    if metrics:
        context.terminal.line("\nMetrics")
        context.print_table(SUMMARY_COLUMNS, summary_rows(metrics), indent=2)


def _print_files(context: CommandContext, files: list[dict[str, Any]]) -> None:
    if not files:
        return
    context.terminal.line("\nFiles")
    rows = [[file["path"], format.size(file["size"])] for file in files[:_FILES_SHOWN]]
    context.print_table([Column("PATH"), Column("SIZE", right=True)], rows, indent=2)
    if len(files) > _FILES_SHOWN:
        context.terminal.line(context.terminal.dim(f"  and {len(files) - _FILES_SHOWN} more: windlass files"))


def _print_next(context: CommandContext, run: dict[str, Any], files: list[dict[str, Any]]) -> None:
    short = format.short_id(run["id"])
    is_final = run["state"] in ("Completed", "Failed", "Canceled")
    steps = [f"windlass logs {short}"] if is_final else [f"windlass logs -f {short}", f"windlass cancel {short}"]
    if any(file["path"].startswith("outputs/") for file in files):
        steps.append(f"windlass download {short}")
    context.terminal.line("\n" + context.terminal.dim("Next: " + context.terminal.symbol(" · ", ", ").join(steps)))
