"""`windlass connection`: what Azure's coordinates of clusters, accounts, workspaces and machines mean here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from windlass.cli.command import Command, Group, Mistake
from windlass.cli.compute import credentials
from windlass.cli.context import Call
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters.types import FILE, Name, ask_server
from windlass.cli.workspace import slurm_login
from windlass.core import names
from windlass.core.sanitize import shown

Callback = Callable[..., None]

CONNECTION = Name(
    "connection",
    lambda call, _: [(each["name"], each["kind"]) for each in ask_server(call, "/connections")["connections"]],
)


@click.group("connection", cls=Group, short_help="Say what Azure's coordinates of clusters and accounts mean here.")
def connection() -> None:
    """Code written for Azure names a cluster, an account or a machine by its resource group and name, or by its
    resource id. A connection says once what that means here; its credentials go to the key store.
    """


@connection.group("add", cls=Group, short_help="Add a connection.")
def add() -> None:
    """Add a connection for a resource group and a name, or for a resource id."""


def _place(*name_options: str) -> Callable[[Callback], Callback]:
    """The options for coordinates, with those for the resource's name."""

    def decorate(command: Callback) -> Callback:
        for option in (
            click.option("--update", is_flag=True, help="Change a connection of that name."),
            click.option("--resource-id", metavar="ID", help="All of it: /subscriptions/…/resourceGroups/…/NAME"),
            click.option("--subscription", "subscription_id", metavar="ID", help="The subscription. [default: any]"),
            click.option(*name_options, "resource_name", metavar="NAME", help="The resource's name in Azure."),
            click.option("-g", "--resource-group", metavar="GROUP", help="The resource's group in Azure."),
            click.argument("name"),
        ):
            command = option(command)
        return click.pass_obj(command)

    return decorate


@add.command("databricks", cls=Command, short_help="A Databricks workspace: host and token.")
@_place("--workspace-name")
@click.option("--host", required=True, metavar="URL", help="Its address: https://…")
@click.option("--token-file", type=FILE, metavar="FILE", help="The access token is in FILE.")
@click.option("--token-stdin", is_flag=True, help="The access token comes on standard input.")
def add_databricks(call: Call, /, host: str, token_file: str | None, token_stdin: bool, **values: Any) -> None:
    """Add a Databricks workspace as the connection NAME. Without a file or standard input the token is asked for.

    \b
    windlass connection add databricks lab -g rg --workspace-name ws \\
        --host https://adb-1.2.azuredatabricks.net --token-file token
    """
    token = credentials.first_line_or_ask("access token", "--token", token_file, token_stdin)
    _add(call, "databricks", values, {"host": host}, {"token": token})


@add.command("aks", cls=Command, short_help="A Kubernetes cluster: its kubeconfig.")
@_place("--cluster-name")
@click.option("--kubeconfig", type=FILE, required=True, metavar="FILE", help="The file that kubectl uses.")
@click.option("--context", metavar="NAME", help="The context in it. [default: its current one]")
def add_aks(call: Call, /, kubeconfig: str, context: str | None, **values: Any) -> None:
    """Add a Kubernetes cluster as the connection NAME."""
    config = {} if context is None else {"context": context}
    _add(call, "aks", values, config, {"kubeconfig": credentials.content(kubeconfig, "kubeconfig")})


@add.command("batch", cls=Command, short_help="A Batch account: a Slurm login, or Azure Batch.")
@_place("--account-name")
@click.option("-a", "--address", metavar="HOST", help="The login node of a Slurm cluster; HOST:PORT too.")
@click.option("-u", "--username", metavar="USER", help="The account there.")
@click.option("--password-file", type=FILE, metavar="FILE", help="Log in with the password in FILE.")
@click.option("--password-stdin", is_flag=True, help="Log in with the password on standard input.")
@click.option("--ask-password", is_flag=True, help="Ask for the password.")
@click.option("--private-key-file", type=FILE, metavar="FILE", help="Log in with this private key.")
@click.option("--passphrase-file", type=FILE, metavar="FILE", help="The passphrase of the private key.")
@click.option("--passphrase-stdin", is_flag=True, help="The passphrase comes on standard input.")
@click.option("--use-agent", is_flag=True, help="Log in with the agent and the keys of ~/.ssh.")
@click.option("--batch-url", metavar="URL", help="Azure Batch itself: https://ACCOUNT.REGION.batch.azure.com")
@click.option("--account-key-file", type=FILE, metavar="FILE", help="The key of the Azure Batch account is in FILE.")
@click.option("--account-key-stdin", is_flag=True, help="The key of the account comes on standard input.")
def add_batch(call: Call, /, **values: Any) -> None:
    """Add a Batch account as the connection NAME: what it means here is a Slurm queue (--address), or Azure Batch
    itself (--batch-url).
    """
    url, address = values["batch_url"], values["address"]
    if (url is None) == (address is None):
        raise Mistake("Name one of --address and --batch-url.", "--address is a Slurm login, --batch-url Azure Batch.")
    if url is not None:
        key = credentials.first_line_or_ask(
            "account key", "--account-key", values["account_key_file"], values["account_key_stdin"]
        )
        _add(call, "batch", values, {"engine": "azurebatch", "url": url}, {"account_key": key})
        return
    if values["username"] is None:
        raise click.UsageError("--address needs --username.")
    config = {"engine": "slurm", **_address(address), "username": names.user_name(values["username"])}
    login, secrets = slurm_login.read(values, f"{config['username']}@{config['address']}", call.is_remote)
    _add(call, "batch", values, {**config, "login": login}, secrets)


@add.command("adla", cls=Command, short_help="A Data Lake Analytics account: the folder of a lake.")
@_place("--account-name")
@click.option("--folder", required=True, metavar="FOLDER", help="The lake: an absolute folder, or abfss://…, s3://…")
def add_adla(call: Call, /, folder: str, **values: Any) -> None:
    """Add a Data Lake Analytics account as the connection NAME."""
    _add(call, "adla", values, {"folder": folder}, {})


@add.command("vm", cls=Command, short_help="A virtual machine or head node: its address.")
@_place("--vm-name", "--cluster-name")
@click.option("-a", "--address", required=True, metavar="HOST", help="Its name or IP address; HOST:PORT too.")
def add_vm(call: Call, /, address: str, **values: Any) -> None:
    """Add the address of a virtual machine, or of a cluster's head node, as the connection NAME. The account
    and its password or key are named when the machine is attached.
    """
    _add(call, "vm", values, _address(address), {})


def _address(text: str) -> dict[str, Any]:
    from windlass.core.names import split_address

    host, port = split_address(text)
    return {"address": names.host_address(host), **({} if port is None else {"port": names.port_number(port)})}


def _add(call: Call, kind: str, values: dict[str, Any], config: dict[str, Any], secrets: dict[str, str]) -> None:
    place = {
        key: values[key]
        for key in ("resource_group", "resource_name", "subscription_id", "resource_id")
        if values[key] is not None
    }
    if not place:
        raise click.UsageError("Name the resource: --resource-group and its name, or --resource-id.")
    body = {"name": names.connection_name(values["name"]), "kind": kind, **place, "config": config}
    view = call.post("/connections", {**body, "credentials": secrets, "exist_ok": values["update"]})
    if call.json:
        call.terminal.json(view)
    else:
        call.terminal.line(f"{view['name']} says what {_coordinates(view)} means here.")


@connection.command("list", cls=Command, short_help="List the connections, without their credentials.")
@click.pass_obj
def list_connections(call: Call) -> None:
    """List the connections of the workspace, without their credentials."""
    columns = [Column("CONNECTION"), Column("KIND"), Column("FOR", least=12), Column("CHANGED", right=True)]

    def row(view: dict[str, Any]) -> list[str]:
        return [view["name"], view["kind"], _coordinates(view), format.ago(view["changed_at"], call.now)]

    none = "No connections yet: windlass connection add KIND NAME"
    call.listing("connections", call.get("/connections")["connections"], none, columns, row)


@connection.command("show", cls=Command, short_help="Show a connection, without its credentials.")
@click.argument("name", type=CONNECTION)
@click.pass_obj
def show_connection(call: Call, name: str) -> None:
    """Show the connection NAME, without its credentials."""
    view = call.get(f"/connections/{names.connection_name(name)}")
    if call.json:
        call.terminal.json(view)
        return
    call.terminal.line(shown(view["name"]))
    settings = [(key.replace("_", " "), shown(str(value))) for key, value in view["config"].items()]
    facts = [("kind", view["kind"]), ("for", _coordinates(view)), *settings, ("added by", shown(view["created_by"]))]
    call.facts(facts)


@connection.command("remove", cls=Command, short_help="Remove connections with their credentials.")
@click.argument("name", type=CONNECTION, nargs=-1, required=True)
@click.pass_obj
def remove_connection(call: Call, name: tuple[str, ...]) -> None:
    """Remove the connections NAME with their credentials. Refused while targets use them."""
    for one in [names.connection_name(each) for each in name]:
        call.ask("DELETE", f"{call.root}/connections/{one}")
        if not call.json:
            call.terminal.line(f"{one} is removed.")
    if call.json:
        call.terminal.json({"removed": list(name)})


def _coordinates(view: dict[str, Any]) -> str:
    parts = (view["subscription_id"], view["resource_group"], view["resource_name"])
    return shown("/".join(part for part in parts if part))
