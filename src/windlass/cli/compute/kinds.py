"""The kinds of compute that the server has, and the commands that are made of them: `compute attach KIND`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.command import Command, Group, Mistake
from windlass.cli.context import Call
from windlass.cli.parameters.types import ask_server
from windlass.core.errors import NotFound, SpecNotSupported
from windlass.core.sanitize import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = dict[str, Any]  # as GET /kinds has it
_CACHED = "windlass.kinds"
# Azure's words for a machine, with what it is here.
_MACHINES = {**dict.fromkeys(("remote", "vm", "virtualmachine", "dsvm"), "ssh"), "remotedocker": "ssh --docker"}
# What people know from Azure ML and ask for, each with the kind of connection that says where it is, if any. They are
# explained only as long as the server has no kind of that name.
_OF_AZURE = {
    **dict.fromkeys(("amlcompute", "cluster", "computeinstance", "instance", "hdinsight", "spark"), ""),
    **dict.fromkeys(("aks", "kubernetes"), "aks"),
    "databricks": "databricks",
    **dict.fromkeys(("adla", "analytics"), "adla"),
    **dict.fromkeys(("batch", "slurm", "azurebatch"), "batch"),
}


def known(call: Call) -> dict[str, Kind]:
    """The kinds of the server by name."""
    return {kind["kind"]: kind for kind in call.get("/kinds")["kinds"]}


def kind_of(call: Call, target: dict[str, Any]) -> Kind:
    """The kind of a target. A package that brought it may be gone."""
    return known(call).get(target["kind"]) or {"kind": target["kind"]}


def one_with_workspace_credential(call: Call, name: str | None) -> str:
    """The kind of that name, else the only one that has a credential of the workspace."""
    having = [kind for kind, view in known(call).items() if view.get("has_workspace_credential")]
    if name is not None and name not in having:
        raise NotFound(
            f"The workspace has no credential of its own for targets of kind {shown(name)}.", _one_of(having)
        )
    if name is None and len(having) != 1:
        raise click.UsageError(f"Name the kind. {_one_of(having)}")
    return name or having[0]


def _one_of(kinds: Sequence[str]) -> str:
    return f"There {'is' if len(kinds) == 1 else 'are'}: {', '.join(map(shown, kinds)) or 'none'}."


class KindGroup(Group):
    """A command for each kind that `can` (is_attachable, is_managed). The server is asked for them when it is used."""

    def __init__(self, name: str, can: str, make: Callable[[Kind], Command], **more: Any) -> None:
        super().__init__(name, subcommand_metavar="KIND NAME [OPTIONS]...", **more)
        self._can = can
        self._make = make

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, kind in cached(ctx).items() if kind.get(self._can)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        kind = cached(ctx).get(cmd_name, {})
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
        kinds, lowered = cached(ctx), name.lower()
        message = f"{ctx.command_path} has no kind {name}."
        if lowered in kinds:
            return _other_way(ctx, kinds[lowered])
        if lowered in _MACHINES:
            return Mistake(message, f"Did you mean `windlass compute attach {_MACHINES[lowered]}`?", ctx)
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
        return Mistake(message, f"Did you mean `{ctx.command_path} {near}`?" if near else _one_of(names), ctx)


def _other_way(ctx: click.Context, kind: Kind) -> Exception:
    name = kind["kind"]
    if kind.get("is_managed"):
        hint = f"They are created: windlass compute create {name} NAME"
    elif kind.get("is_attachable"):
        hint = f"They are attached: windlass compute attach {name} NAME"
    else:
        hint = f"The target {name} is always there: windlass submit -c {name} train.py"
    return Mistake(f"{ctx.command_path} is not for targets of kind {name}.", hint, ctx)


def cached(ctx: click.Context) -> dict[str, Kind]:
    """The kinds, asked for once in a call. Completion asks a server that is running, and is silent without one."""
    if _CACHED not in ctx.meta:
        call = ctx.ensure_object(Call)
        if ctx.resilient_parsing:
            try:
                found = {kind["kind"]: kind for kind in ask_server(call, "/kinds")["kinds"]}
            except Exception:  # a message would stand in the middle of the line that is being typed
                found = {}
        else:
            found = known(call)
        ctx.meta[_CACHED] = found
    return dict(ctx.meta[_CACHED])
