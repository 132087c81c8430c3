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
    EVENTS_SHOWN,
    QUEUE_SHOWN,
    inventory_facts,
    print_events,
    print_problems,
    print_queue,
    print_target,
    print_targets,
)
from windlass.cli.compute.update import update_target
from windlass.cli.compute.waiting import waiting
from windlass.cli.context import CommandContext
from windlass.cli.errors import BY_CODE
from windlass.cli.output.table import Column
from windlass.cli.parameters.types import CREDENTIAL_KIND, TARGET
from windlass.core import names
from windlass.core.errors import NotFound, SpecNotSupported, TargetError
from windlass.core.sanitize import escape, one_line


@click.group("compute", cls=Group, short_help="Attach, create, list, show, check and change targets.")
def compute() -> None:
    """Targets are named places to run. `local` is this machine and is always there; others are attached or created."""


compute.command_hints = {
    **dict.fromkeys(("rm", "remove", "del"), "`windlass compute detach` forgets a target that was attached, and "
                    "`windlass compute delete` deletes one that was created."),
    **dict.fromkeys(("add", "new", "register"), "`windlass compute attach` takes a machine or service of your own, and "
                    "`windlass compute create` makes a target."),
}  # fmt: skip


@compute.command("list", cls=Command, short_help="List the targets.")
@click.pass_obj
def list_targets(context: CommandContext) -> None:
    """List the targets of the workspace, and how busy they are."""
    found = context.get("/targets")["targets"]
    if context.json:
        context.terminal.json({"targets": found})
    else:
        print_targets(context, found)


@compute.command("show", cls=Command, short_help="Show a target.")
@click.argument("name", type=TARGET)
@click.pass_obj
def show_target(context: CommandContext, name: str) -> None:
    """Show the target NAME: its kind, settings and load, its nodes, what it had when it was last checked, and its
    latest events.
    """
    path = f"/targets/{names.target_name(name)}"
    target = context.get(path)
    kind = kind_of(context, target)
    nodes = _nodes(context, path) if kind.get("has_nodes") else None
    queue = _queue(context, name) if nodes is not None and target.get("queued_runs") else []
    if context.json:
        context.terminal.json(target if nodes is None else {**target, "nodes": nodes, "queue": queue})
    else:
        print_target(context, target, kind, nodes)
        print_queue(context, queue, target.get("queued_runs") or 0)
        _print_latest_events(context, path)


def _print_latest_events(context: CommandContext, path: str) -> None:
    try:
        found = context.get(f"{path}/events", {"limit": EVENTS_SHOWN})["events"]
    except NotFound:  # a server of an older version
        return
    if found:
        context.terminal.line("Latest events")
        print_events(context, found[::-1], 2)


@compute.command("events", cls=Command, short_help="List what happened to a target.")
@click.argument("name", type=TARGET)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many, the latest."
)
@click.pass_obj
def target_events(context: CommandContext, name: str, limit: int) -> None:
    """List the latest events of the target NAME, the oldest first: who created, changed or deleted it, its nodes,
    evictions, quarantine. Those of a removed target are listed for 30 days.
    """
    page = context.get(f"/targets/{names.target_name(name)}/events", {"limit": limit})
    events = page["events"][::-1]
    if context.json:
        context.terminal.json({"target": name, "events": events})
    elif events:
        print_events(context, events)
    else:
        context.terminal.line(f"Nothing has happened to {escape(name)} yet.")


def _queue(context: CommandContext, name: str) -> list[dict[str, Any]]:
    """The first runs in its queue."""
    query = {"target": name, "state": "Queued", "sort": "created_at", "limit": QUEUE_SHOWN}
    found: list[dict[str, Any]] = context.get("/runs", query)["runs"]
    return found


def _nodes(context: CommandContext, path: str) -> list[dict[str, Any]] | None:
    try:
        with waiting(context, "Asking for its nodes ..."):
            found: list[dict[str, Any]] = context.get(f"{path}/nodes")["nodes"]
    except TargetError as e:  # everything else about it is still shown
        context.terminal.note(f"Its nodes are not known: {one_line(e.message)}")
        return None
    return found


@compute.command("check", cls=Command, short_help="Check that a target can run something now.")
@click.argument("name", type=TARGET, default="local")
@click.pass_obj
def check_target(context: CommandContext, name: str) -> int:
    """Check that the target NAME (default: local) can run something now; show what it has and what is missing."""
    with waiting(context, f"Asking {escape(name)} ..."):
        found = context.post(f"/targets/{names.target_name(name)}/check")
    if context.json:
        context.terminal.json(found)
    else:
        word = context.terminal.paint("ok", "green") if found["ok"] else context.terminal.paint("not ok", "red")
        context.terminal.line(f"{escape(name)}: {word}  {one_line(found['message'])}".rstrip())
        context.print_facts(inventory_facts(found.get("inventory") or {}))
        print_problems(context, found.get("inventory") or {})
    return 0 if found["ok"] else BY_CODE["target_error"]


compute.add_command(attach)


@compute.command("detach", cls=Command, short_help="Forget a target that was attached.")
@click.argument("name", type=TARGET)
@click.option(
    "--force", is_flag=True, help="Even if it has runs (they fail here, and go on there) or targets depend on it."
)
@click.pass_obj
def detach_target(context: CommandContext, name: str, force: bool) -> None:
    """Forget the target NAME and its credentials. The machine and the files on it stay as they are."""
    path = f"/targets/{names.target_name(name)}"
    if kind_of(context, context.get(path)).get("is_managed"):
        raise SpecNotSupported(
            f"{escape(name)} was created here, so it is not detached.",
            f"To delete it with all that was created for it: windlass compute delete {escape(name)}",
        )
    gone = context.request("DELETE", context.workspace_path + path, None, {"force": "true"} if force else None)
    if context.json:
        context.terminal.json(gone)
        return
    context.terminal.line(f"Detached {escape(name)}.")
    for run in gone["left"]:
        context.terminal.line(f"Left there: {escape(run)}   windlass events {escape(run)}")


compute.add_command(create)
compute.add_command(delete_target)


@compute.command("trust", cls=Command, short_help="Trust a target whose identity changed.", params=identity.options())
@click.argument("name", type=TARGET)
@click.pass_obj
def trust_target(context: CommandContext, name: str, pin: str | None, yes: bool) -> None:
    """Read the identity (such as the host key) of the machine that answers as NAME now, and pin it. This ends the
    quarantine of a machine that was set up anew. If you did not expect a change, someone may be intercepting the
    connection.
    """
    path = f"/targets/{names.target_name(name)}"
    target = context.get(path)
    with waiting(context, f"Connecting to {escape(name)} ..."):
        probed = context.post(f"{path}/probe")
    if probed["identity"] is None:
        raise SpecNotSupported(f"Nothing is pinned for targets of kind {target['kind']}, so there is nothing to trust.")
    if not context.json and target.get("pin"):
        what = escape(probed["identity"]["what"])
        context.terminal.note(
            f"Until now {escape(name)} had the {what}\n  {escape(target['pin_shown_as'] or target['pin'])}"
        )
    pinned, is_confirmed = identity.confirm(context, probed, pin, yes)
    trusted = context.post(f"{path}/trust", {"pin": pinned, "confirmed": is_confirmed})
    if context.json:
        context.terminal.json(trusted)
    else:
        print_target(context, trusted, kind_of(context, trusted))


compute.add_command(update_target)


@compute.command("simulate-eviction", cls=Command, short_help="Evict nodes of a cluster, as a test.")
@click.argument("target", type=TARGET)
@click.argument("node", required=False)
@click.pass_obj
def simulate_eviction(context: CommandContext, target: str, node: str | None) -> None:
    """Take NODE of the cluster TARGET away, or all its nodes, as happens to nodes of low priority. Their runs get
    SIGTERM, and are queued again with the files that they left in outputs/.
    """
    gone = context.post(f"/targets/{names.target_name(target)}/simulate-eviction", {"node": node})
    if context.json:
        context.terminal.json(gone)
    elif not gone["nodes"]:
        context.terminal.line(f"{escape(target)} has no nodes now.")
    else:
        context.terminal.line(f"Taken away: {', '.join(map(escape, gone['nodes']))}")
        context.terminal.line(f"What becomes of the runs: windlass runs --target {escape(target)} -s active")


@compute.command("sizes", cls=Command, short_help="List the sizes that nodes of a cluster may have.")
@click.pass_obj
def list_sizes(context: CommandContext) -> None:
    """List the VM sizes for clusters, with approximate prices in US dollars per hour."""
    columns = [
        Column("SIZE"),
        Column("FAMILY", least=12),
        *(Column(title, right=True) for title in ("CORES", "MEMORY", "GPUS", "PER HOUR")),
    ]
    context.print_list("sizes", context.get("/vm-sizes")["sizes"], "There are none.", columns, _size_row)


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
def public_key(context: CommandContext, kind: str | None) -> None:
    """Print the public half of the workspace's own credential for targets of KIND. For ssh it is a line for
    ~/.ssh/authorized_keys: the key that logs in to machines attached with -k.
    """
    found = context.get(f"/kinds/{one_with_workspace_credential(context, kind)}/workspace-credential")
    if context.json:
        context.terminal.json(found)
    else:
        context.terminal.line(found["public"])
