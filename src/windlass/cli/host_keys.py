"""Is that the machine? The question that a host key answers, put to a person or answered on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.cli import credentials
from windlass.core.errors import Conflict, InvalidRequest
from windlass.core.sanitize import shown

if TYPE_CHECKING:
    from windlass.cli.call import Call

ACCEPT = "accept"


def confirm(call: Call, address: str, seen: dict[str, Any], wanted: str | None, yes: bool) -> bool:
    """Go on only with the right machine. True if somebody compared its fingerprint."""
    fingerprint = str(seen["fingerprint"])
    if wanted is not None and wanted != ACCEPT:
        _compare(address, fingerprint, str(seen["host_key"]), wanted)
        return True
    kind = str(seen["host_key"]).split(" ", 1)[0]
    if not call.json:
        call.terminal.note(f"{shown(address)} has the host key\n  {fingerprint} ({kind})")
    if yes or wanted == ACCEPT:
        return False
    if not credentials.can_ask():
        raise InvalidRequest(
            f"Nobody is here to say whether {fingerprint} is the host key of {shown(address)}.",
            f"If it is, add: --host-key {fingerprint}",
        )
    call.terminal.note(f"Compare it there: ssh-keygen -lf /etc/ssh/ssh_host_{_file(kind)}_key.pub")
    if not credentials.confirm("Is that the machine?"):
        raise Conflict(f"Nothing was attached: {shown(address)} is not the machine that was meant.")
    return True


def _compare(address: str, fingerprint: str, key: str, wanted: str) -> None:
    if wanted.startswith("SHA256:"):
        is_right = wanted.rstrip("=") == fingerprint
    else:
        is_right = wanted.split()[:2] == key.split()[:2]
    if not is_right:
        raise Conflict(
            f"{shown(address)} has the host key {fingerprint}, not the one that was given: {shown(wanted[:80])}",
            "Nothing was sent there. It may be another machine.",
        )


def _file(kind: str) -> str:
    """The part of the file's name on the machine."""
    return {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(kind, "ecdsa")
