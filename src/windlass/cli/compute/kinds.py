"""The server's kinds of compute, and groups with a command per kind: `compute attach KIND`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.command import Command, Group, HintedUsageError
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import ask_server
from windlass.core.errors import NotFound, SpecNotSupported
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = dict[str, Any]  # as GET /kinds has it
_CACHED = "windlass.kinds"
# Azure's names for a machine, with the kind it is here.
_MACHINES = {**dict.fromkeys(("remote", "vm", "virtualmachine", "dsvm"), "ssh"), "remotedocker": "ssh --docker"}
# Azure's kinds, each with the kind of connection that maps it, if any. Used for hints, as long as the server has no
# kind of that name.
_OF_AZURE = {
    **dict.fromkeys(("amlcompute", "cluster", "computeinstance", "instance", "hdinsight", "spark"), ""),
    **dict.fromkeys(("aks", "kubernetes"), "aks"),
    "databricks": "databricks",
    **dict.fromkeys(("adla", "analytics"), "adla"),
    **dict.fromkeys(("batch", "slurm", "azurebatch"), "batch"),
}


def known(context: CommandContext) -> dict[str, Kind]:
    """The kinds of the server by name."""
    return {kind["kind"]: kind for kind in context.get("/kinds")["kinds"]}


def kind_of(context: CommandContext, target: dict[str, Any]) -> Kind:
    """The kind of a target; only its name if the package that provided it was removed."""
    return known(context).get(target["kind"]) or {"kind": target["kind"]}


def one_with_workspace_credential(context: CommandContext, name: str | None) -> str:
    """Check that the kind has a workspace credential; without a name, choose the only kind that has one."""
    having = [kind for kind, view in known(context).items() if view.get("has_workspace_credential")]
    if name is not None and name not in having:
        raise NotFound(
            f"The workspace has no credential of its own for targets of kind {escape(name)}.", _one_of(having)
        )
    if name is None and len(having) != 1:
        raise click.UsageError(f"Name the kind. {_one_of(having)}")
    return name or having[0]


def _one_of(kinds: Sequence[str]) -> str:
    return f"There {'is' if len(kinds) == 1 else 'are'}: {', '.join(map(escape, kinds)) or 'none'}."


class KindGroup(Group):
    """A group with a command for each kind of the server that has the feature `can` (is_attachable, is_managed)."""

    def __init__(self, name: str, can: str, make: Callable[[Kind], Command], **more: Any) -> None:
        super().__init__(name, subcommand_metavar="KIND NAME [OPTIONS]...", **more)
        self._can = can
        self._make = make

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, kind in cached_kinds(ctx).items() if kind.get(self._can)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        kind = cached_kinds(ctx).get(cmd_name, {})
        return self._make(kind) if kind.get(self._can) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise self._unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Kinds"):
            names = self.list_commands(ctx)
            limit = formatter.width - 6 - max(map(len, names), default=0)
            found = [(name, self.get_command(ctx, name)) for name in names]
            formatter.write_dl([(name, kind.get_short_help_str(limit)) for name, kind in found if kind is not None])

    def _unknown(self, ctx: click.Context, name: str) -> Exception:
        kinds, lowered = cached_kinds(ctx), name.lower()
        message = f"{ctx.command_path} has no kind {name}."
        if lowered in kinds:
            return _wrong_command(ctx, kinds[lowered])
        if lowered in _MACHINES:
            return HintedUsageError(message, f"Did you mean `windlass compute attach {_MACHINES[lowered]}`?", ctx)
        if lowered in _OF_AZURE:
            connection = _OF_AZURE[lowered]
            more = f". Where it is can be said already: windlass connection add {connection}" if connection else ""
            return SpecNotSupported(
                f"{ctx.command_path} {name} is not provided in this version.",
                f"A machine can be attached by itself: windlass compute attach {_MACHINES['vm']}{more}",
            )
        from windlass.cli.parameters.suggestions import similar

        names = self.list_commands(ctx)
        near = similar(name, names)
        return HintedUsageError(message, f"Did you mean `{ctx.command_path} {near}`?" if near else _one_of(names), ctx)


def _wrong_command(ctx: click.Context, kind: Kind) -> Exception:
    name = kind["kind"]
    if kind.get("is_managed"):
        hint = f"They are created: windlass compute create {name} NAME"
    elif kind.get("is_attachable"):
        hint = f"They are attached: windlass compute attach {name} NAME"
    else:
        hint = f"The target {name} is always there: windlass submit -c {name} train.py"
    return HintedUsageError(f"{ctx.command_path} is not for targets of kind {name}.", hint, ctx)


def cached_kinds(ctx: click.Context) -> dict[str, Kind]:
    """The kinds, requested once per command line. Completion asks only a running server; without one there are none."""
    if _CACHED not in ctx.meta:
        context = ctx.ensure_object(CommandContext)
        if ctx.resilient_parsing:
            try:
                found = {kind["kind"]: kind for kind in ask_server(context, "/kinds")["kinds"]}
            except Exception:  # a message would be printed into the line that is being typed
                found = {}
        else:
            found = known(context)
        ctx.meta[_CACHED] = found
    return dict(ctx.meta[_CACHED])
