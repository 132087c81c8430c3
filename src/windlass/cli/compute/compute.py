"""`windlass compute`: the targets of the workspace."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command, Group
from windlass.cli.compute import identity
from windlass.cli.compute.attach import attach
from windlass.cli.compute.kinds import kind_of, one_with_workspace_credential
from windlass.cli.compute.managed import create, delete_target
from windlass.cli.compute.target_output import (
    QUEUE_SHOWN,
    inventory_facts,
    print_problems,
    print_queue,
    print_target,
    print_targets,
)
from windlass.cli.compute.update import update_target
from windlass.cli.compute.waiting import waiting
from windlass.cli.context import Call
from windlass.cli.errors import BY_CODE
from windlass.cli.output.table import Column
from windlass.cli.parameters.types import CREDENTIAL_KIND, TARGET
from windlass.core import names
from windlass.core.errors import SpecNotSupported, TargetError
from windlass.core.sanitize import one_line, shown


@click.group("compute", cls=Group, short_help="Attach, create, list, show, check and change targets.")
def compute() -> None:
    """Targets are named places to run. `local` is this machine and is always there; others are attached or created."""


compute.elsewhere = {
    **dict.fromkeys(("rm", "remove", "del"), "`windlass compute detach` forgets a target that was attached, and "
                    "`windlass compute delete` deletes one that was created."),
    **dict.fromkeys(("add", "new", "register"), "`windlass compute attach` takes a machine or service of your own, and "
                    "`windlass compute create` makes a target."),
}  # fmt: skip


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
    """Show the target NAME: its kind, settings and load, its nodes, and what it offered when it was last checked."""
    path = f"/targets/{names.target_name(name)}"
    target = call.get(path)
    kind = kind_of(call, target)
    nodes = _nodes(call, path) if kind.get("has_nodes") else None
    queue = _queue(call, name) if nodes is not None and target.get("queued_runs") else []
    if call.json:
        call.terminal.json(target if nodes is None else {**target, "nodes": nodes, "queue": queue})
    else:
        print_target(call, target, kind, nodes)
        print_queue(call, queue, target.get("queued_runs") or 0)


def _queue(call: Call, name: str) -> list[dict[str, Any]]:
    """The first runs that wait for it."""
    query = {"target": name, "state": "Queued", "sort": "created_at", "limit": QUEUE_SHOWN}
    found: list[dict[str, Any]] = call.get("/runs", query)["runs"]
    return found


def _nodes(call: Call, path: str) -> list[dict[str, Any]] | None:
    try:
        with waiting(call, "Asking for its nodes ..."):
            found: list[dict[str, Any]] = call.get(f"{path}/nodes")["nodes"]
    except TargetError as e:  # all else about it is shown anyway
        call.terminal.note(f"Its nodes are not known: {one_line(e.message)}")
        return None
    return found


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
        call.facts(inventory_facts(found.get("inventory") or {}))
        print_problems(call, found.get("inventory") or {})
    return 0 if found["ok"] else BY_CODE["target_error"]


compute.add_command(attach)


@compute.command("detach", cls=Command, short_help="Forget a target that was attached.")
@click.argument("name", type=TARGET)
@click.option("--force", is_flag=True, help="Also with runs, which fail here and go on there, or others behind it.")
@click.pass_obj
def detach_target(call: Call, name: str, force: bool) -> None:
    """Forget the target NAME and what opens it. The machine itself and what is on it stay as they are."""
    path = f"/targets/{names.target_name(name)}"
    if kind_of(call, call.get(path)).get("is_managed"):
        raise SpecNotSupported(
            f"{shown(name)} was created here, so it is not detached.",
            f"To delete it with all that was created for it: windlass compute delete {shown(name)}",
        )
    gone = call.ask("DELETE", call.root + path, None, {"force": "true"} if force else None)
    if call.json:
        call.terminal.json(gone)
        return
    call.terminal.line(f"Detached {shown(name)}.")
    for run in gone["left"]:
        call.terminal.line(f"Left there: {shown(run)}   windlass events {shown(run)}")


compute.add_command(create)
compute.add_command(delete_target)


@compute.command("trust", cls=Command, short_help="Trust a target whose identity changed.", params=identity.options())
@click.argument("name", type=TARGET)
@click.pass_obj
def trust_target(call: Call, name: str, pin: str | None, yes: bool) -> None:
    """Look at what answers for the target NAME now, such as its host key, and pin it: ends the quarantine of a machine
    that was set up anew. If you did not expect a change, somebody may stand between you and the machine.
    """
    path = f"/targets/{names.target_name(name)}"
    target = call.get(path)
    with waiting(call, f"Connecting to {shown(name)} ..."):
        probed = call.post(f"{path}/probe")
    if probed["identity"] is None:
        raise SpecNotSupported(f"Nothing is pinned for targets of kind {target['kind']}, so there is nothing to trust.")
    if not call.json and target.get("pin"):
        what = shown(probed["identity"]["what"])
        call.terminal.note(
            f"Until now {shown(name)} had the {what}\n  {shown(target['pin_shown_as'] or target['pin'])}"
        )
    pinned, is_confirmed = identity.confirm(call, probed, pin, yes)
    trusted = call.post(f"{path}/trust", {"pin": pinned, "confirmed": is_confirmed})
    if call.json:
        call.terminal.json(trusted)
    else:
        print_target(call, trusted, kind_of(call, trusted))


compute.add_command(update_target)


@compute.command("simulate-eviction", cls=Command, short_help="Take nodes of a cluster away, to see what happens.")
@click.argument("target", type=TARGET)
@click.argument("node", required=False)
@click.pass_obj
def simulate_eviction(call: Call, target: str, node: str | None) -> None:
    """Take NODE of the cluster TARGET away, or all its nodes, as happens to nodes of low priority: their runs get
    SIGTERM, and are queued again with what they left in outputs/.
    """
    gone = call.post(f"/targets/{names.target_name(target)}/simulate-eviction", {"node": node})
    if call.json:
        call.terminal.json(gone)
    elif not gone["nodes"]:
        call.terminal.line(f"{shown(target)} has no nodes now.")
    else:
        call.terminal.line(f"Taken away: {', '.join(map(shown, gone['nodes']))}")
        call.terminal.line(f"What becomes of the runs: windlass runs --target {shown(target)} -s active")


@compute.command("sizes", cls=Command, short_help="List the sizes that nodes of a cluster may have.")
@click.pass_obj
def list_sizes(call: Call) -> None:
    """List the VM sizes for clusters, with approximate prices in US dollars per hour."""
    columns = [
        Column("SIZE"),
        Column("FAMILY", least=12),
        *(Column(title, right=True) for title in ("CORES", "MEMORY", "GPUS", "PER HOUR")),
    ]
    call.listing("sizes", call.get("/vm-sizes")["sizes"], "There are none.", columns, _size_row)


def _size_row(size: dict[str, Any]) -> list[str]:
    price = "" if size["price"] is None else f"${size['price']:.3f}"
    return [
        size["name"],
        size["family"],
        str(size["cores"]),
        f"{size['memory_gb']:g} GB",
        str(size["gpus"] or ""),
        price,
    ]


@compute.command("public-key", cls=Command, short_help="Print the workspace's public key.")
@click.argument("kind", type=CREDENTIAL_KIND, required=False)
@click.pass_obj
def public_key(call: Call, kind: str | None) -> None:
    """Print the public half of the workspace's own credential for targets of a KIND: for ssh, the key by which the
    workspace logs in where it was attached with -k, a line for ~/.ssh/authorized_keys there.
    """
    found = call.get(f"/kinds/{one_with_workspace_credential(call, kind)}/workspace-credential")
    if call.json:
        call.terminal.json(found)
    else:
        call.terminal.line(found["public"])
