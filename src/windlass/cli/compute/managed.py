"""`windlass compute create KIND NAME` and `windlass compute delete NAME`: targets that the server creates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.compute import kind_options
from windlass.cli.compute.attach import build_command, ordered, refuse_taken, require_terminal, send, slots_option
from windlass.cli.compute.kind_options import OptionNames
from windlass.cli.compute.kinds import Kind, KindGroup, kind_of
from windlass.cli.compute.target_output import print_created
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import TARGET
from windlass.core import names
from windlass.core.errors import NotFound, SpecNotSupported, TargetRejected
from windlass.core.sanitize import escape, one_line

_FAILED = "Failed"
_UNDER_WAY = ("Creating", "Updating", "Deleting")
_POLL_SECONDS = (0.2, 0.5, 1.0, 2.0)  # the last one repeats


def _create_command(kind: Kind) -> Command:
    generic = [
        slots_option("How many runs at once. [default: what it has room for]"),
        click.Option(["--no-wait"], is_flag=True, help="Do not wait until it is created."),
    ]
    taken = OptionNames(name for option in generic for name in option.opts)
    settings = kind_options.settings(kind["config_schema"], taken)
    secrets = kind_options.secrets(kind.get("credentials_schema"), taken)

    @click.pass_obj
    def run(context: CommandContext, /, name: str, slots: int | None, no_wait: bool, **values: Any) -> None:
        name = names.target_name(name)
        config = kind_options.read_settings(settings, values)
        given = kind_options.read_secrets(secrets, values)
        refuse_taken(context, name, f"Choose another name, or change it: windlass compute update {escape(name)}")
        asked = kind_options.to_ask(secrets, given, values)
        require_terminal(asked)
        given |= {secret.name: secret.ask(escape(name)) for secret in asked}
        body = {"name": name, "kind": kind["kind"], "config": config, "credentials": given, "slots": slots}
        target = send(context, body, secrets, escape(name), "created")
        if not no_wait:
            target = wait_until_settled(context, target)
        print_created(context, target)

    return build_command(kind, run, [*ordered(settings, secrets), *generic])


create = KindGroup(
    "create",
    "is_managed",
    _create_command,
    help="Create a target under a name. `windlass compute create KIND --help` has the options.",
    short_help="Create a target of a kind that the server manages.",
)


@click.command("delete", cls=Command, short_help="Delete a target that was created.")
@click.argument("name", type=TARGET)
@click.option("--force", is_flag=True, help="Even if it has runs, which then fail.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is deleted.")
@click.pass_obj
def delete_target(context: CommandContext, name: str, force: bool, no_wait: bool) -> None:
    """Delete the target NAME with all that was created for it."""
    path = f"/targets/{names.target_name(name)}"
    target = context.get(path)
    if not kind_of(context, target).get("is_managed"):
        raise SpecNotSupported(
            f"{escape(name)} was not created here, so it is not deleted.",
            f"To forget it: windlass compute detach {escape(name)}",
        )
    gone = context.request("DELETE", context.workspace_path + path, None, {"force": "true"} if force else None)
    if not no_wait:
        _wait_until_deleted(context, name)
    if context.json:
        context.terminal.json(gone)
    else:
        context.terminal.line(f"{escape(name)} is being deleted." if no_wait else f"Deleted {escape(name)}.")


def wait_until_settled(context: CommandContext, target: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end of provisioning, and print its messages. Raises if it failed, or the target was deleted."""
    for view in _poll(context, target):
        if view["provisioning_state"] == _FAILED:
            raise _failure(view)
        if view["provisioning_state"] not in _UNDER_WAY:
            return view
    raise NotFound(f"{escape(target['name'])} was deleted meanwhile.")


def _wait_until_deleted(context: CommandContext, name: str) -> None:
    for view in _poll(context, _find(context, name)):
        if view["provisioning_state"] == _FAILED:
            raise _failure(view)


def _find(context: CommandContext, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = context.get(f"/targets/{name}")
    except NotFound:
        return None
    return found


def _poll(context: CommandContext, target: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Poll the view of a target until it is gone, and print each new provisioning message."""
    said, polls = None, 0
    while target is not None:
        now = (target["provisioning_state"], target.get("provisioning_message") or "")
        if now != said and now[0] in _UNDER_WAY and not context.json:
            context.terminal.note(f"{now[0]} {escape(target['name'])} ... {one_line(now[1])}".rstrip())
        said = now
        yield target
        try:
            time.sleep(_POLL_SECONDS[min(polls, len(_POLL_SECONDS) - 1)])
        except KeyboardInterrupt:
            context.terminal.note(f"It goes on all the same: windlass compute show {escape(target['name'])}")
            raise
        polls += 1
        target = _find(context, target["name"])


def _failure(view: dict[str, Any]) -> TargetRejected:
    name = escape(view["name"])
    return TargetRejected(
        f"{name}: {one_line(view.get('provisioning_message') or 'provisioning failed')}",
        f"To remove what is left of it: windlass compute delete {name}",
    )
