"""`windlass token`: who else may use the server."""

from __future__ import annotations

import secrets
from typing import Any

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import Call
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.core import names

_ROLES = ("contributor", "reader", "owner")
_ROLE_HELP = (
    "reader: sees runs, models and targets; contributor: also submits, and changes what they submitted; owner: all of "
    "the workspace, with its targets, secrets and tokens."
)


@click.group("token", cls=Group, short_help="Give others a token for the server, and take it back.")
def token() -> None:
    """Each member of a team has a token of their own, with a role in the workspace. Their name stands with the runs
    that they submit, and in the audit. Only owners give tokens.
    """


@token.command("create", cls=Command, short_help="Make a token for somebody, and print it.")
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help=_ROLE_HELP)
@click.option(
    "--days", type=click.IntRange(1, 36500), metavar="N", help="How long it is good. [default: until it is revoked]"
)
@click.pass_obj
def create_token(call: Call, name: str, role: str, days: int | None) -> None:
    """Make a token for NAME and print it, this once: the server keeps only its digest. NAME may be an e-mail address.

    \b
    windlass token create ann --role contributor > ann.token
    """
    body: dict[str, Any] = {"name": names.member_name(name), "role": role}
    if days is not None:
        body["days"] = days
    given = call.post("/tokens", body, secrets.token_hex(16))
    if call.json:
        call.terminal.json(given)
        return
    call.terminal.line(given["token"])
    until = f" until {_day(given['expires_at'])}" if given["expires_at"] else ""
    call.terminal.note(f"{name} is {'an' if role == 'owner' else 'a'} {role}{until}. The token is not shown again.")
    call.terminal.note("It goes into WINDLASS_TOKEN, and the server's address into WINDLASS_URL.")


@token.command("list", cls=Command, short_help="List who has a token, without the tokens.")
@click.pass_obj
def list_tokens(call: Call) -> None:
    """List who has a token for the workspace, without the tokens."""
    columns = [
        Column("MEMBER"),
        Column("ROLE"),
        Column("CREATED", right=True),
        Column("LAST USED", right=True),
        Column("EXPIRES"),
    ]

    def row(view: dict[str, Any]) -> list[str]:
        created, used = (format.ago(view[name], call.now) for name in ("created_at", "last_used_at"))
        return [view["name"], view["role"], created, used or "never", _expiry(call, view["expires_at"])]

    none = "Nobody else has a token: windlass token create NAME --role ROLE"
    call.listing("tokens", call.get("/tokens")["tokens"], none, columns, row)


@token.command("revoke", cls=Command, short_help="Take back somebody's token.")
@click.argument("name", nargs=-1, required=True)
@click.pass_obj
def revoke_token(call: Call, name: tuple[str, ...]) -> None:
    """Take back the token of NAME. It is refused from now on. Runs that NAME submitted go on: `windlass cancel` ends
    them.
    """
    for one in [names.member_name(each) for each in name]:
        call.ask("DELETE", f"{call.root}/tokens/{one}")
        if not call.json:
            call.terminal.line(f"The token of {one} is revoked.")
    if call.json:
        call.terminal.json({"revoked": list(name)})


def _expiry(call: Call, text: str | None) -> str:
    then = format.moment(text)
    if then is None:
        return "never"
    return "expired" if then <= call.now else _day(text)


def _day(text: str | None) -> str:
    then = format.moment(text)
    return then.astimezone().strftime("%Y-%m-%d") if then else ""
