"""`windlass computetarget`: the command lines of Azure ML Workbench, with `windlass` in place of `az ml`. They share
the flow of `windlass compute attach` and print what Workbench printed. Its words for kinds are in
windlass.client.config.workbench_compute_file.KINDS.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click

from windlass.cli.command import Command, Group
from windlass.cli.compute import credentials, kind_options
from windlass.cli.compute.attach import Attachment, attach_target
from windlass.cli.compute.kinds import known
from windlass.cli.compute.target_output import relevant_inventory
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import FILE
from windlass.cli.workbench import argv_secrets
from windlass.client.config.workbench_compute_file import CLUSTER, DOCKER, KINDS, REMOTE, REMOTE_DOCKER
from windlass.core import names
from windlass.core.errors import InvalidRequest, SpecNotSupported
from windlass.core.sanitize import escape

_LOCAL_DOCKER = "localdocker"
_WORKSPACE_KEY = "workspace-key"
_NAME = click.option("-n", "--name", required=True, metavar="NAME", help="The compute target's name.")
_FORMAT = click.option("-o", "--output", type=click.Choice(["json", "table"]), help="The format of the output.")


def _of_workspace(command: Any) -> Any:
    """Accept the options of the CLI v1."""
    command = click.option("-g", "--resource-group", hidden=True)(command)
    return click.option("-w", "--workspace-name", hidden=True)(command)


@click.group("computetarget", cls=Group, short_help="Attach, list, show and detach compute targets.")
def computetarget() -> None:
    """Attach, list, show and detach compute targets, with the options of Azure ML Workbench.

    `windlass compute` is the current command.
    """


class _Attach(Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_kind(args))


def with_kind(words: list[str]) -> list[str]:
    """Insert the kind: the first preview had none, and --cluster instead of the kind `cluster`."""
    return ["cluster", *(word for word in words if word != "--cluster")] if "--cluster" in words else words


@computetarget.group("attach", cls=_Attach, short_help="Attach a machine.")
def attach() -> None:
    """Attach a machine, and write its files NAME.compute and NAME.runconfig into aml_config."""


def _attach_options(command: Any) -> Any:
    for option in (
        click.option("-y", "--yes", is_flag=True, hidden=True),
        click.option(
            "--pin", "--host-key", "pin", metavar="FINGERPRINT|accept", help="What its host key must be (SHA256:…)."
        ),
        click.option(
            "--ssh-port", type=click.IntRange(1, 65535), help="The port of its SSH server, if not in ADDRESS."
        ),
        click.option(argv_secrets.OPTION, "secrets_fd", type=int, hidden=True),
        click.option("--hide-password", is_flag=True, help="Accepted for compatibility: passwords are never shown."),
        click.option("--private-key-passphrase", metavar="TEXT", help="The passphrase of the private key."),
        click.option("--private-key-file", type=FILE, metavar="FILE", help="Log in with this private key."),
        click.option("-k", "--use-azureml-ssh-key", is_flag=True, help="Log in with the workspace's own key."),
        click.option("-p", "--password", metavar="TEXT", help="The password. Better left out: you are asked for it."),
        click.option("-w", "either", metavar="TEXT", help="In Workbench the password, in the CLI v1 the workspace."),
        click.option("--workspace-name", hidden=True),
        click.option("-g", "--resource-group", hidden=True),
        click.option("--subscription-id", hidden=True),
        click.option("-u", "--username", required=True, metavar="USER", help="The account there."),
        click.option("-a", "--address", required=True, metavar="HOST[:PORT]", help="Where the machine is."),
        _NAME,
    ):
        command = option(command)
    return click.pass_obj(command)


@attach.command("remotedocker", cls=Command, short_help="A Linux machine, where runs live in containers.")
@_attach_options
def attach_remote_docker(context: CommandContext, /, **values: Any) -> None:
    """Attach a Linux machine with Docker: runs live in containers there."""
    _resolve_secrets_and_workspace(context, values, is_workbench=True)
    _attach(context, values, REMOTE_DOCKER)


@attach.command("remote", cls=Command, short_help="A Linux machine with a Python of your own.")
@_attach_options
def attach_remote(context: CommandContext, /, **values: Any) -> None:
    """Attach a Linux machine whose Python you manage yourself."""
    _resolve_secrets_and_workspace(context, values, is_workbench=values["hide_password"])
    _attach(context, values, REMOTE)


@attach.command("cluster", cls=Command, short_help="An HDInsight cluster for Spark.")
@_attach_options
def attach_cluster(context: CommandContext, /, **values: Any) -> None:
    """Attach an HDInsight cluster for Spark, where the server has that kind of target."""
    if KINDS[CLUSTER] not in known(context):
        raise _no_clusters(f"{escape(values['name'])}, an HDInsight cluster,")
    from windlass.client.compute.attached.hdinsight import HDInsightCompute
    from windlass.client.compute.target import ComputeTarget

    _resolve_secrets_and_workspace(context, values, is_workbench=True)
    configuration = HDInsightCompute.attach_configuration(
        username=values["username"],
        address=values["address"],
        ssh_port=values["ssh_port"] or 22,
        password=values["password"] or "",
        private_key_file=values["private_key_file"] or "",
        private_key_passphrase=values["private_key_passphrase"] or "",
    )
    attached = ComputeTarget.attach(context.sdk_workspace(), values["name"], configuration)
    attached.wait_for_completion(show_output=True)


def _no_clusters(which: str) -> SpecNotSupported:
    return SpecNotSupported(
        f"Attaching {which} is not provided in this version.",
        "`windlass computetarget attach remote` attaches its head node as a machine, without Spark.",
    )


def _resolve_secrets_and_workspace(context: CommandContext, values: dict[str, Any], is_workbench: bool) -> None:
    """Read secrets from the pipe, and decide what -w is: the password in Workbench, the workspace in the CLI v1. The
    other options of the command line decide which of the two it is.
    """
    found = argv_secrets.read_from_pipe(values["secrets_fd"]) if values["secrets_fd"] is not None else {}
    values.update(found)
    either = values["either"]
    if either is not None:
        has_login = values["password"] is not None or values["private_key_file"] is not None
        is_v1 = values["resource_group"] is not None or values["subscription_id"] is not None
        if is_v1 and is_workbench and not has_login:
            raise click.UsageError(
                "-w is the password in the command lines of Workbench, and the workspace where --resource-group is "
                "given. Write --password or --workspace-name."
            )
        values["workspace_name" if has_login or is_v1 else "password"] = either
    if values["workspace_name"]:
        context.workspace = values["workspace_name"]
        context.sdk_workspace()  # creates it on a private server


def _attach(context: CommandContext, values: dict[str, Any], word: str) -> None:
    from windlass.client.config import workbench_compute_file

    kind, is_docker = known(context)[KINDS[word]], word == REMOTE_DOCKER
    config: dict[str, Any] = {"address": values["address"], "username": values["username"], "docker": is_docker}
    if values["ssh_port"] is not None:
        config["port"] = values["ssh_port"]
    if values["use_azureml_ssh_key"]:
        config["login"] = _WORKSPACE_KEY
    name = names.target_name(values["name"])
    wanted = Attachment(
        name=name,
        kind=kind["kind"],
        config=config,
        credentials=_credentials(values, _attach_command_line(config, kind["kind"], name)),
        secrets=kind_options.secrets(kind["credentials_schema"], kind_options.OptionNames()),
        pin=values["pin"],
        yes=values["yes"],
        is_update=True,
    )
    attached = attach_target(context, wanted)
    files = workbench_compute_file.write(attached, os.curdir, "aml_config")
    if context.json:
        context.terminal.json({**attached, "files": files})
    else:
        _print_attached(context, attached, wanted)


def _attach_command_line(config: dict[str, Any], kind: str, name: str) -> str:
    """The equivalent `windlass compute attach`, which also reads passwords from files and standard input."""
    words = ["--address", config["address"], "--username", config["username"]]
    words += ["--port", str(config["port"])] if "port" in config else []
    words += ["--docker"] if config["docker"] else []
    return escape(shlex.join(["windlass", "compute", "attach", kind, name, *words]))


def _credentials(values: dict[str, Any], command_line: str) -> dict[str, str]:
    """The credentials. Warns of secrets on the command line."""
    password, passphrase, key = values["password"], values["private_key_passphrase"], values["private_key_file"]
    if password is not None or passphrase is not None:
        sys.stderr.write(
            "warning: a secret on a command line can be seen by everybody on this machine, and stays in the shell's "
            "history.\n  Leave it out: you are asked for it.\n"
        )
    if password is not None and key:
        raise InvalidRequest("Both a password and a private key are given; one is enough.")
    if key:
        text = credentials.require(credentials.content(key, "private key"), "private key")
        return {"private_key": text, **({} if passphrase is None else {"passphrase": passphrase})}
    if password is not None:
        return {"password": credentials.require(password, "password")}
    return {} if values["use_azureml_ssh_key"] else {"password": _ask_twice(command_line)}


def _ask_twice(command_line: str) -> str:
    if not credentials.can_ask():
        raise InvalidRequest(
            "No password is given, and there is no terminal to ask for it.",
            "Add --private-key-file FILE or -k; or with a password: "
            f"{command_line} --password-file FILE (or --password-stdin)",
        )
    first = credentials.ask_secret("Enter password:")
    if not first:
        raise InvalidRequest("Empty password not allowed. Please try again.")
    if credentials.ask_secret("Re-enter the password for confirmation:") != first:
        raise InvalidRequest("Entered passwords don't match. Please try again.")
    return first


def _print_attached(context: CommandContext, target: dict[str, Any], wanted: Attachment) -> None:
    """Print what Workbench printed."""
    name, line = target["name"], context.terminal.line
    is_ours, is_docker = wanted.config.get("login") == _WORKSPACE_KEY, wanted.config["docker"]
    if is_ours:
        line("Public key:")
        line(context.get(f"/kinds/{wanted.kind}/workspace-credential")["public"])
        if not wanted.credentials:
            line("Please append the public key in ~/.ssh/authorized_keys file on the attached compute target.")
        line()
    line("Successfully created the following files:")
    line(f"{name}.compute: contains connection and configuration information for a remote execution target")
    line(f"{name}.runconfig: set of run options used when executing within the Azure ML Workbench application")
    if is_docker:
        line()
        line(f"Before running against {name}, you need to prepare it with your project's environment by running:")
        line(f"windlass experiment prepare -c {name}")
    if is_docker or is_ours:
        for problem in relevant_inventory(target).get("problems") or ():
            context.terminal.note(f"{problem['message']}\n  {problem['fix']}")


@computetarget.command("list", cls=Command, short_help="List the compute targets.")
@_FORMAT
@_of_workspace
@click.pass_obj
def list_targets(context: CommandContext, /, output: str | None, workspace_name: str | None, **_: Any) -> None:
    """List the compute targets: their names and types."""
    context.workspace = workspace_name or context.workspace
    found = context.get("/targets")["targets"]
    if context.json or output == "json":
        context.terminal.json([{"name": target["name"], "type": target_type(target)} for target in found])
    else:
        context.terminal.lines([f"Name={escape(target['name'])} : Type={target_type(target)}" for target in found])


@computetarget.command("show", cls=Command, short_help="Show a compute target.")
@_NAME
@_FORMAT
@_of_workspace
@click.pass_obj
def show_target(
    context: CommandContext, /, name: str, output: str | None, workspace_name: str | None, **_: Any
) -> None:
    """Show a compute target: what its file NAME.compute says."""
    from windlass.client.config import workbench_compute_file
    from windlass.client.config.yaml import dumps

    context.workspace = workspace_name or context.workspace
    target = context.get(f"/targets/{names.target_name(name)}")
    has_file = workbench_compute_file.has_compute_file(target["kind"])
    described = workbench_compute_file.describe(target) if has_file else {"type": target_type(target)}
    if context.json or output == "json":
        context.terminal.json({"name": name, **described})
    else:
        context.terminal.line(f"Name={escape(name)} : Type={target_type(target)}")
        context.terminal.line(dumps(described).rstrip("\n"))


@computetarget.command("detach", cls=Command, short_help="Detach a compute target.")
@_NAME
@_of_workspace
@click.pass_obj
def detach_target(context: CommandContext, /, name: str, workspace_name: str | None, **_: Any) -> None:
    """Detach a compute target, and remove its file NAME.compute. Run configurations stay."""
    from windlass.client.config import workbench_compute_file

    context.workspace = workspace_name or context.workspace
    gone = context.request("DELETE", f"{context.workspace_path}/targets/{names.target_name(name)}")
    files = workbench_compute_file.remove(os.curdir, name)
    if context.json:
        context.terminal.json({**gone, "files": files})
    else:
        context.terminal.line(f"Detached {escape(name)}.")
        context.terminal.lines([f"Removed {escape(file)}" for file in files])


def target_type(target: dict[str, Any]) -> str:
    """Workbench's word for the kind of a target."""
    kind = str(target["kind"])
    if kind == KINDS[REMOTE]:
        return REMOTE_DOCKER if target["config"].get("docker") else REMOTE
    return _LOCAL_DOCKER if kind == KINDS[DOCKER] else kind
