"""`windlass files`: the list of a run's stored files."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN


@click.command("files", cls=Command, short_help="List the files of a run.")
@click.argument("run", type=RUN)
@click.option(
    "-p", "--path", "prefix", default="", metavar="PREFIX", help="Only paths that begin with PREFIX, such as outputs/."
)
@click.pass_obj
def files(context: CommandContext, run: str, prefix: str) -> None:
    """List the files of RUN: logs, outputs, uploads."""
    run_id = run_reference.find(context, run)
    found = [file for file in context.get(f"/runs/{run_id}/files")["files"] if file["path"].startswith(prefix)]
    if context.json:
        context.terminal.json({"run": run_id, "files": found})
        return
    if not found:
        context.terminal.line("No files yet. What a script writes to outputs/ is kept.")
        return
    columns = [Column("PATH"), Column("SIZE", right=True), Column("")]
    context.print_table(
        columns, [[f["path"], format.size(f["size"]), "growing" if f.get("is_live") else ""] for f in found]
    )
    total = sum(file["size"] for file in found)
    if len(found) > 1:
        context.terminal.line(context.terminal.dim(f"{format.count(len(found), 'file')}, {format.size(total)}"))
