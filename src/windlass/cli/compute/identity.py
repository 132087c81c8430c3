"""What answers at an address (a host key, the certificate of a cluster), compared by a person or with --pin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli.compute import credentials
from windlass.core.errors import Conflict, InvalidRequest
from windlass.core.sanitize import one_line, shown

if TYPE_CHECKING:
    from windlass.cli.context import Call

ACCEPT = "accept"


class Pin(NamedTuple):
    """What is pinned from now on, and whether it was compared."""

    pin: str | None = None
    is_confirmed: bool = False


class _PinOption(click.Option):
    """Understood as --host-key too, by which it was known when all that was pinned were host keys."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return f"{self.opts[0]} {self.metavar}", str(self.help)


def options() -> list[click.Option]:
    """How the question is answered on the command line."""
    return [
        _PinOption(
            ["--pin", "--host-key", "pin"],
            metavar="FINGERPRINT|accept",
            help="What must answer there: its fingerprint, as it is shown. Nothing is asked then.",
        ),
        click.Option(["-y", "--yes", "yes"], is_flag=True, help="Pin what answers, without comparing it."),
    ]


def confirm(call: Call, probed: dict[str, Any], wanted: str | None, yes: bool) -> Pin:
    """Go on only with the right machine. `probed` is the answer of /probe."""
    where, found = shown(probed.get("endpoint") or probed.get("location") or ""), probed.get("identity")
    if found is None:
        if wanted not in (None, ACCEPT):
            raise InvalidRequest(f"{where} has nothing to compare with --pin.", "Leave it out.")
        return Pin()
    what, fingerprint = shown(found["what"]), shown(found["shown_as"])
    if wanted is not None and wanted != ACCEPT:
        if not _is_same(found, wanted):
            raise Conflict(
                f"{where} has the {what} {fingerprint}, not the one that was given: {shown(wanted[:80])}",
                "Nothing was sent there. It may be another machine.",
            )
        return Pin(found["pin"], True)
    if not call.json:
        call.terminal.note(f"{where} has the {what}\n  {fingerprint}{_details(found)}")
    if yes or wanted == ACCEPT:
        return Pin(found["pin"], False)
    if not credentials.can_ask():
        raise InvalidRequest(
            f"There is no terminal to ask whether {fingerprint} is the {what} of {where}.",
            f"If it is, add: --pin {fingerprint}",
        )
    if found.get("how_to_compare"):
        call.terminal.note(f"Compare it there: {one_line(found['how_to_compare'])}")
    if not credentials.confirm("Is that the machine?"):
        raise Conflict(f"Nothing was sent: {where} is not the machine that was meant.")
    return Pin(found["pin"], True)


def _is_same(found: dict[str, Any], wanted: str) -> bool:
    """Compare with the fingerprint, or with the pin itself, which may have a comment behind it."""
    pin = str(found["pin"]).split()
    return wanted.rstrip("=") == str(found["shown_as"]).rstrip("=") or wanted.split()[: len(pin)] == pin


def _details(found: dict[str, Any]) -> str:
    texts = [shown(value) for value in (found.get("details") or {}).values() if isinstance(value, str)]
    return f" ({', '.join(texts)})" if texts else ""
