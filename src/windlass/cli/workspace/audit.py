"""`windlass audit`: who did what, from rows that nobody can change unnoticed."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import Call
from windlass.cli.output import format
from windlass.cli.output.table import Column

_PAGE = 1000


@click.command("audit", cls=Command, short_help="Show who did what.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1_000_000), default=30, metavar="N", help="How many. [default: 30]"
)
@click.option(
    "--verify", is_flag=True, help="Check that no row was changed, added or taken away. Exit code 1 if one was."
)
@click.pass_obj
def audit(call: Call, limit: int, verify: bool) -> int:
    """Show who did what, the newest first: secrets set, granted, deleted, used by which run; targets attached;
    environments and models registered; tokens given and revoked.

    Each row has the digest of the one before in its own. Whoever keeps the last digest that --verify prints can see
    later whether the end was cut off, too.
    """
    if verify:
        return _verify(call)
    found = _entries(call, limit)
    if call.json:
        call.terminal.json({"entries": found})
    elif not found:
        call.terminal.line("Nothing yet.")
    else:
        columns = [Column("WHEN", right=True), Column("WHO", least=8), Column("WHAT"), Column("TO")]
        rows = [[format.ago(e["at"], call.now), e["principal"], e["act"], e["object"], _about(e)] for e in found]
        call.table([*columns, Column("", least=12, wraps=True)], rows)
    return 0


def _entries(call: Call, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before: int | None = None
    while len(found) < limit:
        page = call.get("/audit", {"limit": min(limit - len(found), _PAGE), "before": before})
        found += page["entries"]
        before = page["next"]
        if before is None:
            break
    return found


def _about(entry: dict[str, Any]) -> str:
    details = entry.get("details") or {}
    told = ("run", "target", "granted_to", "version", "role")
    return " ".join(f"{key} {details[key]}" for key in told if key in details)


def _verify(call: Call) -> int:
    chain = call.get("/audit/chain")
    if call.json:
        call.terminal.json(chain)
    elif chain["is_whole"]:
        call.terminal.line(f"{format.count(chain['count'], 'row')}, none changed. The last digest:\n{chain['digest']}")
    else:
        call.terminal.line(f"Row {chain['broken_at']} is not what was written, or the one before it is gone.")
    return 0 if chain["is_whole"] else 1
