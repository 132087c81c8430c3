"""`windlass compute update NAME`: change those settings of a target that its kind allows to change."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.compute import kind_options
from windlass.cli.compute.attach import slots_option
from windlass.cli.compute.kind_options import OptionNames, Setting
from windlass.cli.compute.kinds import Kind, cached_kinds, kind_of
from windlass.cli.compute.managed import wait_until_settled
from windlass.cli.compute.target_output import print_target
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import TARGET, ask_server
from windlass.core import names

_SETTINGS = "windlass.compute.update"


class _Update(Command):
    """The command `update`. Its options are those of the kind of the named target."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(not word.startswith("-") for word in args):
            ctx.meta[_SETTINGS] = _settings_of_named(ctx, args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        found: list[Setting] = ctx.meta.get(_SETTINGS) or []
        own: list[click.Parameter] = [option for setting in found for option in setting.options]
        return [*self.params[:2], *own, *super().get_params(ctx)[2:]]


def _settings_of_named(ctx: click.Context, args: list[str]) -> list[Setting]:
    """The settings of the target that the arguments name. A completion without a running server has none."""
    kinds = cached_kinds(ctx)
    name = _name_among(ctx, args, kinds)
    if name is None:
        return []
    path, context = f"/targets/{names.target_name(name)}", ctx.ensure_object(CommandContext)
    try:
        target = ask_server(context, path) if ctx.resilient_parsing else context.get(path)
    except Exception:
        if ctx.resilient_parsing:
            return []
        raise
    return _settings(kinds.get(target["kind"], {}), _names())


def _name_among(ctx: click.Context, args: list[str], kinds: dict[str, Kind]) -> str | None:
    """Find NAME, which may follow options with values: parse with the options of all kinds."""
    every = [option for kind in kinds.values() for setting in _settings(kind, _names()) for option in setting.options]
    options = list({option.opts[0]: option for option in every}.values())
    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    any_kind = Command("update", params=[words, *_generic(), *options])
    found = click.Context(any_kind, ctx.parent, "update", resilient_parsing=True, ignore_unknown_options=True)
    values, _, _ = any_kind.make_parser(found).parse_args(list(args))
    return next((word for word in values.get("words") or () if not word.startswith("-")), None)


def _settings(kind: Kind, taken: OptionNames) -> list[Setting]:
    schema, mutable = kind.get("config_schema") or {}, kind.get("mutable_settings") or ()
    return kind_options.settings(schema, taken, only=mutable, is_change=True)


def _generic() -> list[click.Option]:
    waits = click.Option(["--no-wait"], is_flag=True, help="Do not wait until a change of a created target is done.")
    return [slots_option("How many runs at once."), waits]


def _names() -> OptionNames:
    return OptionNames(name for option in _generic() for name in option.opts)


@click.pass_context
def _update(ctx: click.Context, /, name: str, slots: int | None, no_wait: bool, **values: Any) -> None:
    context = ctx.ensure_object(CommandContext)
    config = kind_options.read_settings(ctx.meta[_SETTINGS], values)
    changes = {**({} if slots is None else {"slots": slots}), **({"config": config} if config else {})}
    if not changes:
        raise click.UsageError("There is nothing to change.")
    target = context.patch(f"/targets/{names.target_name(name)}", changes)
    if config and not no_wait:
        target = wait_until_settled(context, target)
    if context.json:
        context.terminal.json(target)
    else:
        print_target(context, target, kind_of(context, target))


update_target = _Update(
    "update",
    callback=_update,
    params=[click.Argument(["name"], type=TARGET), *_generic()],
    short_help="Change a target.",
    help="""Change the target NAME. Runs that are going on stay as they are. `windlass compute update NAME --help` lists
    the settings of its kind; an empty value ('') clears a setting. Address and credentials are changed by `windlass
    compute attach KIND NAME … --update`.
    """,
)
