"""`windlass download`: save the files of a run on this machine."""

from __future__ import annotations

import os
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.errors import OK, OTHER
from windlass.cli.output import format
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import FOLDER, RUN
from windlass.client.runs.downloads import Download, Skipped, listed, safe_path, save_all
from windlass.core.errors import NotFound
from windlass.core.sanitize import escape


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
def download(context: CommandContext, run: str, prefix: str, output: str | None, force: bool) -> int:
    """Download the files of RUN: outputs, logs, uploads.

    A file that cannot have its name here (a folder of that name exists, for instance) is skipped and reported. The exit
    code is 1 then.
    """
    run_id = run_reference.find(context, run)
    files = [f for f in context.get(f"/runs/{run_id}/files")["files"] if is_below(f["path"], prefix)]
    if not files:
        what = f"no file {escape(prefix)}" if prefix else "no files"
        raise NotFound(f"Run {run_id} has {what}.", f"windlass files {format.short_id(run_id)} lists them.")
    folder = output or run_id
    found = [
        listed(file, f"{context.workspace_path}/runs/{run_id}/files", safe_path(folder, file["path"])) for file in files
    ]
    _refuse_overwriting(found, force)
    with _progress(context, sum(file["size"] for file in files)) as advance:
        skipped = save_all(context.session, found, advance)
    _answer(context, run_id, folder, files, skipped)
    return OTHER if skipped else OK


def is_below(path: str, prefix: str) -> bool:
    """A whole path, or one below a folder: `outputs` and `outputs/` mean the folder, not `outputs2/x`."""
    folder = prefix.rstrip("/")
    return not folder or path == folder or path.startswith(folder + "/")


def _refuse_overwriting(found: list[Download], force: bool) -> None:
    there = [file.place for file in found if os.path.lexists(file.place)]
    if there and not force:
        raise click.UsageError(f"{escape(there[0])} is there already; --force overwrites, --output chooses a folder.")


def _progress(context: CommandContext, total: int) -> Any:
    from windlass.cli.output.progress import progress

    return progress(context, "Downloading", total)


def _answer(
    context: CommandContext, run_id: str, folder: str, files: list[dict[str, Any]], skipped: list[Skipped]
) -> None:
    missing = {each.name for each in skipped}
    saved = [file for file in files if file["path"] not in missing]
    if context.json:
        others = [{"path": each.name, "reason": each.reason} for each in skipped]
        context.terminal.json({"run": run_id, "folder": os.path.abspath(folder), "files": saved, "skipped": others})
        return
    total = format.size(sum(file["size"] for file in saved))
    context.terminal.line(f"{format.count(len(saved), 'file')}, {total}, in {escape(folder)}")
    for each in skipped:
        context.terminal.note(str(each))
