"""`windlass connection`: maps Azure's coordinates (resource group and name, or id) to resources of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from windlass.cli.command import Command, Group, HintedUsageError
from windlass.cli.compute import credentials
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters.types import FILE, Name, ask_server
from windlass.cli.workspace import slurm_login
from windlass.core import names
from windlass.core.sanitize import escape

Callback = Callable[..., None]

CONNECTION = Name(
    "connection",
    lambda context, _: [(each["name"], each["kind"]) for each in ask_server(context, "/connections")["connections"]],
)


@click.group("connection", cls=Group, short_help="Map Azure resources to your own clusters and accounts.")
def connection() -> None:
    """Code written for Azure names a cluster, an account or a machine by its resource group and name, or by its
    resource id. A connection maps that to a resource of your own; its credentials are kept in the key store.
    """


@connection.group("add", cls=Group, short_help="Add a connection.")
def add() -> None:
    """Add a connection for a resource group and a name, or for a resource id."""


def _coordinate_options(*name_options: str) -> Callable[[Callback], Callback]:
    """The options for coordinates; `name_options` are the names of the option for the resource's name."""

    def decorate(command: Callback) -> Callback:
        for option in (
            click.option("--update", is_flag=True, help="Replace the connection of that name."),
            click.option("--resource-id", metavar="ID", help="The whole id: /subscriptions/…/resourceGroups/…/NAME"),
            click.option("--subscription", "subscription_id", metavar="ID", help="The subscription. [default: any]"),
            click.option(*name_options, "resource_name", metavar="NAME", help="The resource's name in Azure."),
            click.option("-g", "--resource-group", metavar="GROUP", help="The resource's group in Azure."),
            click.argument("name"),
        ):
            command = option(command)
        return click.pass_obj(command)

    return decorate


@add.command("databricks", cls=Command, short_help="A Databricks workspace: host and token.")
@_coordinate_options("--workspace-name")
@click.option("--host", required=True, metavar="URL", help="Its address: https://…")
@click.option("--token-file", type=FILE, metavar="FILE", help="The access token is in FILE.")
@click.option("--token-stdin", is_flag=True, help="The access token comes on standard input.")
def add_databricks(
    context: CommandContext, /, host: str, token_file: str | None, token_stdin: bool, **values: Any
) -> None:
    """Add a Databricks workspace as the connection NAME. Without a file or standard input the token is asked for.

    \b
    windlass connection add databricks lab -g rg --workspace-name ws \\
        --host https://adb-1.2.azuredatabricks.net --token-file token
    """
    token = credentials.first_line_or_ask("access token", "--token", token_file, token_stdin)
    _add(context, "databricks", values, {"host": host}, {"token": token})


@add.command("aks", cls=Command, short_help="A Kubernetes cluster: its kubeconfig.")
@_coordinate_options("--cluster-name")
@click.option("--kubeconfig", type=FILE, required=True, metavar="FILE", help="The file that kubectl uses.")
@click.option("--context", "kube_context", metavar="NAME", help="The context in it. [default: its current one]")
def add_aks(context: CommandContext, /, kubeconfig: str, kube_context: str | None, **values: Any) -> None:
    """Add a Kubernetes cluster as the connection NAME."""
    config = {} if kube_context is None else {"context": kube_context}
    _add(context, "aks", values, config, {"kubeconfig": credentials.content(kubeconfig, "kubeconfig")})


@add.command("batch", cls=Command, short_help="A Batch account: a Slurm login, or Azure Batch.")
@_coordinate_options("--account-name")
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
def add_batch(context: CommandContext, /, **values: Any) -> None:
    """Add a Batch account as the connection NAME. It stands for a Slurm cluster (--address), or for Azure Batch itself
    (--batch-url).
    """
    url, address = values["batch_url"], values["address"]
    if (url is None) == (address is None):
        raise HintedUsageError(
            "Name one of --address and --batch-url.", "--address is a Slurm login, --batch-url Azure Batch."
        )
    if url is not None:
        key = credentials.first_line_or_ask(
            "account key", "--account-key", values["account_key_file"], values["account_key_stdin"]
        )
        _add(context, "batch", values, {"engine": "azurebatch", "url": url}, {"account_key": key})
        return
    if values["username"] is None:
        raise click.UsageError("--address needs --username.")
    config = {"engine": "slurm", **_address(address), "username": names.user_name(values["username"])}
    login, secrets = slurm_login.read(values, f"{config['username']}@{config['address']}", context.is_remote)
    _add(context, "batch", values, {**config, "login": login}, secrets)


@add.command("adla", cls=Command, short_help="A Data Lake Analytics account: the folder of a lake.")
@_coordinate_options("--account-name")
@click.option("--folder", required=True, metavar="FOLDER", help="The lake: an absolute folder, or abfss://…, s3://…")
def add_adla(context: CommandContext, /, folder: str, **values: Any) -> None:
    """Add a Data Lake Analytics account as the connection NAME."""
    _add(context, "adla", values, {"folder": folder}, {})


@add.command("vm", cls=Command, short_help="A virtual machine or head node: its address.")
@_coordinate_options("--vm-name", "--cluster-name")
@click.option("-a", "--address", required=True, metavar="HOST", help="Its name or IP address; HOST:PORT too.")
def add_vm(context: CommandContext, /, address: str, **values: Any) -> None:
    """Add the address of a virtual machine, or of a cluster's head node, as the connection NAME. The account
    and its password or key are named when the machine is attached.
    """
    _add(context, "vm", values, _address(address), {})


def _address(text: str) -> dict[str, Any]:
    from windlass.core.names import split_address

    host, port = split_address(text)
    return {"address": names.host_address(host), **({} if port is None else {"port": names.port_number(port)})}


def _add(
    context: CommandContext, kind: str, values: dict[str, Any], config: dict[str, Any], secrets: dict[str, str]
) -> None:
    place = {
        key: values[key]
        for key in ("resource_group", "resource_name", "subscription_id", "resource_id")
        if values[key] is not None
    }
    if not place:
        raise click.UsageError("Name the resource: --resource-group and its name, or --resource-id.")
    body = {"name": names.connection_name(values["name"]), "kind": kind, **place, "config": config}
    view = context.post("/connections", {**body, "credentials": secrets, "exist_ok": values["update"]})
    if context.json:
        context.terminal.json(view)
    else:
        context.terminal.line(f"{view['name']} says what {_coordinates(view)} means here.")


@connection.command("list", cls=Command, short_help="List the connections, without their credentials.")
@click.pass_obj
def list_connections(context: CommandContext) -> None:
    """List the connections of the workspace, without their credentials."""
    columns = [Column("CONNECTION"), Column("KIND"), Column("FOR", least=12), Column("CHANGED", right=True)]

    def row(view: dict[str, Any]) -> list[str]:
        return [view["name"], view["kind"], _coordinates(view), format.ago(view["changed_at"], context.now)]

    none = "No connections yet: windlass connection add KIND NAME"
    context.print_list("connections", context.get("/connections")["connections"], none, columns, row)


@connection.command("show", cls=Command, short_help="Show a connection, without its credentials.")
@click.argument("name", type=CONNECTION)
@click.pass_obj
def show_connection(context: CommandContext, name: str) -> None:
    """Show the connection NAME, without its credentials."""
    view = context.get(f"/connections/{names.connection_name(name)}")
    if context.json:
        context.terminal.json(view)
        return
    context.terminal.line(escape(view["name"]))
    settings = [(key.replace("_", " "), escape(str(value))) for key, value in view["config"].items()]
    facts = [("kind", view["kind"]), ("for", _coordinates(view)), *settings, ("added by", escape(view["created_by"]))]
    context.print_facts(facts)


@connection.command("remove", cls=Command, short_help="Remove connections with their credentials.")
@click.argument("name", type=CONNECTION, nargs=-1, required=True)
@click.pass_obj
def remove_connection(context: CommandContext, name: tuple[str, ...]) -> None:
    """Remove the connections NAME with their credentials. Refused while targets use them."""
    for one in [names.connection_name(each) for each in name]:
        context.request("DELETE", f"{context.workspace_path}/connections/{one}")
        if not context.json:
            context.terminal.line(f"{one} is removed.")
    if context.json:
        context.terminal.json({"removed": list(name)})


def _coordinates(view: dict[str, Any]) -> str:
    parts = (view["subscription_id"], view["resource_group"], view["resource_name"])
    return escape("/".join(part for part in parts if part))
