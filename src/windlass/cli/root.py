"""Root command: the table of commands, their modules, and the entry point `run`."""

from __future__ import annotations

import importlib
import os

import click

from windlass.cli.command import Group, shared_options
from windlass.cli.context import CommandContext
from windlass.cli.errors import INTERRUPTED
from windlass.cli.exit import exit_code_of

# Section, command, module, help line. A module is imported when its command is called, for a fast start; the command is
# the module's attribute of the same name.
COMMANDS: tuple[tuple[str, str, str, str], ...] = (
    ("Runs", "submit", "submit.command", "Run a script on a target and show what it prints."),
    ("Runs", "rerun", "submit.rerun", "Run a run again, with changes."),
    ("Runs", "prepare", "submit.prepare", "Build an environment on a target, ahead of the first run."),
    ("Runs", "runs", "runs.listing", "List runs."),
    ("Runs", "show", "runs.show", "Show a run: state, metrics, files."),
    ("Runs", "logs", "runs.logs", "Print a run's log; -f follows it."),
    ("Runs", "open", "runs.open", "Open the page of a run in a browser, signed in."),
    ("Runs", "metrics", "runs.metrics", "Show the metrics of a run."),
    ("Runs", "compare", "runs.compare", "Compare runs: parameters, metrics, differences."),
    ("Runs", "files", "runs.files", "List the files of a run."),
    ("Runs", "download", "runs.download", "Download the files of a run."),
    ("Runs", "events", "runs.events", "List the events of a run."),
    ("Runs", "wait", "runs.wait", "Wait until runs have ended."),
    ("Runs", "exec", "runs.exec", "Open a shell where a run is, or run a command there."),
    ("Runs", "forward", "runs.forward", "Forward a port of a run to this computer."),
    ("Runs", "cancel", "runs.cancel", "Cancel runs."),
    ("Runs", "tag", "runs.labels", "Add tags to a run, or remove them."),
    ("Runs", "run", "runs.manage", "Delete, archive and rename runs; write notes."),
    ("Runs", "experiments", "workspace.experiments", "List experiments."),
    ("Runs", "environment", "workspace.environment", "List, show and register environments."),
    ("Models", "model", "workspace.model", "Register, list, show, download, tag and delete models."),
    ("Targets", "ssh", "compute.ssh", "Open a shell on the machine of a target."),
    ("Targets", "compute", "compute.compute", "Attach, create, list, show, check and change targets."),
    (
        "Targets",
        "connection",
        "workspace.connection",
        "Map Azure resources to your own clusters and accounts.",
    ),
    ("Targets", "quota", "compute.quota", "List and set quotas of cores for clusters."),
    ("Targets", "cost", "compute.cost", "Show the node time of runs, and its approximate cost."),
    ("Secrets", "secret", "workspace.secret", "Set, list, grant and delete secrets that runs may use."),
    ("Secrets", "audit", "workspace.audit", "Show who did what."),
    ("Server", "status", "server.status", "Show the server, the targets and what runs now."),
    ("Server", "studio", "server.studio", "Open the studio in a browser, signed in."),
    ("Server", "server", "server.server", "Start and stop the server."),
    ("Server", "token", "workspace.token", "Create, list and revoke the tokens of members."),
    ("Server", "doctor", "server.doctor", "Check this machine, and print what fixes each problem."),
    ("Server", "gc", "server.gc", "Show what may be deleted, and delete it."),
    ("Server", "settings", "server.settings", "Show and change the server's settings."),
    ("Code for azureml", "python", "azureml.python", "Run Python with `azureml` on its path."),
    ("Code for azureml", "jupyter", "azureml.jupyter", "Run Jupyter with `azureml` on the path of its kernels."),
    ("Code for azureml", "azureml", "azureml.azureml", "Make `import azureml` work in an environment."),
    ("As in Azure", "az", "az.command", "Run a command line of `az ml`, unchanged."),
    ("As in Azure", "computetarget", "workbench.computetarget", "Attach, list, show and detach compute targets."),
    ("As in Azure", "experiment", "workbench.experiment", "Submit scripts, and prepare targets for them."),
    ("As in Azure", "runconfiguration", "workbench.runconfiguration", "List, create and delete run configurations."),
    ("Other", "completion", "server.completion", "Print the script that completes commands in a shell."),
    ("Other", "version", "server.version", "Print the version."),
)
# Commands that work and are not listed.
_UNLISTED = {"ml": "az.command"}

# Other spellings that documents use. A shell makes `windlass ml` of `windlass $az ml`.
_SPELLINGS = {"runconfigurations": "runconfiguration", "$az": "az"}


_DEPLOYING = "Models are not deployed here; `windlass model download NAME` fetches one."


class Root(Group):
    """The root group. It lists commands from COMMANDS, so `windlass --help` imports no command's module."""

    not_provided = {
        "history": "`windlass runs` lists runs, `windlass show RUN` shows one, `windlass download RUN` has its files.",
        "asset": "`windlass download RUN` fetches the files of a run.",
        "notebook": "`windlass jupyter notebook` starts Jupyter.",
        "project": "Any folder is a project: go into it, and submit.",
        "account": "None is needed: a private server starts by itself, and WINDLASS_TOKEN signs in at a shared one.",
        **dict.fromkeys(("manifest", "image", "service"), _DEPLOYING),
    }
    command_hints = {
        **dict.fromkeys(("ui", "dashboard", "web", "portal"), "`windlass studio` opens the web pages in a browser."),
        **dict.fromkeys(("targets", "target"), "`windlass compute list` lists the targets."),
        **dict.fromkeys(("list", "ls"), "`windlass runs` lists runs, and `windlass compute list` targets."),
        **dict.fromkeys(("retry", "resubmit", "again"), "`windlass rerun RUN` runs a run again."),
        **dict.fromkeys(("archive", "rename", "note"), "It is a command of `windlass run`: windlass run "
                        "archive|rename|note RUN"),
        **dict.fromkeys(("ps", "top", "jobs"), "`windlass runs -s active` lists the runs that have not ended."),
        **dict.fromkeys(
            ("rm", "remove", "delete"),
            "`windlass run delete RUN` deletes a run, `windlass compute detach NAME` a target, and "
            "`windlass model delete NAME` a model.",
        ),
        **dict.fromkeys(("stop", "kill"), "`windlass cancel RUN` stops a run, and `windlass server stop` the server."),
        **dict.fromkeys(("env", "envs", "environments"), "`windlass environment list` lists the environments."),
        **dict.fromkeys(("start", "restart"), "`windlass submit train.py` runs a script, and `windlass server start` "
                        "starts the server."),
        "models": "`windlass model list` lists the models.",
        "secrets": "`windlass secret list` lists the secrets.",
        **dict.fromkeys(("shell", "connect"), "`windlass exec RUN` opens a shell where a run is, and "
                        "`windlass ssh TARGET` one on a machine."),
        **dict.fromkeys(("port-forward", "tunnel"), "`windlass forward RUN PORT` forwards a port of a run."),
        "log": "`windlass logs RUN` prints a run's log.",
        "login": "WINDLASS_URL and WINDLASS_TOKEN name a shared server and sign in there; a private one needs neither.",
        "init": "Any folder is a project: go into it, and type `windlass submit train.py`.",
        "help": "Type `windlass --help`, or `windlass COMMAND --help`.",
        "attach": "`windlass compute attach ssh NAME` attaches a machine.",
        "detach": "`windlass compute detach NAME` forgets a machine.",
    }  # fmt: skip

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for _, name, _, _ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = _SPELLINGS.get(cmd_name, cmd_name)
        modules = {**{name: module for _, name, module, _ in COMMANDS}, **_UNLISTED}
        if cmd_name not in modules:
            return None
        module = importlib.import_module(f"windlass.cli.{modules[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Skip a `$` that was copied with the command from a document."""
        return super().resolve_command(ctx, args[1:] if args[0] == "$" and len(args) > 1 else args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(len(name) for _, name, _, _ in COMMANDS)
        for section in dict.fromkeys(row[0] for row in COMMANDS):
            with formatter.section(section):
                formatter.write_dl([(name.ljust(widest), text) for of, name, _, text in COMMANDS if of == section])


def _show_version(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from windlass._version import __version__

        click.echo(f"windlass {__version__}")
        ctx.exit()


ROOT = Root(
    name="windlass",
    help="""Run the same training script on any compute you can reach, and keep what happened.

    RUN is a run's id, the first characters of the id or of its last part (which lists show), @last for the newest
    run, or @last~1 for the run before it.
    """,
    epilog="""Exit codes: 0 done, 1 any other error, 2 invalid command line or request, 3 not found, 4 denied, 5 server
    unavailable, 6 conflict, 7 target error, 8 no space left, 9 too many requests, 130 Ctrl-C. `submit`, `rerun`
    and `wait` have the script's exit code, and 125 if the script was not run.

    Start here: windlass submit train.py
    """,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        *shared_options(hidden=False),
        click.Option(
            ["--version"], is_flag=True, expose_value=False, callback=_show_version, help="Print the version."
        ),
    ],
)


def run(arguments: list[str], context: CommandContext | None = None) -> int:
    """Run one command line. Returns its exit code."""
    made = context or CommandContext()
    return exit_code_of(made, lambda: _invoke(made, arguments))


def _invoke(context: CommandContext, arguments: list[str]) -> int:
    if "_WINDLASS_COMPLETE" in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(
            ROOT, {"obj": context}, "windlass", "_WINDLASS_COMPLETE", os.environ["_WINDLASS_COMPLETE"]
        )
    try:
        with ROOT.make_context("windlass", arguments, obj=context) as ctx:
            result = ROOT.invoke(ctx)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort:
        return INTERRUPTED
    return result if isinstance(result, int) else 0
