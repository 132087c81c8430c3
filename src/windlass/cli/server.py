"""`windlass server`: the private server of this home. It starts by itself when a command needs it."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from windlass._version import __version__
from windlass.cli import words
from windlass.cli.call import Call
from windlass.cli.command import Command, Group
from windlass.cli.errors import BY_CODE
from windlass.client import embedded
from windlass.client.http import Address, Session
from windlass.core.errors import ServerUnavailable
from windlass.core.sanitize import shown

_END_SECONDS = 20.0
_POLL_SECONDS = 0.02
_NOT_RUNNING = "The server is not running. It starts with the first command that needs it."


@click.group("server", cls=Group, short_help="Start and stop the server.")
def server() -> None:
    """The server keeps the record of all runs. It starts by itself; runs go on while it is away."""


@server.command("start", cls=Command, short_help="Start the server, if it is not running.")
@click.pass_obj
def start(call: Call) -> None:
    """Start the server in the background, if it is not running."""
    where = home(call)
    embedded.find_or_start(where)
    _print(call, status_of(where))


@server.command("stop", cls=Command, short_help="Stop the server. Runs go on.")
@click.pass_obj
def stop(call: Call) -> None:
    """Stop the server. Runs go on, and the next server takes them up."""
    where = home(call)
    was_running = end(where)
    if call.json:
        call.terminal.json({"running": False, "home": where, "stopped": was_running})
    else:
        call.terminal.line("The server has stopped. Runs go on." if was_running else "The server was not running.")


@server.command("restart", cls=Command, short_help="Stop the server and start it again.")
@click.pass_obj
def restart(call: Call) -> None:
    """Stop the server and start it again. Runs go on."""
    where = home(call)
    end(where)
    embedded.find_or_start(where)
    _print(call, status_of(where))


@server.command("status", cls=Command, short_help="Show whether the server runs, and where.")
@click.pass_obj
def status(call: Call) -> int:
    """Show whether the server runs, and where. Exit code 5 if it does not."""
    found = status_of(home(call))
    _print(call, found)
    return 0 if found["running"] else BY_CODE["server_unavailable"]


@server.command("token", cls=Command, short_help="Print the token that opens a run's page.")
@click.pass_obj
def token(call: Call) -> None:
    """Print the owner's token of this server: it opens the pages of runs. Keep it to yourself."""
    secret = embedded.find_or_start(home(call)).token
    if call.json:
        call.terminal.json({"token": secret})
    else:
        call.terminal.line(secret)


@server.command("run", cls=Command, short_help="Run the server in the foreground.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Listen on this port. [default: a free one]")
@click.option("--database", metavar="URL", help="postgresql://... for a shared server. [default: SQLite in the home]")
@click.pass_obj
def run(call: Call, /, **options: Any) -> None:
    """Run the server in the foreground, until Ctrl-C."""
    command = [sys.executable, "-m", "windlass.server", "--home", home(call)]
    for name, value in options.items():
        if value is not None:
            command += [f"--{name}", str(value)]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def home(call: Call) -> str:
    call.point()
    return embedded.home()


def status_of(where: str) -> dict[str, Any]:
    """What is known of the server of a home, without starting it."""
    said = embedded.read(where)
    health = embedded.health(said) if said is not None else None
    if said is None or health is None:
        return {"running": False, "pid": None, "url": None, "home": where, "version": None}
    told = _session(where, said).call("GET", "/status")
    return {"running": True, **told}


def end(where: str) -> bool:
    """Stop the server of a home and wait until it is gone. False if there was none."""
    said = embedded.read(where)
    if said is None or embedded.health(said) is None:
        return False
    _session(where, said).call("POST", "/shutdown")
    deadline = time.monotonic() + _END_SECONDS
    while embedded.read(where) == said or _is_alive(said.pid):
        if time.monotonic() > deadline:
            raise ServerUnavailable(f"The server (process {said.pid}) does not end.", f"Stop it: kill {said.pid}")
        time.sleep(_POLL_SECONDS)
    return True


def _session(where: str, said: embedded.Server) -> Session:
    with open(os.path.join(where, "token"), encoding="ascii") as file:
        token = file.read().strip()
    return Session(lambda: Address(said.url, token, where), patience_seconds=1.0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Dead, but its parent (perhaps in a container without an init) has not looked yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


def _print(call: Call, found: dict[str, Any]) -> None:
    if call.json:
        call.terminal.json(found)
    elif not found["running"]:
        call.terminal.line(_NOT_RUNNING)
    else:
        call.terminal.line(f"The server is running at {call.terminal.bold(shown(found['url']))}")
        call.facts(server_facts(call, found))


def server_facts(call: Call, found: dict[str, Any]) -> list[tuple[str, str]]:
    version = str(found["version"])
    other = f" (this command is {__version__})" if version != __version__ else ""
    return [
        ("Process", str(found["pid"])),
        ("Home", shown(str(found["home"]))),
        ("Version", version + other),
        ("Since", words.at(found.get("started_at"), call.now)),
        ("Database", shown(str(found.get("database") or ""))),
        ("Runs", f"{found.get('active_runs', 0)} active, {found.get('queued_runs', 0)} waiting"),
    ]
