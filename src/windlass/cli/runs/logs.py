"""`windlass logs`: what a run printed."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote

import click

from windlass.cli.command import Command
from windlass.cli.context import Call
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.cli.runs.log_stream import Following, LogPrinter, Waiting
from windlass.core.errors import NotFound
from windlass.core.sanitize import shown

_OWN = "user_logs/"
_BYTES_A_LINE = 200


@click.command("logs", cls=Command, short_help="Print a run's log; -f follows it.")
@click.argument("run", type=RUN)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("-p", "--path", metavar="PATH", help="This file of the run instead of what the script printed.")
@click.option("--raw", is_flag=True, help="Let every control sequence through to the terminal.")
@click.pass_obj
def logs(call: Call, run: str, follow: bool, tail: int | None, path: str | None, raw: bool) -> None:
    """Print what RUN printed.

    On a terminal, sequences other than colours are taken out; to a file or a pipe goes every byte.
    """
    if follow and tail is not None:
        raise click.UsageError("--tail and --follow do not go together.")
    run_id = run_reference.find(call, run)
    printer = LogPrinter(sys.stdout, raw)
    if call.json:
        _print_json(call, run_id, path, tail)
    elif follow:
        waiting = Waiting(call, printer)
        Following(call, run_id, printer, waiting.tell, before_log=waiting.clear).to_end(path or "auto")
        waiting.clear()
        printer.close()
    else:
        _print(call, run_id, path, tail, printer)


def _print(call: Call, run_id: str, path: str | None, tail: int | None, printer: LogPrinter) -> None:
    file = _choose(call, run_id, path)
    if file is None:
        call.terminal.note("There is no log.")
        return
    for piece in _pieces(call, run_id, file, tail):
        printer.write(piece)
    printer.close()
    if file.get("gap_length"):
        call.terminal.note(f"[{file['gap_length']} bytes in the middle were not kept: the log reached its cap]")


def _print_json(call: Call, run_id: str, path: str | None, tail: int | None) -> None:
    file = _choose(call, run_id, path)
    text = b"" if file is None else b"".join(_pieces(call, run_id, file, tail))
    document = {"run": run_id, "path": file and file["path"], "text": text.decode("utf-8", "replace")}
    call.terminal.json(document)


def _choose(call: Call, run_id: str, path: str | None) -> dict[str, Any] | None:
    """The file that was named, or the log to see: the script's own, else the environment's build."""
    files: list[dict[str, Any]] = call.get(f"/runs/{run_id}/files")["files"]
    if path is not None:
        for file in files:
            if file["path"] == path:
                return file
        raise NotFound(f"Run {run_id} has no file {shown(path)}.", f"windlass files {run_id} lists them.")
    candidates = [f for f in files if f["path"].startswith((_OWN, "azureml-logs/"))]
    own = [f for f in candidates if f["path"].startswith(_OWN) and f["size"]]
    return own[0] if own else candidates[-1] if candidates else None


def _pieces(call: Call, run_id: str, file: dict[str, Any], tail: int | None) -> Any:
    where = f"{call.root}/runs/{run_id}/files/{quote(file['path'])}"
    if tail is None:
        return call.session.download(where)
    return [_last_lines(call, where, file["size"], tail)]


def _last_lines(call: Call, where: str, size: int, count: int) -> bytes:
    """The last lines, reading from the end as much as it takes."""
    if count == 0:
        return b""
    reach = count * _BYTES_A_LINE
    while True:
        offset = max(0, size - reach)
        data = b"".join(call.session.download(where, {"offset": offset, "limit": size - offset}))
        lines = data.split(b"\n")
        wanted = count + (lines[-1] == b"")
        if offset == 0 or len(lines) > wanted:
            return b"\n".join(lines[-wanted:])
        reach *= 4
