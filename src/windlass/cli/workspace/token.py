"""`windlass token`: tokens of the members of a workspace."""

from __future__ import annotations

import secrets
from typing import Any

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.core import names

_ROLES = ("contributor", "reader", "owner")
_ROLE_HELP = (
    "reader: sees runs, models and targets; contributor: also submits, and changes what they submitted; owner: all of "
    "the workspace, with its targets, secrets and tokens."
)


@click.group("token", cls=Group, short_help="Create, list and revoke the tokens of members.")
def token() -> None:
    """Each member of a team has a token of their own, with a role in the workspace. Their name is shown with the
    runs that they submit, and in the audit log. Only owners create tokens.
    """


@token.command("create", cls=Command, short_help="Create a token for a member, and print it.")
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help=_ROLE_HELP)
@click.option(
    "--days", type=click.IntRange(1, 36500), metavar="N", help="For how many days. [default: until it is revoked]"
)
@click.pass_obj
def create_token(context: CommandContext, name: str, role: str, days: int | None) -> None:
    """Create a token for NAME and print it once: the server keeps only a digest. NAME may be an e-mail address.

    \b
    windlass token create ann --role contributor > ann.token
    """
    body: dict[str, Any] = {"name": names.member_name(name), "role": role}
    if days is not None:
        body["days"] = days
    given = context.post("/tokens", body, secrets.token_hex(16))
    if context.json:
        context.terminal.json(given)
        return
    context.terminal.line(given["token"])
    until = f" until {_day(given['expires_at'])}" if given["expires_at"] else ""
    context.terminal.note(f"{name} is {'an' if role == 'owner' else 'a'} {role}{until}. The token is not shown again.")
    context.terminal.note("It goes into WINDLASS_TOKEN, and the server's address into WINDLASS_URL.")


@token.command("list", cls=Command, short_help="List the members that have a token.")
@click.pass_obj
def list_tokens(context: CommandContext) -> None:
    """List the members of the workspace that have a token. The tokens are not shown."""
    columns = [
        Column("MEMBER"),
        Column("ROLE"),
        Column("CREATED", right=True),
        Column("LAST USED", right=True),
        Column("EXPIRES"),
    ]

    def row(view: dict[str, Any]) -> list[str]:
        created, used = (format.ago(view[name], context.now) for name in ("created_at", "last_used_at"))
        return [view["name"], view["role"], created, used or "never", _expiry(context, view["expires_at"])]

    none = "Nobody else has a token: windlass token create NAME --role ROLE"
    context.print_list("tokens", context.get("/tokens")["tokens"], none, columns, row)


@token.command("revoke", cls=Command, short_help="Revoke a member's token.")
@click.argument("name", nargs=-1, required=True)
@click.pass_obj
def revoke_token(context: CommandContext, name: tuple[str, ...]) -> None:
    """Revoke the token of NAME: it is refused from now on. Runs that NAME submitted go on: `windlass cancel` ends
    them.
    """
    for one in [names.member_name(each) for each in name]:
        context.request("DELETE", f"{context.workspace_path}/tokens/{one}")
        if not context.json:
            context.terminal.line(f"The token of {one} is revoked.")
    if context.json:
        context.terminal.json({"revoked": list(name)})


def _expiry(context: CommandContext, text: str | None) -> str:
    then = format.parse_time(text)
    if then is None:
        return "never"
    return "expired" if then <= context.now else _day(text)


def _day(text: str | None) -> str:
    then = format.parse_time(text)
    return then.astimezone().strftime("%Y-%m-%d") if then else ""
