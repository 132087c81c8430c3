"""`windlass logs`: the log of a run."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.cli.runs.log_stream import LogFollower, LogPrinter, StatusReporter
from windlass.core.errors import NotFound
from windlass.core.sanitize import escape

_OWN = "user_logs/"
_BYTES_A_LINE = 200


@click.command("logs", cls=Command, short_help="Print a run's log; -f follows it.")
@click.argument("run", type=RUN)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("-p", "--path", metavar="PATH", help="Print this file of the run instead of its log.")
@click.option("--raw", is_flag=True, help="Let every control sequence through to the terminal.")
@click.pass_obj
def logs(context: CommandContext, run: str, follow: bool, tail: int | None, path: str | None, raw: bool) -> None:
    """Print what RUN printed.

    At a terminal, control sequences other than colours are removed; a file or a pipe gets every byte.
    """
    if follow and tail is not None:
        raise click.UsageError("--tail and --follow do not go together.")
    run_id = run_reference.find(context, run)
    printer = LogPrinter(sys.stdout, raw)
    if context.json:
        _print_json(context, run_id, path, tail)
    elif follow:
        status = StatusReporter(context, printer)
        LogFollower(context, run_id, printer, status).follow(path or "auto")
        status.clear()
        printer.close()
    else:
        _print(context, run_id, path, tail, printer)


def _print(context: CommandContext, run_id: str, path: str | None, tail: int | None, printer: LogPrinter) -> None:
    file = _choose(context, run_id, path)
    if file is None:
        context.terminal.note("There is no log.")
        return
    for piece in _pieces(context, run_id, file, tail):
        printer.write(piece)
    printer.close()
    if file.get("gap_length"):
        context.terminal.note(f"[{file['gap_length']} bytes in the middle were not kept: the log reached its cap]")


def _print_json(context: CommandContext, run_id: str, path: str | None, tail: int | None) -> None:
    file = _choose(context, run_id, path)
    text = b"" if file is None else b"".join(_pieces(context, run_id, file, tail))
    document = {"run": run_id, "path": file and file["path"], "text": text.decode("utf-8", "replace")}
    context.terminal.json(document)


def _choose(context: CommandContext, run_id: str, path: str | None) -> dict[str, Any] | None:
    """The named file; else the script's log, if it is not empty; else the log of the environment's build."""
    files: list[dict[str, Any]] = context.get(f"/runs/{run_id}/files")["files"]
    if path is not None:
        for file in files:
            if file["path"] == path:
                return file
        raise NotFound(f"Run {run_id} has no file {escape(path)}.", f"windlass files {run_id} lists them.")
    candidates = [f for f in files if f["path"].startswith((_OWN, "azureml-logs/"))]
    own = [f for f in candidates if f["path"].startswith(_OWN) and f["size"]]
    return own[0] if own else candidates[-1] if candidates else None


def _pieces(context: CommandContext, run_id: str, file: dict[str, Any], tail: int | None) -> Any:
    where = f"{context.workspace_path}/runs/{run_id}/files/{quote(file['path'])}"
    if tail is None:
        return context.session.download(where)
    return [_last_lines(context, where, file["size"], tail)]


def _last_lines(context: CommandContext, where: str, size: int, count: int) -> bytes:
    """The last lines, read in pieces that grow until they hold enough lines."""
    if count == 0:
        return b""
    reach = count * _BYTES_A_LINE
    while True:
        offset = max(0, size - reach)
        data = b"".join(context.session.download(where, {"offset": offset, "limit": size - offset}))
        lines = data.split(b"\n")
        wanted = count + (lines[-1] == b"")
        if offset == 0 or len(lines) > wanted:
            return b"\n".join(lines[-wanted:])
        reach *= 4
