"""Output of targets as tables and text: location, state, nodes, inventory, problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.core import names
from windlass.core.sanitize import escape, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.cli.context import CommandContext

Target = dict[str, Any]
# Parts of an inventory that are printed elsewhere, or that only the server needs.
_NOT_SHOWN = ("boot_id", "problems", "home", "arrival")
_SUCCEEDED = "Succeeded"
QUEUE_SHOWN = 10
EVENTS_SHOWN = 5


def print_targets(context: CommandContext, targets: list[Target], indent: int = 0) -> None:
    columns = [
        Column("TARGET"),
        Column("KIND"),
        Column("WHERE", least=12),
        Column("STATE"),
        Column("NODES", right=True),
        Column("SLOTS", right=True),
        Column("ACTIVE", right=True),
        Column("QUEUED", right=True),
    ]
    context.print_table(columns, [_row(target) for target in targets], indent)


def _row(target: Target) -> list[str]:
    return [
        target["name"],
        target["kind"],
        target.get("location") or "",
        _state(target),
        _node_count(target),
        str(target.get("slots") or ""),
        *(str(target.get(key) or 0) for key in ("active_runs", "queued_runs")),
    ]


def _node_count(target: Target) -> str:
    """How many nodes a cluster has, of how many; empty for other targets."""
    most = (target.get("config") or {}).get("max_nodes")
    if most is None:
        return ""
    return f"{sum((target.get('nodes') or {}).values())} of {most}"


def _state(target: Target) -> str:
    """The state of a target that cannot be used; else empty."""
    if target.get("quarantine"):
        return "quarantined"
    state = target.get("provisioning_state") or _SUCCEEDED
    return "" if state == _SUCCEEDED else str(state).lower()


def print_target(
    context: CommandContext, target: Target, kind: dict[str, Any], nodes: list[dict[str, Any]] | None = None
) -> None:
    context.terminal.line(f"Target {context.terminal.bold(escape(target['name']))}")
    context.print_facts(_facts(context, target, kind))
    inventory = target.get("inventory") or {}
    if inventory:
        context.terminal.line("Offers")
        context.print_facts(inventory_facts(inventory))
        print_problems(context, inventory)
    if nodes:
        context.terminal.line("Nodes")
        print_nodes(context, nodes)
    elif nodes is not None:
        context.terminal.line("Nodes: none now")


def _facts(context: CommandContext, target: Target, kind: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Kind", target["kind"]
    yield "Where", escape(target.get("location") or "")
    if target.get("pin"):
        compared = "" if target.get("pin_confirmed") else "  (not compared by anybody yet)"
        yield "Pinned", escape(target.get("pin_shown_as") or target["pin"]) + compared
    if target.get("quarantine"):
        yield "State", context.terminal.paint("quarantined", "red")
        yield "Why", one_line(target["quarantine"])
        yield "", f"windlass compute trust {escape(target['name'])}"
    if kind.get("is_managed"):
        state = str(target.get("provisioning_state") or "")
        yield "Provisioning", context.terminal.paint(state, "red") if state == "Failed" else state
    yield "Message", one_line(target.get("provisioning_message") or "")
    yield "Needs", ", ".join(map(escape, target.get("depends_on") or ()))
    yield "Created by" if kind.get("is_managed") else "Attached by", escape(target.get("attached_by") or "")
    yield "Slots", str(target.get("slots") or "")
    yield "Active", str(target.get("active_runs", ""))
    yield "Queued", str(target.get("queued_runs", ""))
    yield from ((_label(key), _value(value)) for key, value in _settings(target, kind))


def _settings(target: Target, kind: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The settings, without those that the location shows already: address, account."""
    required = (kind.get("config_schema") or {}).get("required") or ()
    for key, value in (target.get("config") or {}).items():
        if not (kind.get("is_attachable") and key in required and str(value) in (target.get("location") or "")):
            yield key, value


def print_queue(context: CommandContext, queue: list[dict[str, Any]], count: int, indent: int = 2) -> None:
    """Print the queued runs, and what each waits for."""
    if not queue:
        return
    context.terminal.line("Queue")
    columns = [Column("RUN"), Column("TARGET", least=8), Column("SINCE", right=True), Column("WHY", wraps=True)]
    rows = [
        [
            format.short_id(run["id"]),
            run["target"],
            format.ago(run.get("state_at"), context.now),
            one_line(run.get("message") or ""),
        ]
        for run in queue[:QUEUE_SHOWN]
    ]
    context.print_table(columns, rows, indent)
    if count > len(rows):
        context.terminal.line(context.terminal.dim(f"  and {count - len(rows)} more: windlass runs -s Queued"))


def print_events(context: CommandContext, events: list[dict[str, Any]], indent: int = 0) -> None:
    """Print events of a target, the oldest first."""
    columns = [Column("TIME"), Column("EVENT"), Column("WHAT", wraps=True)]
    rows = [
        [
            format.ago(event["at"], context.now),
            escape(event["kind"].replace("_", " ")),
            one_line(event.get("message") or ""),
        ]
        for event in events
    ]
    context.print_table(columns, rows, indent)


def print_nodes(context: CommandContext, nodes: list[dict[str, Any]]) -> None:
    columns = [
        Column("NODE"),
        Column("STATE"),
        Column("RESOURCES", least=12),
        Column("RUNS"),
        Column("MESSAGE", least=12),
    ]
    context.print_table(columns, [_node_row(node) for node in nodes], 2)


def _node_row(node: dict[str, Any]) -> list[str]:
    resources = node.get("resources") or {}
    return [
        escape(node["id"]),
        escape(node["state"]),
        ", ".join(f"{_label(key)} {_amount(key, value)}" for key, value in resources.items()),
        ", ".join(format.short_id(run) for run in node.get("runs") or ()),
        one_line(node.get("message") or ""),
    ]


def inventory_facts(inventory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in inventory.items():
        if key not in _NOT_SHOWN:
            yield _label(key), _amount(key, value.get("version") if isinstance(value, dict) else value)


def print_problems(context: CommandContext, inventory: dict[str, Any]) -> None:
    """Print missing requirements and warnings, each with the command that fixes it."""
    for problem in inventory.get("problems") or ():
        level = "warning" if problem.get("level") == "warning" else "missing"
        context.terminal.line(f"{context.terminal.paint(level, 'yellow')}  {one_line(str(problem['message']))}")
        context.terminal.line(f"         {one_line(str(problem['fix']))}")


def relevant_inventory(target: Target) -> dict[str, Any]:
    """The inventory without what belongs to settings that are off, such as Docker."""
    inventory, config = target.get("inventory") or {}, target.get("config") or {}
    off = [key for key, value in config.items() if value is False]
    problems = [problem for problem in inventory.get("problems") or () if problem.get("about") not in off]
    kept = {key: value for key, value in inventory.items() if key not in (*off, "problems")}
    return {**kept, "problems": problems} if problems else kept


def print_attached(context: CommandContext, target: Target, files: list[str] | None = None) -> None:
    """Print what was attached, its inventory, and the next command."""
    if context.json:
        context.terminal.json({**target, "files": files or []})
        return
    inventory = relevant_inventory(target)
    _print_heading(context, "Attached", target)
    context.print_facts(inventory_facts(inventory))
    print_problems(context, inventory)
    for note in target.get("notes") or ():
        context.terminal.lines([escape(line) for line in str(note).splitlines()])
    _warn_of_long_name(context, target["name"])
    for file in files or ():
        context.terminal.line(f"Wrote {escape(file)}")
    is_open = any(key != "problems" for key in inventory)
    name = escape(target["name"])
    context.terminal.line(f"Run something there: windlass submit -c {name} train.py" if is_open else
                       f"When that is done: windlass compute check {name}")  # fmt: skip


def print_created(context: CommandContext, target: Target) -> None:
    """Print what was created, and the next command."""
    if context.json:
        context.terminal.json(target)
        return
    is_ready = target.get("provisioning_state") == _SUCCEEDED
    _print_heading(context, "Created" if is_ready else "Creating", target)
    _warn_of_long_name(context, target["name"])
    name = escape(target["name"])
    context.terminal.line(f"Run something there: windlass submit -c {name} train.py" if is_ready else
                       f"How far it is: windlass compute show {name}")  # fmt: skip


def _print_heading(context: CommandContext, verb: str, target: Target) -> None:
    name, where = context.terminal.bold(escape(target["name"])), escape(target.get("location") or "")
    context.terminal.line(f"{verb} {name}  {where}".rstrip())


def _warn_of_long_name(context: CommandContext, name: str) -> None:
    if len(name) > names.USUAL_TARGET:
        context.terminal.note(f"{escape(name)} is longer than the {names.USUAL_TARGET} characters that Azure ML takes.")


def _label(key: str) -> str:
    return escape(key.removesuffix("_mb").replace("_", " "))


def _amount(key: str, value: Any) -> str:
    if key.endswith("_mb") and isinstance(value, (int, float)):
        return format.size(value * 1e6)
    return _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{escape(str(key))}={_value(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(item) for item in value)
    return "" if value is None else escape(str(value))
