"""`windlass compute attach KIND NAME`: register a machine or service of one's own as a target.

Options and help come from the kind's schemas (kind_options.py); nothing here knows a kind. `attach_target` is the flow
that the commands of Azure ML Workbench share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from windlass.cli.command import Command
from windlass.cli.compute import credentials, identity, kind_options
from windlass.cli.compute.kind_options import OptionNames, Secret, Setting
from windlass.cli.compute.kinds import Kind, KindGroup
from windlass.cli.compute.target_output import print_attached
from windlass.cli.compute.waiting import waiting
from windlass.cli.context import CommandContext
from windlass.core import names
from windlass.core.errors import AlreadyExists, CredentialsNeeded, InvalidRequest, NotFound
from windlass.core.sanitize import escape


class Attachment(NamedTuple):
    """What a command line says about a target to attach."""

    name: str
    kind: str
    config: Mapping[str, Any]
    credentials: Mapping[str, str] = {}
    secrets: Mapping[str, Secret] = {}  # the credentials that may be asked for
    asked: Sequence[Secret] = ()  # those of them that are asked for in any case
    pin: str | None = None
    yes: bool = False
    slots: int | None = None
    is_update: bool = False


def attach_target(context: CommandContext, wanted: Attachment) -> dict[str, Any]:
    """Probe the target, have its identity confirmed, and attach it. Returns the view of the target.

    A name that is taken is refused first, and no secret is asked for or sent before the identity is confirmed.
    """
    if not wanted.is_update:
        refuse_taken(context, wanted.name, "Choose another name, or add --update to attach it again.")
    require_terminal(wanted.asked)
    with waiting(context, f"Connecting to {escape(wanted.name)} ..."):
        probed = context.post("/probe", {"kind": wanted.kind, "config": wanted.config})
    pin, is_confirmed = identity.confirm(context, probed, wanted.pin, wanted.yes)
    location = escape(probed["location"])
    given = {**wanted.credentials, **{secret.name: secret.ask(location) for secret in wanted.asked}}
    body = {
        "name": wanted.name,
        "kind": wanted.kind,
        "config": wanted.config,
        "credentials": given,
        "pin": pin,
        "pin_confirmed": is_confirmed,
        "slots": wanted.slots,
        "exist_ok": wanted.is_update,
    }
    return send(context, body, wanted.secrets, location, "attached")


def send(
    context: CommandContext, body: dict[str, Any], secrets: Mapping[str, Secret], location: str, becomes: str
) -> dict[str, Any]:
    """POST a target to the server. Credentials that the server misses are asked for, and it is sent again."""
    while True:
        try:
            with waiting(context, f"Waiting until {location} is {becomes} ..."):
                found: dict[str, Any] = context.post("/targets", body)
                return found
        except CredentialsNeeded as e:
            needed = [secrets[field] for field in e.details.get("fields", ()) if field in secrets]
            if not needed or any(secret.name in body["credentials"] for secret in needed):
                raise
            if not credentials.can_ask():
                options = " or ".join(secret.to_add() for secret in needed)
                raise InvalidRequest(e.message, f"Add {options}. {e.hint}".rstrip()) from None
            given = {secret.name: secret.ask(location) for secret in needed}
            body = {**body, "credentials": {**body["credentials"], **given}}
        except KeyboardInterrupt:
            # The server has the request, and completes it although the client is gone.
            context.terminal.note(f"{escape(body['name'])} may be {becomes} all the same: windlass compute list")
            raise


def refuse_taken(context: CommandContext, name: str, hint: str) -> None:
    """Refuse a name that is taken, before a person is asked for anything.

    Without a terminal the server decides: a script may repeat its command, if the target is the same.
    """
    if not credentials.can_ask():
        return
    try:
        context.get(f"/targets/{name}")
    except NotFound:
        return
    raise AlreadyExists(f"There is a target {escape(name)} already.", hint)


def require_terminal(asked: Sequence[Secret]) -> None:
    if asked and not credentials.can_ask():
        raise InvalidRequest(f"There is no terminal to ask for the {asked[0].label}.", f"Add {asked[0].to_add()}")


def generic_options(kind: str) -> list[click.Option]:
    """The options of every kind."""
    from windlass.client.config.workbench_compute_file import has_compute_file

    found = [
        slots_option("How many runs at once. [default: what it has room for]"),
        click.Option(
            ["--update", "is_update"], is_flag=True, help="Attach it again: other credentials, address or settings."
        ),
        *identity.options(),
    ]
    if has_compute_file(kind):
        text = "Write NAME.compute and NAME.runconfig. [default: if there is .azureml or aml_config]"
        found.append(click.Option(["--write-files/--no-write-files"], default=None, help=text))
    return found


def slots_option(text: str) -> click.Option:
    return click.Option(["--slots"], type=click.IntRange(1, 10_000), metavar="N", help=text)


def build_command(kind: Kind, callback: Any, options: Sequence[click.Option]) -> Command:
    """A command for a kind. An option of the kind replaces an option of every command (--url) of the same name."""
    # A line of \b keeps click from wrapping the paragraph below it.
    lines = str(kind.get("description") or "").splitlines()
    described = "\n".join(line if line == "\b" else escape(line) for line in lines)
    params: list[click.Parameter] = [click.Argument(["name"]), *options]
    short = " ".join(described.partition("\n\n")[0].split())
    made = Command(kind["kind"], callback=callback, params=list(params), help=described, short_help=short)
    taken = {name for option in options for name in option.opts}
    made.params = [param for param in made.params if param in params or taken.isdisjoint(param.opts)]
    return made


def ordered(settings: Sequence[Setting], secrets: Mapping[str, Secret]) -> list[click.Option]:
    """The options of a kind in the order of the help: prominent settings, credentials, other settings."""
    flags = [each for each in settings if each.has_flags]
    first = [each for each in settings if each.is_prominent and each not in flags]
    rest = [each for each in settings if each not in first and each not in flags]
    fields: list[Setting | Secret] = [*first, *secrets.values(), *flags, *rest]
    return [option for field in fields for option in field.options]


def _attach_command(kind: Kind) -> Command:
    generic = generic_options(kind["kind"])
    taken = OptionNames(name for option in generic for name in (*option.opts, *option.secondary_opts))
    settings = kind_options.settings(kind["config_schema"], taken)
    secrets = kind_options.secrets(kind.get("credentials_schema"), taken)

    @click.pass_obj
    def run(context: CommandContext, /, name: str, **values: Any) -> None:
        given = kind_options.read_secrets(secrets, values)
        target = attach_target(
            context,
            Attachment(
                name=names.target_name(name),
                kind=kind["kind"],
                config=kind_options.read_settings(settings, values),
                credentials=given,
                secrets=secrets,
                asked=kind_options.to_ask(secrets, given, values),
                pin=values["pin"],
                yes=values["yes"],
                slots=values["slots"],
                is_update=values["is_update"],
            ),
        )
        print_attached(context, target, _write_files(target, values.get("write_files")))

    return build_command(kind, run, [*ordered(settings, secrets), *generic])


def _write_files(target: dict[str, Any], wanted: bool | None) -> list[str]:
    from windlass.client.config import workbench_compute_file

    if not workbench_compute_file.has_compute_file(target["kind"]) or wanted is False:
        return []
    return workbench_compute_file.write(target, ".") if wanted or workbench_compute_file.has_folder(".") else []


attach = KindGroup(
    "attach",
    "is_attachable",
    _attach_command,
    help="Attach a machine or service of your own under a name. `windlass compute attach KIND --help` has the options.",
    short_help="Attach a machine or service of your own under a name.",
)
