"""`windlass compute`: the targets of the workspace."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli import host_keys
from windlass.cli.asking import waiting
from windlass.cli.attach import attach
from windlass.cli.call import Call
from windlass.cli.command import Command, Group
from windlass.cli.errors import BY_CODE
from windlass.cli.param_types import TARGET
from windlass.cli.targets import offer_facts, print_missing, print_target, print_targets, where
from windlass.core import names
from windlass.core.sanitize import one_line, shown


@click.group("compute", cls=Group, short_help="Attach, list, show, check and change targets.")
def compute() -> None:
    """Targets are named places to run. `local` is this machine and is always there; others are attached."""


@compute.command("list", cls=Command, short_help="List the targets.")
@click.pass_obj
def list_targets(call: Call) -> None:
    """List the targets of the workspace, and how busy they are."""
    found = call.get("/targets")["targets"]
    if call.json:
        call.terminal.json({"targets": found})
    else:
        print_targets(call, found)


@compute.command("show", cls=Command, short_help="Show a target.")
@click.argument("name", type=TARGET)
@click.pass_obj
def show_target(call: Call, name: str) -> None:
    """Show the target NAME: its kind, configuration and load, and what it offered when it was last asked."""
    _print(call, call.get(f"/targets/{names.target_name(name)}"))


def _print(call: Call, target: dict[str, Any]) -> None:
    if call.json:
        call.terminal.json(target)
    else:
        print_target(call, target)


@compute.command("check", cls=Command, short_help="Check that a target could run something now.")
@click.argument("name", type=TARGET, default="local")
@click.pass_obj
def check_target(call: Call, name: str) -> int:
    """Check that the target NAME (default: local) could run something now, what it offers and what it lacks."""
    with waiting(call, f"Asking {shown(name)} ..."):
        found = call.post(f"/targets/{names.target_name(name)}/check")
    if call.json:
        call.terminal.json(found)
    else:
        word = call.terminal.paint("ok", "green") if found["ok"] else call.terminal.paint("not ok", "red")
        call.terminal.line(f"{shown(name)}: {word}  {one_line(found['message'])}".rstrip())
        call.facts(offer_facts(found.get("inventory") or {}))
        print_missing(call, found.get("inventory") or {})
    return 0 if found["ok"] else BY_CODE["target_error"]


compute.add_command(attach)


@compute.command("detach", cls=Command, short_help="Forget a target that was attached.")
@click.argument("name", type=TARGET)
@click.option("--force", is_flag=True, help="Also with runs, which fail here and go on there, or others behind it.")
@click.pass_obj
def detach_target(call: Call, name: str, force: bool) -> None:
    """Forget the target NAME and what opens it. The machine itself and what is on it stay as they are."""
    query = {"force": "true"} if force else None
    gone = call.ask("DELETE", f"{call.root}/targets/{names.target_name(name)}", None, query)
    if call.json:
        call.terminal.json(gone)
        return
    call.terminal.line(f"Detached {shown(name)}.")
    for run in gone["left"]:
        call.terminal.line(f"Left there: {shown(run)}   windlass events {shown(run)}")


@compute.command("trust", cls=Command, short_help="Trust a machine whose host key changed.")
@click.argument("name", type=TARGET)
@click.option("--host-key", metavar="FINGERPRINT|accept", help="What its host key must be (SHA256:…), without asking.")
@click.option("-y", "--yes", is_flag=True, help="Take the machine that answers for the right one.")
@click.pass_obj
def trust_target(call: Call, name: str, host_key: str | None, yes: bool) -> None:
    """Look at the host key that the target NAME has now, and pin it: ends the quarantine of a machine that was set up
    anew. If you did not expect another key, somebody may stand between you and the machine.
    """
    path = f"/targets/{names.target_name(name)}"
    target = call.get(path)
    with waiting(call, f"Asking {shown(name)} for its host key ..."):
        seen = call.post(f"{path}/identify")
    if not call.json:
        call.terminal.note(f"Until now {shown(name)} had the host key\n  {target.get('fingerprint')}")
    is_confirmed = host_keys.confirm(call, where(target), seen, host_key, yes)
    body = {"host_key": seen["host_key"], "host_key_confirmed": is_confirmed}
    _print(call, call.post(f"{path}/trust", body))


@compute.command("update", cls=Command, short_help="Change a target.")
@click.argument("name", type=TARGET)
@click.option("--slots", type=click.IntRange(1, 10_000), metavar="N", help="How many runs at once.")
@click.option("--python", metavar="PATH", help="The Python there that runs the runner.")
@click.option("--docker/--no-docker", default=None, help="Whether all runs there live in containers.")
@click.option("--base-image", metavar="IMAGE", help="The image of containers whose run names none; '' for none.")
@click.option("--network", metavar="NAME", help="The network of containers there.")
@click.option("--engine", metavar="ADDRESS", help="The socket of the Docker engine there: unix:///path.")
@click.option("--allow-privileged/--refuse-privileged", default=None, help="Whether runs may ask for privileged "
              "options of Docker: that is root there.")  # fmt: skip
@click.pass_obj
def update_target(call: Call, /, name: str, slots: int | None, **settings: Any) -> None:
    """Change the target NAME. Runs that are going on stay as they are. Address and credentials are changed by
    `windlass compute attach … --update`.
    """
    config = {key: value for key, value in settings.items() if value is not None}
    config = {key: None if value == "" else value for key, value in config.items()}
    changes = {**({} if slots is None else {"slots": slots}), **({"config": config} if config else {})}
    if not changes:
        raise click.UsageError("There is nothing to change.")
    _print(call, call.patch(f"/targets/{names.target_name(name)}", changes))


@compute.command("public-key", cls=Command, short_help="Print the workspace's public key.")
@click.pass_obj
def public_key(call: Call) -> None:
    """Print the public key by which the workspace logs in where it was attached with -k: a line for
    ~/.ssh/authorized_keys there.
    """
    found = call.get("/public-key")
    if call.json:
        call.terminal.json(found)
    else:
        call.terminal.line(found["public_key"])
