"""`windlass compute attach KIND NAME`: register a machine or service of one's own as a target.

The options of a kind come from the JSON schema of its configuration, as the server has it; machines by SSH, which have
host keys and credentials to be asked for, have a command of their own.
"""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.attach_ssh import ssh
from windlass.cli.call import Call
from windlass.cli.command import Command, Group, Mistake
from windlass.cli.targets import print_attached
from windlass.core import names

# What people know from Azure ML, and ask for: each with the kind of connection that says where it is, if any. The
# server's own list of kinds comes first: what it has is attached.
_LATER = {
    **dict.fromkeys(("amlcompute", "cluster", "computeinstance", "instance", "hdinsight", "spark"), ""),
    **dict.fromkeys(("aks", "kubernetes"), "aks"),
    "databricks": "databricks",
    **dict.fromkeys(("adla", "analytics"), "adla"),
    **dict.fromkeys(("batch", "slurm", "azurebatch"), "batch"),
}
_MACHINE = "A machine can be attached by itself: windlass compute attach ssh"
# Azure's words for a machine.
_OF_AZURE = {**dict.fromkeys(("remote", "vm", "virtualmachine", "dsvm"), "ssh"), "remotedocker": "ssh --docker"}
_TYPES: dict[str, Any] = {"integer": click.INT, "number": click.FLOAT, "boolean": click.BOOL}


class _Kinds(Group):
    """The kinds that have a command, and those that the server knows beside them."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = super().get_command(ctx, cmd_name)
        if known is not None or ctx.resilient_parsing:
            return known
        call = ctx.ensure_object(Call)
        kinds = {kind["kind"]: kind for kind in call.get("/kinds")["kinds"] if kind.get("is_attachable")}
        return _command(cmd_name, kinds[cmd_name]["schema"]) if cmd_name in kinds else None

    def _unknown(self, ctx: click.Context, name: str) -> click.UsageError:
        meant = _OF_AZURE.get(name.lower())
        if meant is None:
            return super()._unknown(ctx, name)
        return Mistake(f"{ctx.command_path} has no kind {name}.", f"Did you mean `{ctx.command_path} {meant}`?", ctx)


attach = _Kinds("attach", help="Attach a machine or service of your own under a name.")
attach.absent = {
    **{name: f"The target {name} is always there: windlass submit -c {name} train.py" for name in ("local", "docker")},
    **{
        kind: f"{_MACHINE}. Where it is can be said already: windlass connection add {known}" if known else _MACHINE
        for kind, known in _LATER.items()
    },
}
attach.add_command(ssh)


def _command(kind: str, schema: dict[str, Any]) -> click.Command:
    """The command for a kind, from the schema of its configuration."""
    required = schema.get("required", ())

    @click.pass_obj
    def run(call: Call, /, name: str, **values: Any) -> None:
        config = {key: value for key, value in values.items() if value is not None}
        attached = call.post("/targets", {"name": names.target_name(name), "kind": kind, "config": config})
        print_attached(call, attached)

    options = [_option(key, about, key in required) for key, about in schema.get("properties", {}).items()]
    made = Command(kind, callback=run, params=[click.Argument(["name"]), *options], help=schema.get("description"))
    # Where a kind has an option like --url, that is the kind's; the one of every command stands before `compute` then.
    taken = {option.opts[0] for option in options}
    made.params = [param for param in made.params if param in options or param.opts[0] not in taken]
    return made


def _option(key: str, about: dict[str, Any], required: bool) -> click.Option:
    shapes = [about, *about.get("anyOf", ())]
    kinds = [_TYPES[shape["type"]] for shape in shapes if shape.get("type") in _TYPES]
    words = next((shape["enum"] for shape in shapes if "enum" in shape), None)
    kind = click.Choice(words) if words else kinds[0] if kinds else click.STRING
    return click.Option(
        [f"--{key.replace('_', '-')}", key], type=kind, required=required, help=about.get("description")
    )
