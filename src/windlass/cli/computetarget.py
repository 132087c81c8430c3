"""`windlass computetarget`: the command lines of Azure ML Workbench, with `windlass` in place of `az ml`. They do what
`windlass compute` does, and say what they said then.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click

from windlass.cli import asking, concealment, credentials, host_keys
from windlass.cli.call import Call
from windlass.cli.command import Command, Group
from windlass.cli.param_types import FILE
from windlass.cli.targets import of_interest
from windlass.core import names
from windlass.core.errors import InvalidRequest, SpecNotSupported
from windlass.core.sanitize import shown

_TYPES = {"local": "local", "docker": "localdocker"}
_NAME = click.option("-n", "--name", required=True, metavar="NAME", help="The compute target's name.")
_FORMAT = click.option("-o", "--output", type=click.Choice(["json", "table"]), help="As a JSON document.")


def _of_workspace(command: Any) -> Any:
    """As the later command line has it."""
    command = click.option("-g", "--resource-group", hidden=True)(command)
    return click.option("-w", "--workspace-name", hidden=True)(command)


@click.group("computetarget", cls=Group, short_help="Attach, list, show and detach compute targets.")
def computetarget() -> None:
    """Attach, list, show and detach compute targets, with the options of Azure ML Workbench.

    `windlass compute` is the command of today.
    """


class _Attach(Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_kind(args))


def with_kind(words: list[str]) -> list[str]:
    """The first preview had no word for the kind, and an option for the one that is not a machine."""
    return ["cluster", *(word for word in words if word != "--cluster")] if "--cluster" in words else words


@computetarget.group("attach", cls=_Attach, short_help="Attach a machine.")
def attach() -> None:
    """Attach a machine, and write its files NAME.compute and NAME.runconfig into aml_config."""


def _attach_options(command: Any) -> Any:
    for option in (
        click.option("-y", "--yes", is_flag=True, hidden=True),
        click.option("--host-key", metavar="FINGERPRINT|accept", help="What its host key must be (SHA256:…)."),
        click.option(
            "--ssh-port", type=click.IntRange(1, 65535), help="The port of its SSH server, if not in ADDRESS."
        ),
        click.option(concealment.OPTION, "secrets_fd", type=int, hidden=True),
        click.option("--hide-password", is_flag=True, help="Passwords are never shown; accepted as before."),
        click.option("--private-key-passphrase", metavar="TEXT", help="The passphrase of the private key."),
        click.option("--private-key-file", type=FILE, metavar="FILE", help="Log in with this private key."),
        click.option("-k", "--use-azureml-ssh-key", is_flag=True, help="Log in with the workspace's own key."),
        click.option("-p", "--password", metavar="TEXT", help="The password: better left out, to be asked for."),
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
def attach_remote_docker(call: Call, /, **values: Any) -> None:
    """Attach a Linux machine with Docker: runs live in containers there."""
    _settle(call, values, is_workbench=True)
    _attach(call, values, docker=True)


@attach.command("remote", cls=Command, short_help="A Linux machine with a Python of your own.")
@_attach_options
def attach_remote(call: Call, /, **values: Any) -> None:
    """Attach a Linux machine whose Python you manage yourself."""
    _settle(call, values, is_workbench=values["hide_password"])
    _attach(call, values, docker=False)


@attach.command("cluster", cls=Command, short_help="An HDInsight cluster for Spark.")
@_attach_options
def attach_cluster(call: Call, /, **values: Any) -> None:
    """Attach an HDInsight cluster for Spark, where the server has that kind of target."""
    if "spark" not in {kind["kind"] for kind in call.get("/kinds")["kinds"]}:
        raise _no_clusters(f"{shown(values['name'])}, an HDInsight cluster,")
    from windlass.client.compute.hdinsight import HDInsightCompute
    from windlass.client.compute.target import ComputeTarget

    _settle(call, values, is_workbench=True)
    configuration = HDInsightCompute.attach_configuration(
        username=values["username"],
        address=values["address"],
        ssh_port=values["ssh_port"] or 22,
        password=values["password"] or "",
        private_key_file=values["private_key_file"] or "",
        private_key_passphrase=values["private_key_passphrase"] or "",
    )
    attached = ComputeTarget.attach(call.sdk_workspace(), values["name"], configuration)
    attached.wait_for_completion(show_output=True)


def _no_clusters(which: str) -> SpecNotSupported:
    return SpecNotSupported(
        f"Attaching {which} is not provided in this version.",
        "`windlass computetarget attach remote` attaches its head node as a machine, without Spark.",
    )


def _settle(call: Call, values: dict[str, Any], is_workbench: bool) -> None:
    """Take secrets from the pipe, and find out what -w is: the password in Workbench, the workspace in the CLI v1. The
    options beside it tell which of the two the command line is of.
    """
    found = concealment.received(values["secrets_fd"]) if values["secrets_fd"] is not None else {}
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
        call.workspace = values["workspace_name"]
        call.sdk_workspace()  # on a private server it is made, if it is not there


def _attach(call: Call, values: dict[str, Any], docker: bool) -> None:
    from windlass.client import compute_files

    host, port = compute_files.split_address(values["address"])
    port = values["ssh_port"] if port is None else port
    config: dict[str, Any] = {
        "address": names.host_address(host),
        **({} if port is None else {"port": names.port_number(port)}),
        "username": names.user_name(values["username"]),
        "docker": docker,
    }
    name = names.target_name(values["name"])
    given = _credentials(values, f"{config['username']}@{host}", _today(config, name))
    config["login"] = given.login
    seen = asking.identify(call, config)
    config["host_key_confirmed"] = host_keys.confirm(call, host, seen, values["host_key"], values["yes"])
    config["host_key"] = seen["host_key"]
    body = {"name": name, "kind": "ssh", "config": config, "credentials": given.credentials, "exist_ok": True}
    attached = asking.attach(call, body)
    files = compute_files.write(attached, os.curdir, "aml_config")
    if call.json:
        call.terminal.json({**attached, "files": files})
    else:
        _tell(call, attached, given)


def _today(config: dict[str, Any], name: str) -> str:
    """The same by the command of today, which reads passwords from elsewhere, too."""
    from windlass.client.compute_files import join_address

    words = ["--address", join_address(config["address"], config.get("port")), "--username", config["username"]]
    return shown(shlex.join(["windlass", "compute", "attach", "ssh", name, *words, *["--docker"] * config["docker"]]))


def _credentials(values: dict[str, Any], account: str, today: str) -> credentials.Given:
    """How we are let in. What stood on the command line is told to be unsafe there."""
    password, passphrase = values["password"], values["private_key_passphrase"]
    if password is not None or passphrase is not None:
        sys.stderr.write(
            "warning: a secret on a command line is seen by everybody on this machine, and stays in the shell's "
            "history.\n  Leave it out: you are asked for it.\n"
        )
    if password is not None and values["private_key_file"]:
        raise InvalidRequest("Both a password and a private key are given; one is enough.")
    login = "workspace-key" if values["use_azureml_ssh_key"] else ""
    if values["private_key_file"]:
        return _by_key(values["private_key_file"], passphrase, account, login or "key")
    if password is not None:
        return credentials.Given(login or "password", {"password": password})
    if login:
        return credentials.Given(login, {})
    return credentials.Given("password", {"password": _ask_twice(today)})


def _by_key(file: str, passphrase: str | None, account: str, login: str) -> credentials.Given:
    if passphrase is None:
        found = credentials.read(credentials.Wanted(account, private_key_file=file), is_remote=True).credentials
    else:
        found = {"private_key": credentials.content(file, "private key"), "passphrase": passphrase}
    return credentials.Given(login, found)


def _ask_twice(today: str) -> str:
    if not credentials.can_ask():
        raise InvalidRequest(
            "No password is given, and nobody is here to be asked for it.",
            "Add --private-key-file FILE or -k; or with a password: "
            f"{today} --password-file FILE (or --password-stdin)",
        )
    first = credentials.ask_secret("Enter password:")
    if not first:
        raise InvalidRequest("Empty password not allowed. Please try again.")
    if credentials.ask_secret("Re-enter the password for confirmation:") != first:
        raise InvalidRequest("Entered passwords don't match. Please try again.")
    return first


def _tell(call: Call, target: dict[str, Any], given: credentials.Given) -> None:
    """As it was said then."""
    name, line = target["name"], call.terminal.line
    if given.login == "workspace-key":
        line("Public key:")
        line(call.get("/public-key")["public_key"])
        if not given.credentials:
            line("Please append the public key in ~/.ssh/authorized_keys file on the attached compute target.")
        line()
    line("Successfully created the following files:")
    line(f"{name}.compute: contains connection and configuration information for a remote execution target")
    line(f"{name}.runconfig: set of run options used when executing within the Azure ML Workbench application")
    if target["config"]["docker"]:
        line()
        line(f"Before running against {name}, you need to prepare it with your project's environment by running:")
        line(f"windlass experiment prepare -c {name}")
    if not target["config"]["docker"] and given.login != "workspace-key":
        return
    for lack in of_interest(target).get("missing") or ():
        call.terminal.note(f"{lack['what']}\n  {lack['fix']}")


@computetarget.command("list", cls=Command, short_help="List the compute targets.")
@_FORMAT
@_of_workspace
@click.pass_obj
def list_targets(call: Call, /, output: str | None, workspace_name: str | None, **_: Any) -> None:
    """List the compute targets: their names and types."""
    call.workspace = workspace_name or call.workspace
    found = call.get("/targets")["targets"]
    if call.json or output == "json":
        call.terminal.json([{"name": target["name"], "type": target_type(target)} for target in found])
    else:
        call.terminal.lines([f"Name={shown(target['name'])} : Type={target_type(target)}" for target in found])


@computetarget.command("show", cls=Command, short_help="Show a compute target.")
@_NAME
@_FORMAT
@_of_workspace
@click.pass_obj
def show_target(call: Call, /, name: str, output: str | None, workspace_name: str | None, **_: Any) -> None:
    """Show a compute target: what its file NAME.compute says."""
    from windlass.client import compute_files
    from windlass.client.config.yaml import dumps

    call.workspace = workspace_name or call.workspace
    target = call.get(f"/targets/{names.target_name(name)}")
    described = compute_files.describe(target) if target["kind"] == "ssh" else {"type": target_type(target)}
    if call.json or output == "json":
        call.terminal.json({"name": name, **described})
    else:
        call.terminal.line(f"Name={shown(name)} : Type={target_type(target)}")
        call.terminal.line(dumps(described).rstrip("\n"))


@computetarget.command("detach", cls=Command, short_help="Detach a compute target.")
@_NAME
@_of_workspace
@click.pass_obj
def detach_target(call: Call, /, name: str, workspace_name: str | None, **_: Any) -> None:
    """Detach a compute target, and remove its file NAME.compute. Run configurations stay."""
    from windlass.client import compute_files

    call.workspace = workspace_name or call.workspace
    gone = call.ask("DELETE", f"{call.root}/targets/{names.target_name(name)}")
    files = compute_files.remove(os.curdir, name)
    if call.json:
        call.terminal.json({**gone, "files": files})
    else:
        call.terminal.line(f"Detached {shown(name)}.")
        call.terminal.lines([f"Removed {shown(file)}" for file in files])


def target_type(target: dict[str, Any]) -> str:
    """In the words of then."""
    if target["kind"] == "ssh":
        return "remotedocker" if target["config"].get("docker") else "remote"
    return _TYPES.get(target["kind"]) or str(target["kind"])
