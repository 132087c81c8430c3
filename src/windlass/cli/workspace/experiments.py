"""`windlass experiments`: named series of runs."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.runs.show import pairs_of


@click.command("experiments", cls=Command, short_help="List experiments.")
@click.option("-a", "--all", "everything", is_flag=True, help="Archived ones too.")
@click.pass_obj
def experiments(context: CommandContext, everything: bool) -> None:
    """List experiments, the newest first."""
    found = context.get("/experiments")["experiments"]
    kept = [e for e in found if everything or not e.get("archived_at")]
    kept.sort(key=lambda e: str(e["created_at"]), reverse=True)
    if context.json:
        context.terminal.json({"experiments": kept})
    elif not kept:
        context.terminal.line("No experiments yet. The first run makes one: windlass submit -e NAME train.py")
    else:
        columns = [Column("EXPERIMENT"), Column("CREATED", right=True), Column(""), Column("TAGS", least=8)]
        rows = [
            [
                e["name"],
                format.ago(e["created_at"], context.now),
                "archived" if e.get("archived_at") else "",
                pairs_of(e.get("tags") or {}),
            ]
            for e in kept
        ]
        context.print_table(columns, rows)
