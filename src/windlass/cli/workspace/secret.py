"""`windlass secret`: secrets that runs may read. No command prints a value."""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

import click

from windlass.cli.command import Command, Group
from windlass.cli.compute.credentials import ask_secret, can_ask
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters.types import FILE, SECRET
from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape

_LARGEST = 64 << 10
# Values of the command line, with those of the API.
_GRANTS = {"runs": "runs", "named-runs": "named runs", "nobody": "nobody"}
_GRANT_HELP = "runs: all runs get it; named-runs: those that name it (submit --secret); nobody: none."


@click.group("secret", cls=Group, short_help="Set, list, grant and delete secrets that runs may use.")
def secret() -> None:
    """Secrets are stored encrypted. A script reads those that its run was granted by
    Run.get_context().get_secret(NAME). Their values are masked in stored logs, and no command shows them.
    """


@secret.command("set", cls=Command, short_help="Set a secret: by a prompt, from a file, or from standard input.")
@click.argument("name", type=SECRET)
@click.option("--from-file", "path", type=FILE, metavar="FILE", help="Take the value from this file, as it is.")
@click.option("--granted-to", type=click.Choice(list(_GRANTS)), help=f"{_GRANT_HELP} [default: as it was; new: runs]")
@click.option("--content-type", metavar="TYPE", help="What the value is, such as application/json.")
@click.pass_obj
def set_secret(
    context: CommandContext, name: str, path: str | None, granted_to: str | None, content_type: str | None
) -> None:
    """Set the secret NAME. At a terminal you are asked for the value, which is not shown; otherwise it is read from
    standard input, without the newline at its end. It is never an argument: other users could see it.

    \b
    windlass secret set db-password
    pass show db | windlass secret set db-password
    windlass secret set deploy-key --from-file id_ed25519
    """
    checked = names.secret_name(name)
    body: dict[str, Any] = {"value": _read(checked, path)}
    if granted_to is not None:
        body["granted_to"] = _GRANTS[granted_to]
    if content_type is not None:
        body["content_type"] = content_type
    kept = context.request("PUT", f"{context.workspace_path}/secrets/{checked}", body)
    if context.json:
        context.terminal.json(kept)
        return
    context.terminal.line(f"{checked} is set (version {kept['version']}), for {_who(kept['granted_to'])}.")
    if not kept["is_masked"]:
        context.terminal.note("Its value is too short to be masked in logs.")


@secret.command("list", cls=Command, short_help="List the secrets, without their values.")
@click.pass_obj
def list_secrets(context: CommandContext) -> None:
    """List the secrets of the workspace, without their values."""
    columns = [
        Column("SECRET"),
        Column("VERSION", right=True),
        Column("TYPE", least=12),
        Column("FOR"),
        Column("CHANGED", right=True),
        Column("BY", least=8),
    ]

    def row(view: dict[str, Any]) -> list[str]:
        who, changed = _who(view["granted_to"]), format.ago(view["changed_at"], context.now)
        kind = view.get("content_type") or ""
        return [view["name"], str(view["version"]), kind, who, changed, view["created_by"]]

    found = context.get("/secrets")["secrets"]
    context.print_list("secrets", found, "No secrets yet: windlass secret set NAME", columns, row)


@secret.command("grant", cls=Command, short_help="Change which runs get a secret.")
@click.argument("name", type=SECRET)
@click.argument("to", type=click.Choice(list(_GRANTS)), metavar="[runs|named-runs|nobody]")
@click.pass_obj
def grant_secret(context: CommandContext, name: str, to: str) -> None:
    """Change which runs get the secret NAME: all of them, those that name it, or none. Runs that have started
    keep what they have.
    """
    kept = context.patch(f"/secrets/{names.secret_name(name)}", {"granted_to": _GRANTS[to]})
    if context.json:
        context.terminal.json(kept)
    else:
        context.terminal.line(f"{escape(name)} is for {_who(kept['granted_to'])} now.")


@secret.command("delete", cls=Command, short_help="Delete secrets.")
@click.argument("name", type=SECRET, nargs=-1, required=True)
@click.pass_obj
def delete_secret(context: CommandContext, name: tuple[str, ...]) -> None:
    """Delete the secrets NAME. This cannot be undone."""
    for one in [names.secret_name(each) for each in name]:
        context.request("DELETE", f"{context.workspace_path}/secrets/{one}")
        if not context.json:
            context.terminal.line(f"{one} is deleted.")
    if context.json:
        context.terminal.json({"deleted": list(name)})


@secret.command("rotate-key", cls=Command, short_help="Encrypt all secrets with a new key.")
@click.pass_obj
def rotate_key(context: CommandContext) -> int:
    """Make a new key and encrypt the secrets of all workspaces with it, for instance because someone may have seen the
    key file. The values stay the same: set new ones if they may have been seen, too.
    """
    done = context.post("/keys/rotate")
    elsewhere = done.get("refused_elsewhere", 0)
    if context.json:
        context.terminal.json(done)
    else:
        context.terminal.line(f"{format.count(done['resealed'], 'secret')} sealed with the new key {done['key_id']}.")
        for lost in done["refused"]:
            context.terminal.line(f"{escape(lost)} does not open, so it was left as it is: set it again.")
        if elsewhere:
            context.terminal.line(f"{format.count(elsewhere, 'secret')} of other workspaces did not open.")
    return 1 if done["refused"] or elsewhere else 0


def _read(name: str, path: str | None) -> str:
    if path is not None:
        return _decode(_file(path), escape(path))
    if not can_ask():
        content = _bounded(sys.stdin.buffer) if sys.stdin is not None else b""
        content = content[:-2] if content.endswith(b"\r\n") else content.removesuffix(b"\n")
        if not content:
            raise InvalidRequest(
                "No value came in on standard input.", f"Call it at a terminal, or: windlass secret set {name} < FILE"
            )
        return _decode(content, "standard input")
    value = ask_secret(f"Value of {name}: ")
    if ask_secret("Again: ") != value:
        raise InvalidRequest("These were two different values.", "Nothing was changed; try again.")
    return value


def _file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return _bounded(file)
    except FileNotFoundError:
        raise NotFound(f"There is no file {escape(path)}.") from None
    except OSError as e:
        raise InvalidRequest(f"{escape(path)} cannot be read: {e.strerror}.") from None


def _bounded(file: BinaryIO) -> bytes:
    """Read one byte more than is allowed, so that the server refuses it with its limit."""
    return file.read(_LARGEST + 1)


def _decode(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(
            f"What is in {where} is not text.", "Set it as base64, and decode it in the script."
        ) from None


def _who(granted_to: str) -> str:
    return {"runs": "all runs", "named runs": "runs that name it", "nobody": "nobody"}.get(
        granted_to, escape(granted_to)
    )
