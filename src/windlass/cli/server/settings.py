"""`windlass settings`: show and change the server's settings (retention, caps, slots)."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.core.errors import InvalidRequest
from windlass.core.sanitize import escape


@click.command("settings", cls=Command, short_help="Show and change the server's settings.")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.pass_obj
def settings(context: CommandContext, pairs: tuple[str, ...]) -> None:
    """Show the server's settings, or change them: KEY=VALUE, or KEY=null for the default."""
    changes, found = _parse(pairs), context.request("GET", "/settings")
    if changes:
        _refuse_unknown(changes, found)
        found = context.request("PATCH", "/settings", changes)
    if context.json:
        context.terminal.json(found)
    else:
        context.print_facts((escape(key), escape(_text(key, value))) for key, value in found.items())


def _parse(pairs: tuple[str, ...]) -> dict[str, Any]:
    changes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"A setting is KEY=VALUE, not {pair!r}.")
        changes[key] = _value(value)
    return changes


def _refuse_unknown(changes: Iterable[str], known: Container[str]) -> None:
    for key in changes:
        if key not in known:
            raise InvalidRequest(
                f"There is no setting {escape(key)} that can be changed while the server runs.",
                "windlass settings lists those that can.",
            )


def _value(text: str) -> Any:
    """A number, true, false or null where it looks like one; otherwise the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(key: str, value: Any) -> str:
    if value is None:
        return "null (for ever)" if key.startswith("keep_") else "null"
    if key.endswith("_bytes") and isinstance(value, int):
        return f"{value} ({format.size(value)})"
    return f"{value:g}" if isinstance(value, float) else str(value)
