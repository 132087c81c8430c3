"""`windlass gc`: what may be deleted, and how much it frees."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.core.sanitize import escape


@click.command("gc", cls=Command, short_help="Show what may be deleted, and delete it.")
@click.option("-y", "--yes", "--apply", "apply", is_flag=True, help="Delete it, after showing it.")
@click.option("-v", "--verbose", is_flag=True, help="List every item, not only the sums.")
@click.pass_obj
def gc(context: CommandContext, apply: bool, verbose: bool) -> None:
    """Show what may be deleted by the retention settings, by kind, and how much it frees.

    What a kept run needs is never deleted. `windlass settings` shows and changes how long things are kept.
    """
    found = context.request("POST", "/gc", {"apply": False})
    if context.json:
        context.terminal.json(context.request("POST", "/gc", {"apply": True}) if apply else found)
        return
    _print_unanswered(context, found)
    if not found["items"]:
        context.terminal.line("Nothing to delete.")
        return
    _print_items(context, found["items"]) if verbose else _print_kinds(context, found["items"])
    if not apply:
        context.terminal.line(f"\nDeleting this frees {format.size(found['bytes'])}: windlass gc --yes")
        return
    gone = context.request("POST", "/gc", {"apply": True})
    context.terminal.line(f"\nDeleted {format.count(len(gone['items']), 'thing')}, freed {format.size(gone['bytes'])}.")


def _print_unanswered(context: CommandContext, found: dict[str, Any]) -> None:
    for machine in found.get("unanswered", ()):
        context.terminal.note(f"{escape(machine)} did not answer; what it keeps stays for now.")


def _print_kinds(context: CommandContext, items: list[dict[str, Any]]) -> None:
    kinds: dict[tuple[str, str], list[int]] = {}
    for item in items:
        kinds.setdefault((item["kind"], item.get("why") or ""), []).append(item["bytes"])
    columns = [Column("KIND"), Column("HOW MANY", right=True), Column("SIZE", right=True), Column("WHY", wraps=True)]
    rows = [
        [kind.replace("_", " "), str(len(sizes)), format.size(sum(sizes)), why] for (kind, why), sizes in kinds.items()
    ]
    context.print_table(columns, rows)


def _print_items(context: CommandContext, items: list[dict[str, Any]]) -> None:
    columns = [Column("KIND"), Column("WHAT", least=16), Column("SIZE", right=True), Column("WHY", wraps=True)]
    rows = [[item["kind"], str(item["id"]), format.size(item["bytes"]), item.get("why") or ""] for item in items]
    context.print_table(columns, rows)
