"""`windlass quota`: limits on the cores of a VM family that the clusters of a workspace may have."""

from __future__ import annotations

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.output.table import Column
from windlass.core.sanitize import escape

_NONE = "none"
_COLUMNS = [Column("FAMILY"), Column("USED", right=True), Column("LIMIT", right=True)]


@click.group("quota", cls=Group, short_help="List and set quotas of cores for clusters.")
def quota() -> None:
    """Quotas limit the cores of a family of VM sizes: those of all nodes that the clusters of the workspace may have.
    A family without a quota has no limit.
    """


@quota.command("list", cls=Command, short_help="List quotas, and what is used of them.")
@click.option("-a", "--all", "everything", is_flag=True, help="Families without a quota or a cluster too.")
@click.pass_obj
def list_quotas(context: CommandContext, everything: bool) -> None:
    """List the families that have a quota or are used by clusters, in cores."""
    found = context.get("/quotas")["quotas"]
    if not everything:
        found = [each for each in found if each["limit"] is not None or each["used"]]
    none = "No quotas are set, and no clusters are there. All families: windlass quota list --all"
    context.print_list("quotas", found, none, _COLUMNS, _row)


@quota.command("set", cls=Command, short_help="Set the quota of a family, or remove it.")
@click.argument("family")
@click.argument("cores", metavar="CORES|none")
@click.pass_obj
def set_quota(context: CommandContext, family: str, cores: str) -> None:
    """Limit the cores of FAMILY, such as Dv2 or "Standard NC Family"; `none` removes the limit. Existing clusters
    stay as they are. For administrators.
    """
    if cores.lower() != _NONE and not (cores.isascii() and cores.isdigit()):
        raise click.UsageError(f"CORES is a whole number or {_NONE}, not {cores!r}.")
    body = {"family": family, "cores": None if cores.lower() == _NONE else int(cores)}
    found = context.request("PUT", f"{context.workspace_path}/quotas", body)
    if context.json:
        context.terminal.json(found)
    else:
        limit = "no limit" if found["limit"] is None else f"{found['limit']} cores"
        context.terminal.line(f"{escape(found['family'])}: {limit}, {found['used']} in use.")


def _row(found: dict[str, object]) -> list[str]:
    limit = found["limit"]
    return [str(found["family"]), str(found["used"]), "" if limit is None else str(limit)]
