"""`windlass download`: the files of a run, here."""

from __future__ import annotations

import os
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import Call
from windlass.cli.errors import OK, OTHER
from windlass.cli.output import format
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import FOLDER, RUN
from windlass.client.runs.downloads import Download, Skipped, listed, place_in, save_all
from windlass.core.errors import NotFound
from windlass.core.sanitize import shown


@click.command("download", cls=Command, short_help="Download the files of a run.")
@click.argument("run", type=RUN)
@click.option(
    "-p", "--path", "prefix", default="", metavar="PREFIX", help="Only this file, or files below this folder."
)
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    metavar="FOLDER",
    help="Where to put them. [default: a folder named like the run's id]",
)
@click.option("-f", "--force", is_flag=True, help="Overwrite files that are there already.")
@click.pass_obj
def download(call: Call, run: str, prefix: str, output: str | None, force: bool) -> int:
    """Download the files of RUN: outputs, logs, uploads.

    A file whose name cannot be used here (it is a folder, for instance) is skipped and named; the exit code is 1 then.
    """
    run_id = run_reference.find(call, run)
    files = [f for f in call.get(f"/runs/{run_id}/files")["files"] if is_below(f["path"], prefix)]
    if not files:
        what = f"no file {shown(prefix)}" if prefix else "no files"
        raise NotFound(f"Run {run_id} has {what}.", f"windlass files {format.short_id(run_id)} lists them.")
    folder = output or run_id
    found = [listed(file, f"{call.root}/runs/{run_id}/files", place_in(folder, file["path"])) for file in files]
    _refuse_overwriting(found, force)
    with _progress(call, sum(file["size"] for file in files)) as advance:
        skipped = save_all(call.session, found, advance)
    _answer(call, run_id, folder, files, skipped)
    return OTHER if skipped else OK


def is_below(path: str, prefix: str) -> bool:
    """A whole path, or one below a folder: `outputs` and `outputs/` mean the folder, not `outputs2/x`."""
    folder = prefix.rstrip("/")
    return not folder or path == folder or path.startswith(folder + "/")


def _refuse_overwriting(found: list[Download], force: bool) -> None:
    there = [file.place for file in found if os.path.lexists(file.place)]
    if there and not force:
        raise click.UsageError(f"{shown(there[0])} is there already; --force overwrites, --output chooses a folder.")


def _progress(call: Call, total: int) -> Any:
    from windlass.cli.output.progress import progress

    return progress(call, "Downloading", total)


def _answer(call: Call, run_id: str, folder: str, files: list[dict[str, Any]], skipped: list[Skipped]) -> None:
    missing = {each.name for each in skipped}
    saved = [file for file in files if file["path"] not in missing]
    if call.json:
        others = [{"path": each.name, "reason": each.reason} for each in skipped]
        call.terminal.json({"run": run_id, "folder": os.path.abspath(folder), "files": saved, "skipped": others})
        return
    total = format.size(sum(file["size"] for file in saved))
    call.terminal.line(f"{format.count(len(saved), 'file')}, {total}, in {shown(folder)}")
    for each in skipped:
        call.terminal.note(str(each))
