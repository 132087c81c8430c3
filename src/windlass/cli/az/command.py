"""`windlass az`: the command lines of Azure's `az ml`, of all its generations, unchanged."""

from __future__ import annotations

import importlib

import click

from windlass.cli.az.declaration import GLOBAL, AzGroup

# Group of `az ml`, the module that declares it, its help line. A module is imported when its group is called.
GROUPS: tuple[tuple[str, str, str], ...] = (
    ("job", "job", "Jobs: create, follow, list, cancel, download (CLI v2)."),
    ("compute", "compute", "Compute targets (CLI v2)."),
    ("run", "run", "Runs: submit, follow, list, cancel (CLI v1)."),
    ("computetarget", "computetarget", "Compute targets (CLI v1 and Workbench)."),
    ("environment", "environment", "Environments (CLI v1 and v2)."),
    ("model", "model", "Models (CLI v1, v2 and Workbench)."),
    ("workspace", "workspace", "Workspaces (CLI v1 and v2)."),
    ("folder", "workspace", "Attach a folder to a workspace (CLI v1)."),
    ("experiment", "workbench", "Submit scripts and prepare targets (Workbench); list experiments (CLI v1)."),
    ("runconfiguration", "workbench", "Run configurations of a project (Workbench)."),
    ("history", "workbench", "The runs of the workspace (Workbench)."),
    ("asset", "workbench", "Download promoted models (Workbench)."),
    ("project", "workbench", "Make and attach projects (Workbench)."),
    ("notebook", "workbench", "Start Jupyter (Workbench)."),
    ("account", "workbench", "Accounts (Workbench): none are needed."),
)
_SPELLINGS = {"runconfigurations": "runconfiguration", "computetargets": "computetarget"}


class _Ml(AzGroup):
    """The group `ml`. It lists its groups from GROUPS without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, _, _ in GROUPS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        wanted = _SPELLINGS.get(cmd_name, cmd_name)
        for name, module, _ in GROUPS:
            if name == wanted:
                found: click.Command = getattr(importlib.import_module(f"windlass.cli.az.{module}"), name)
                return found
        from windlass.cli.az.later import later

        return later.get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Groups"):
            formatter.write_dl([(name, text) for name, _, text in GROUPS])
        with formatter.section("Options of every command"):
            rows = [(", ".join([*each.names]), each.help) for each in GLOBAL if each.help]
            formatter.write_dl(rows)


ml = _Ml(
    "ml",
    """Commands of `az ml` of Azure ML Workbench, the CLI v1 and the CLI v2, with their options.

    The answer is a JSON document on stdout; progress and errors go to stderr. Exit codes: 0 done, 1 failed, 2
    invalid, 3 not found.
    """,
)

ml.short_help = "Commands of `az ml`, with the options of all its generations."


class _Az(AzGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["ml"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "ml":
            return ml
        from windlass.cli.az.outside import find

        return find(cmd_name)


def _show_version(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from windlass.cli.az.outside import print_version

        print_version()
        ctx.exit()


az = _Az(
    "az",
    """Run a command line of `az ml`, unchanged.

    Put `windlass` before it; a leading `$` may stay. Commands around it (az login, az account set, az group create,
    az extension add, ...) print what is needed here instead: mostly nothing.

    \b
    windlass az ml job create --file job.yml --stream
    windlass az ml run submit-script -c local -e demo train.py
    windlass az ml experiment submit -c docker myscript.py
    windlass az ml compute list --query "[].name" -o tsv
    """,
    context_settings={"max_content_width": 80},
    params=[
        click.Option(
            ["-v", "--version"], is_flag=True, expose_value=False, callback=_show_version, help="Print the version."
        )
    ],
)
az.short_help = "Run a command line of `az ml`, unchanged."
