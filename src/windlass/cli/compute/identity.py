"""Confirmation of a target's identity (an SSH host key, a cluster's certificate), by a person or by --pin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli.compute import credentials
from windlass.core.errors import Conflict, InvalidRequest
from windlass.core.sanitize import escape, one_line

if TYPE_CHECKING:
    from windlass.cli.context import CommandContext

ACCEPT = "accept"


class Pin(NamedTuple):
    """The identity to pin, and whether it was compared."""

    pin: str | None = None
    is_confirmed: bool = False


class _PinOption(click.Option):
    """--pin. Its older name --host-key is accepted and not shown: once only host keys were pinned."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return f"{self.opts[0]} {self.metavar}", str(self.help)


def options() -> list[click.Option]:
    """Options that answer the question on the command line."""
    return [
        _PinOption(
            ["--pin", "--host-key", "pin"],
            metavar="FINGERPRINT|accept",
            help="The expected fingerprint, as it is shown, or `accept` for any. No question is asked.",
        ),
        click.Option(["-y", "--yes", "yes"], is_flag=True, help="Pin what answers, without comparing it."),
    ]


def confirm(context: CommandContext, probed: dict[str, Any], wanted: str | None, yes: bool) -> Pin:
    """Compare the identity in the answer of /probe, or ask a person. Raises unless it is accepted."""
    where, found = escape(probed.get("endpoint") or probed.get("location") or ""), probed.get("identity")
    if found is None:
        if wanted not in (None, ACCEPT):
            raise InvalidRequest(f"{where} has nothing to compare with --pin.", "Leave it out.")
        return Pin()
    what, fingerprint = escape(found["what"]), escape(found["shown_as"])
    if wanted is not None and wanted != ACCEPT:
        if not _is_same(found, wanted):
            raise Conflict(
                f"{where} has the {what} {fingerprint}, not the one that was given: {escape(wanted[:80])}",
                "Nothing was sent there. It may be another machine.",
            )
        return Pin(found["pin"], True)
    if not context.json:
        context.terminal.note(f"{where} has the {what}\n  {fingerprint}{_details(found)}")
    if yes or wanted == ACCEPT:
        return Pin(found["pin"], False)
    if not credentials.can_ask():
        raise InvalidRequest(
            f"There is no terminal to ask whether {fingerprint} is the {what} of {where}.",
            f"If it is, add: --pin {fingerprint}",
        )
    if found.get("how_to_compare"):
        context.terminal.note(f"Compare it there: {one_line(found['how_to_compare'])}")
    if not credentials.confirm("Is that the machine?"):
        raise Conflict(f"Nothing was sent: {where} is not the machine that was meant.")
    return Pin(found["pin"], True)


def _is_same(found: dict[str, Any], wanted: str) -> bool:
    """Whether `wanted` is the fingerprint, or the pin itself, which may be followed by a comment."""
    pin = str(found["pin"]).split()
    return wanted.rstrip("=") == str(found["shown_as"]).rstrip("=") or wanted.split()[: len(pin)] == pin


def _details(found: dict[str, Any]) -> str:
    texts = [escape(value) for value in (found.get("details") or {}).values() if isinstance(value, str)]
    return f" ({', '.join(texts)})" if texts else ""
