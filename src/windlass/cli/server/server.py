"""`windlass server`: the private server of this home. It starts by itself when a command needs it."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from windlass._version import __version__
from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.errors import BY_CODE
from windlass.cli.output import format
from windlass.client.http import embedded_server
from windlass.client.http.session import Address, Session
from windlass.core.errors import Denied, InvalidRequest, NotFound, ServerUnavailable
from windlass.core.sanitize import escape

_END_SECONDS = 20.0
_POLL_SECONDS = 0.02
_NOT_RUNNING = "The server is not running. It starts with the first command that needs it."


@click.group("server", cls=Group, short_help="Start and stop the server.")
def server() -> None:
    """The server keeps the record of all runs. It starts by itself; runs go on while it is stopped."""


@server.command("start", cls=Command, short_help="Start the server, if it is not running.")
@click.pass_obj
def start(context: CommandContext) -> None:
    """Start the private server in the background, if it is not running."""
    _refuse_named(context, "start")
    where = home(context)
    embedded_server.find_or_start(where)
    _print(context, private_server_status(where))


@server.command("stop", cls=Command, short_help="Stop the server. Runs go on.")
@click.pass_obj
def stop(context: CommandContext) -> None:
    """Stop the private server. Runs go on, and the next server continues with them."""
    _refuse_named(context, "stop")
    where = home(context)
    was_running = stop_and_wait(where)
    if context.json:
        context.terminal.json({"running": False, "home": where, "stopped": was_running})
    else:
        context.terminal.line("The server has stopped. Runs go on." if was_running else "The server was not running.")


@server.command("restart", cls=Command, short_help="Stop the server and start it again.")
@click.pass_obj
def restart(context: CommandContext) -> None:
    """Stop the private server and start it again. Runs go on."""
    _refuse_named(context, "restart")
    where = home(context)
    stop_and_wait(where)
    embedded_server.find_or_start(where)
    _print(context, private_server_status(where))


@server.command("status", cls=Command, short_help="Show whether the server runs, and where.")
@click.pass_obj
def status(context: CommandContext) -> int:
    """Show whether the server runs, and where: the private one, or the one that WINDLASS_URL or --url names. The
    exit code is 5 if it does not.
    """
    found = named_server_status(context) if context.is_remote else private_server_status(home(context))
    _print(context, found)
    return 0 if found["running"] else BY_CODE["server_unavailable"]


@server.command("token", cls=Command, short_help="Print the token that signs in to the studio.")
@click.pass_obj
def token(context: CommandContext) -> None:
    """Print the token that signs in to the studio and opens the API: the owner's token of the private server, or your
    own (which WINDLASS_TOKEN has) of the server that WINDLASS_URL or --url names. Keep it to yourself.
    """
    secret = _own_token() if context.is_remote else embedded_server.find_or_start(home(context)).token
    if context.json:
        context.terminal.json({"token": secret})
    else:
        context.terminal.line(secret)


@server.command("run", cls=Command, short_help="Run the server in the foreground.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Listen on this port. [default: a free one]")
@click.option("--database", metavar="URL", help="postgresql://... for a shared server. [default: SQLite in the home]")
@click.pass_obj
def run(context: CommandContext, /, **options: Any) -> None:
    """Run the server in the foreground, until Ctrl-C."""
    command = [sys.executable, "-m", "windlass.server", "--home", home(context)]
    for name, value in options.items():
        if value is not None:
            command += [f"--{name}", str(value)]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def _refuse_named(context: CommandContext, verb: str) -> None:
    """Refuse to act on the private server while another server is named by WINDLASS_URL or --url."""
    if context.is_remote:
        url = escape(os.environ["WINDLASS_URL"])
        raise InvalidRequest(
            f"The server at {url} is in use here, and this command can only {verb} the private server of a home.",
            f"For the private one, name its home: windlass --home ~/.windlass server {verb}. The one at {url} is "
            "looked after where it runs.",
        )


def _own_token() -> str:
    token = os.environ.get("WINDLASS_TOKEN", "").strip()
    if not token:
        raise Denied(
            f"WINDLASS_TOKEN, the token for the server at {escape(os.environ['WINDLASS_URL'])}, is not set.",
            "Ask the owner of the workspace for one: windlass token create NAME",
        )
    return token


def home(context: CommandContext) -> str:
    context.export_options()
    return embedded_server.home()


def private_server_status(where: str) -> dict[str, Any]:
    """The status of the private server of a home, without starting it."""
    said = embedded_server.read(where)
    health = embedded_server.health(said) if said is not None else None
    if said is None or health is None:
        return {"running": False, "pid": None, "url": None, "home": where, "version": None}
    status = _session(where, said).call("GET", "/status")
    return {"running": True, **status}


def named_server_status(context: CommandContext) -> dict[str, Any]:
    """The status of the named server. Members who may not see it get the counts of their workspace."""
    try:
        return {"running": True, **context.request("GET", "/status")}
    except Denied:
        return {"running": True, "url": os.environ["WINDLASS_URL"], **_summary(context)}
    except ServerUnavailable:
        return {"running": False, "pid": None, "url": os.environ["WINDLASS_URL"], "home": None, "version": None}


def _summary(context: CommandContext) -> dict[str, Any]:
    """The version and the counts of a workspace. Older servers tell members only the version."""
    try:
        found = context.get("/summary")
    except NotFound:
        return {"version": context.request("GET", "/health")["version"]}
    return {key: found[key] for key in ("version", "active_runs", "queued_runs")}


def stop_and_wait(where: str) -> bool:
    """Stop the server of a home and wait until it is gone. False if there was none."""
    said = embedded_server.read(where)
    if said is None or embedded_server.health(said) is None:
        return False
    _session(where, said).call("POST", "/shutdown")
    deadline = time.monotonic() + _END_SECONDS
    while embedded_server.read(where) == said or _is_alive(said.pid):
        if time.monotonic() > deadline:
            raise ServerUnavailable(f"The server (process {said.pid}) does not end.", f"Stop it: kill {said.pid}")
        time.sleep(_POLL_SECONDS)
    return True


def _session(where: str, said: embedded_server.Server) -> Session:
    with open(os.path.join(where, "token"), encoding="ascii") as file:
        token = file.read().strip()
    return Session(lambda: Address(said.url, token, where), retry_seconds=1.0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether the process has ended and its parent (perhaps in a container without an init) has not reaped it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


def _print(context: CommandContext, found: dict[str, Any]) -> None:
    if context.json:
        context.terminal.json(found)
    elif not found["running"]:
        url = found["url"]
        context.terminal.line(f"The server at {escape(url)} does not answer." if url else _NOT_RUNNING)
    else:
        context.terminal.line(f"The server is running at {context.terminal.bold(escape(found['url']))}")
        context.print_facts(server_facts(context, found))


def server_facts(context: CommandContext, found: dict[str, Any]) -> list[tuple[str, str]]:
    version = str(found["version"])
    other = f" (this command is {__version__})" if version != __version__ else ""
    return [
        ("Studio", f"{escape(found['url'])} (windlass studio opens it, signed in)"),
        ("Process", str(found.get("pid") or "")),
        ("Home", escape(str(found.get("home") or ""))),
        ("Version", version + other),
        ("Since", format.at(found.get("started_at"), context.now)),
        ("Database", escape(str(found.get("database") or ""))),
        ("Runs", f"{found['active_runs']} active, {found['queued_runs']} waiting" if "active_runs" in found else ""),
    ]
