"""`windlass gc`: what may go, and how much that frees."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import Call
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.core.sanitize import shown


@click.command("gc", cls=Command, short_help="Show what may be deleted, and delete it.")
@click.option("-y", "--yes", "--apply", "apply", is_flag=True, help="Delete it, after showing it.")
@click.option("-v", "--verbose", is_flag=True, help="Every single thing, not only the sums.")
@click.pass_obj
def gc(call: Call, apply: bool, verbose: bool) -> None:
    """Show what may be deleted by the retention settings, by kind, and how much it frees.

    Nothing that a kept run needs is ever among it. `windlass settings` shows and changes how long things are kept.
    """
    found = call.ask("POST", "/gc", {"apply": False})
    if call.json:
        call.terminal.json(call.ask("POST", "/gc", {"apply": True}) if apply else found)
        return
    _tell_unanswered(call, found)
    if not found["items"]:
        call.terminal.line("Nothing to delete.")
        return
    _print_items(call, found["items"]) if verbose else _print_kinds(call, found["items"])
    if not apply:
        call.terminal.line(f"\nDeleting this frees {format.size(found['bytes'])}: windlass gc --yes")
        return
    gone = call.ask("POST", "/gc", {"apply": True})
    call.terminal.line(f"\nDeleted {format.count(len(gone['items']), 'thing')}, freed {format.size(gone['bytes'])}.")


def _tell_unanswered(call: Call, found: dict[str, Any]) -> None:
    for machine in found.get("unanswered", ()):
        call.terminal.note(f"{shown(machine)} did not answer; what it keeps stays for now.")


def _print_kinds(call: Call, items: list[dict[str, Any]]) -> None:
    kinds: dict[tuple[str, str], list[int]] = {}
    for item in items:
        kinds.setdefault((item["kind"], item.get("why") or ""), []).append(item["bytes"])
    columns = [Column("KIND"), Column("HOW MANY", right=True), Column("SIZE", right=True), Column("WHY", wraps=True)]
    rows = [
        [kind.replace("_", " "), str(len(sizes)), format.size(sum(sizes)), why] for (kind, why), sizes in kinds.items()
    ]
    call.table(columns, rows)


def _print_items(call: Call, items: list[dict[str, Any]]) -> None:
    columns = [Column("KIND"), Column("WHAT", least=16), Column("SIZE", right=True), Column("WHY", wraps=True)]
    rows = [[item["kind"], str(item["id"]), format.size(item["bytes"]), item.get("why") or ""] for item in items]
    call.table(columns, rows)
