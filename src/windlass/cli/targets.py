"""Targets as people read them: in a list, one by one, and what a machine offers and lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.cli import words
from windlass.cli.table import Column
from windlass.core import names
from windlass.core.sanitize import one_line, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.cli.call import Call

Target = dict[str, Any]
# Told elsewhere, or of no use to a person.
_UNTOLD = ("boot_id", "missing", "home", "arrival")
_OF_LOGIN = ("address", "port", "username", "host_key", "host_key_confirmed")


def print_targets(call: Call, targets: list[Target], indent: int = 0) -> None:
    columns = [
        Column("TARGET"),
        Column("KIND"),
        Column("WHERE", least=12),
        Column("STATE"),
        Column("SLOTS", right=True),
        Column("ACTIVE", right=True),
        Column("QUEUED", right=True),
    ]
    call.table(columns, [_row(target) for target in targets], indent)


def _row(target: Target) -> list[str]:
    return [
        target["name"],
        target["kind"],
        where(target),
        "quarantined" if target.get("quarantine") else "",
        *(str(target.get(key) or 0) for key in ("slots", "active_runs", "queued_runs")),
    ]


def where(target: Target) -> str:
    """jane@10.0.0.7, with a port that is not the usual one; nothing for what has no address."""
    config = target.get("config") or {}
    if "address" not in config:
        return ""
    from windlass.client.compute_files import join_address

    return f"{config.get('username', '')}@{join_address(str(config['address']), config.get('port'))}"


def print_target(call: Call, target: Target) -> None:
    call.terminal.line(f"Target {call.terminal.bold(shown(target['name']))}")
    call.facts(_facts(call, target))
    inventory = target.get("inventory") or {}
    if inventory:
        call.terminal.line("Offers")
        call.facts(offer_facts(inventory))
        print_missing(call, inventory)


def _facts(call: Call, target: Target) -> Iterator[tuple[str, str]]:
    config = target.get("config") or {}
    yield "Kind", target["kind"]
    yield "Where", shown(where(target))
    if target.get("fingerprint"):
        compared = "" if config.get("host_key_confirmed") else "  (pinned, and compared by nobody)"
        yield "Host key", target["fingerprint"] + compared
    if target.get("quarantine"):
        yield "State", call.terminal.paint("quarantined", "red")
        yield "Why", one_line(target["quarantine"])
        yield "", f"windlass compute trust {shown(target['name'])}"
    yield "Attached by", shown(target.get("attached_by") or "")
    yield "Slots", str(target.get("slots") or "")
    yield "Active", str(target.get("active_runs", ""))
    yield "Queued", str(target.get("queued_runs", ""))
    yield from ((_label(key), _value(value)) for key, value in config.items() if key not in _OF_LOGIN)


def offer_facts(inventory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in inventory.items():
        if key not in _UNTOLD:
            yield _label(key), _offer(key, value.get("version") if isinstance(value, dict) else value)


def print_missing(call: Call, inventory: dict[str, Any]) -> None:
    """What the machine lacks or should be looked at, each with the command that mends it."""
    for lack in inventory.get("missing") or ():
        level = "warning" if lack.get("level") == "warning" else "missing"
        call.terminal.line(f"{call.terminal.paint(level, 'yellow')}  {one_line(str(lack['what']))}")
        call.terminal.line(f"         {one_line(str(lack['fix']))}")


def of_interest(target: Target) -> dict[str, Any]:
    """What a machine offered when it was attached, without Docker where its runs do not live in containers."""
    inventory = target.get("inventory") or {}
    if (target.get("config") or {}).get("docker"):
        return inventory
    missing = [lack for lack in inventory.get("missing") or () if lack.get("about") != "docker"]
    kept = {key: value for key, value in inventory.items() if key not in ("docker", "missing")}
    return {**kept, "missing": missing} if missing else kept


def print_attached(call: Call, target: Target, files: list[str] | None = None) -> None:
    """What was attached, what it offers, and what to do next."""
    if call.json:
        call.terminal.json({**target, "files": files or []})
        return
    name, inventory = shown(target["name"]), of_interest(target)
    call.terminal.line(f"Attached {call.terminal.bold(name)}  {shown(where(target))}".rstrip())
    call.facts(offer_facts(inventory))
    print_missing(call, inventory)
    if len(target["name"]) > names.USUAL_TARGET:
        call.terminal.note(f"{name} is longer than the {names.USUAL_TARGET} characters that Azure ML takes.")
    for file in files or ():
        call.terminal.line(f"Wrote {shown(file)}")
    is_open = any(key != "missing" for key in inventory)
    call.terminal.line(f"Run something there: windlass submit -c {name} train.py" if is_open else
                       f"When that is done: windlass compute check {name}")  # fmt: skip


def _label(key: str) -> str:
    return shown(key.removesuffix("_mb").replace("_", " "))


def _offer(key: str, value: Any) -> str:
    if key.endswith("_mb") and isinstance(value, (int, float)):
        return words.size(value * 1e6)
    return _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(item) for item in value)
    return "" if value is None else shown(str(value))
