"""`windlass audit`: the audit log, in which changed or removed rows are detected by a hash chain."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column

_PAGE = 1000


@click.command("audit", cls=Command, short_help="Show who did what.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1_000_000), default=30, metavar="N", help="How many. [default: 30]"
)
@click.option(
    "--verify", is_flag=True, help="Check that no row was changed, added or removed. The exit code is 1 if one was."
)
@click.pass_obj
def audit(context: CommandContext, limit: int, verify: bool) -> int:
    """Show who did what, the newest first: secrets set, granted, deleted, used by which run; targets attached;
    environments and models registered; tokens given and revoked.

    The digest of each row covers that of the row before it. If you keep the last digest that --verify prints, you
    can also detect later that rows at the end were removed.
    """
    if verify:
        return _verify(context)
    found = _entries(context, limit)
    if context.json:
        context.terminal.json({"entries": found})
    elif not found:
        context.terminal.line("Nothing yet.")
    else:
        columns = [Column("WHEN", right=True), Column("WHO", least=8), Column("WHAT"), Column("TO")]
        rows = [[format.ago(e["at"], context.now), e["principal"], e["act"], e["object"], _about(e)] for e in found]
        context.print_table([*columns, Column("", least=12, wraps=True)], rows)
    return 0


def _entries(context: CommandContext, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before: int | None = None
    while len(found) < limit:
        page = context.get("/audit", {"limit": min(limit - len(found), _PAGE), "before": before})
        found += page["entries"]
        before = page["next"]
        if before is None:
            break
    return found


def _about(entry: dict[str, Any]) -> str:
    details = entry.get("details") or {}
    shown = ("run", "target", "granted_to", "version", "role")
    return " ".join(f"{key} {details[key]}" for key in shown if key in details)


def _verify(context: CommandContext) -> int:
    chain = context.get("/audit/chain")
    if context.json:
        context.terminal.json(chain)
    elif chain["is_whole"]:
        context.terminal.line(
            f"{format.count(chain['count'], 'row')}, none changed. The last digest:\n{chain['digest']}"
        )
    else:
        context.terminal.line(f"Row {chain['broken_at']} is not what was written, or the one before it is gone.")
    return 0 if chain["is_whole"] else 1
