"""`windlass download`: the files of a run, here."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

import click

from windlass.cli import runref, words
from windlass.cli.call import Call
from windlass.cli.command import Command
from windlass.cli.escapes import shown
from windlass.cli.param_types import FOLDER, RUN
from windlass.core import names
from windlass.core.errors import NotFound


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
def download(call: Call, run: str, prefix: str, output: str | None, force: bool) -> None:
    """Download the files of RUN: outputs, logs, uploads."""
    run_id = runref.find(call, run)
    files = [f for f in call.get(f"/runs/{run_id}/files")["files"] if is_below(f["path"], prefix)]
    if not files:
        what = f"no file {shown(prefix)}" if prefix else "no files"
        raise NotFound(f"Run {run_id} has {what}.", f"windlass files {words.short_id(run_id)} lists them.")
    folder = output or run_id
    places = [(file, os.path.join(folder, *names.relative_path(file["path"]).split("/"))) for file in files]
    _refuse_overwriting(places, force)
    with _progress(call, sum(file["size"] for file in files)) as advance:
        for file, place in places:
            fetch(call, f"{call.root}/runs/{run_id}/files/{quote(file['path'])}", place, advance)
    _answer(call, run_id, folder, files)


def is_below(path: str, prefix: str) -> bool:
    """A whole path, or one below a folder: `outputs` and `outputs/` mean the folder, not `outputs2/x`."""
    folder = prefix.rstrip("/")
    return not folder or path == folder or path.startswith(folder + "/")


def _refuse_overwriting(places: list[tuple[dict[str, Any], str]], force: bool) -> None:
    there = [place for _, place in places if os.path.lexists(place)]
    if there and not force:
        raise click.UsageError(f"{shown(there[0])} is there already; --force overwrites, --output chooses a folder.")


def _progress(call: Call, total: int) -> Any:
    from windlass.cli.progress import progress

    return progress(call, "Downloading", total)


def fetch(call: Call, where: str, place: str, advance: Any) -> None:
    """Written aside, then renamed: a file with its name is whole."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    aside = os.path.join(os.path.dirname(place), f".{os.urandom(8).hex()}.part")
    try:
        with open(aside, "wb") as file:
            for piece in call.session.download(where):
                file.write(piece)
                advance(len(piece))
        os.replace(aside, place)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise


def _answer(call: Call, run_id: str, folder: str, files: list[dict[str, Any]]) -> None:
    if call.json:
        document = {"run": run_id, "folder": os.path.abspath(folder), "files": files}
        call.terminal.json(document)
    else:
        total = words.size(sum(file["size"] for file in files))
        call.terminal.line(f"{words.count(len(files), 'file')}, {total}, in {shown(folder)}")
