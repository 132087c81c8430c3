"""`windlass compute attach ssh`: a Linux machine that is reached by SSH."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli import asking, credentials, host_keys
from windlass.cli.call import Call
from windlass.cli.command import Command
from windlass.cli.param_types import FILE, TARGET
from windlass.cli.targets import print_attached
from windlass.core import names
from windlass.core.errors import AlreadyExists, NotFound

_SETTINGS = ("jump", "python", "root", "base_image")


@click.command("ssh", cls=Command, short_help="A Linux machine that is reached by SSH.")
@click.argument("name")
@click.option("-a", "--address", required=True, metavar="HOST", help="Its name or IP address; HOST:PORT too.")
@click.option(
    "-p",
    "--port",
    type=click.IntRange(1, 65535),
    help="The port of its SSH server. [default: that of ~/.ssh/config, else 22]",
)
@click.option("-u", "--username", required=True, metavar="USER", help="The account that runs are run by.")
@click.option("--password-file", type=FILE, metavar="FILE", help="Log in with the password in FILE.")
@click.option("--password-stdin", is_flag=True, help="Log in with the password on standard input.")
@click.option("--ask-password", is_flag=True, help="Ask for the password.")
@click.option(
    "--private-key-file", type=FILE, metavar="FILE", help="Log in with this private key; it is kept in the key store."
)
@click.option("--passphrase-file", type=FILE, metavar="FILE", help="The passphrase of the private key.")
@click.option("--passphrase-stdin", is_flag=True, help="The passphrase comes on standard input.")
@click.option("--use-agent", is_flag=True, help="Log in with the agent and the keys of ~/.ssh. This is the default.")
@click.option("-k", "--use-workspace-key", is_flag=True, help="Log in with the workspace's own key, which is printed; "
              "with a password or private key it is installed there.")  # fmt: skip
@click.option("--jump", type=TARGET, metavar="TARGET", help="Reach it through this attached machine.")
@click.option("--host-key", metavar="FINGERPRINT|accept", help="What its host key must be (SHA256:…), without asking.")
@click.option("--docker", is_flag=True, help="All runs there live in containers.")
@click.option("--base-image", metavar="IMAGE", help="The image of containers whose run names none.")
@click.option("--python", metavar="PATH", help="The Python there that runs the runner. [default: python3]")
@click.option("--root", metavar="FOLDER", help="The folder there. [default: ~/.windlass/ssh]")
@click.option(
    "--slots",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="How many runs at once. [default: its cores, at least 4]",
)
@click.option("--update", is_flag=True, help="Attach it anew: other credentials, address or settings.")
@click.option("--write-files/--no-write-files", default=None, help="Write NAME.compute and NAME.runconfig. "
              "[default: if there is .azureml or aml_config]")  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Take the machine that answers for the right one.")
@click.pass_obj
def ssh(call: Call, /, **values: Any) -> None:
    """Attach a Linux machine as the target NAME: an account there and Python 3.8 or newer are all that it needs.

    Its host key is shown and pinned: if another machine answers later, nothing is sent there. Passwords and keys go to
    the workspace's key store, from which nobody reads them back.

    \b
    windlass compute attach ssh gpu-box --address 10.0.0.7 --username jane
    windlass compute attach ssh gpu-box -a 10.0.0.7 -u jane --password-file pw
    windlass compute attach ssh gpu-box -a 10.0.0.7 -u jane -k --ask-password
    """
    name = names.target_name(values["name"])
    config = _config(values)
    wanted = _wanted(values, config)
    if not values["update"] and credentials.will_ask(wanted, call.is_remote):
        _refuse_taken(call, name)
    given = credentials.read(wanted, call.is_remote)
    config["login"] = given.login
    seen = asking.identify(call, config)
    is_confirmed = host_keys.confirm(call, config["address"], seen, values["host_key"], values["yes"])
    config = {**config, "host_key": seen["host_key"], "host_key_confirmed": is_confirmed}
    is_ours = given.login == "workspace-key"
    if is_ours and not given.credentials:
        _show_public_key(call, config, "belongs into")
    body = {"name": name, "kind": "ssh", "config": config, "credentials": given.credentials}
    attached = asking.attach(call, {**body, "slots": values["slots"], "exist_ok": values["update"]})
    if is_ours and given.credentials:
        _show_public_key(call, config, "was put into")
    print_attached(call, attached, _write_files(attached, values["write_files"]))


def _refuse_taken(call: Call, name: str) -> None:
    """Said before a password is asked for in vain."""
    try:
        call.get(f"/targets/{name}")
    except NotFound:
        return
    raise AlreadyExists(f"There is a target {name} already.", "Choose another name, or add --update to attach it anew.")


def _config(values: dict[str, Any]) -> dict[str, Any]:
    from windlass.client.compute_files import split_address

    host, port = split_address(values["address"])
    if port is not None and values["port"] not in (None, port):
        raise click.UsageError(f"--address names port {port}, and --port {values['port']}.")
    port = values["port"] if port is None else port
    config: dict[str, Any] = {"address": names.host_address(host), "username": names.user_name(values["username"])}
    if port is not None:
        config["port"] = names.port_number(port)
    config.update({key: values[key] for key in _SETTINGS if values[key] is not None})
    if values["docker"]:
        config["docker"] = True
    return config


def _wanted(values: dict[str, Any], config: dict[str, Any]) -> credentials.Wanted:
    options = {key: values[key] for key in credentials.Wanted._fields if key != "account"}
    return credentials.Wanted(account=f"{config['username']}@{config['address']}", **options)


def _show_public_key(call: Call, config: dict[str, Any], where: str) -> None:
    """For a person to put there, or to know what was."""
    key = call.get("/public-key")["public_key"]
    if call.json:
        return
    call.terminal.note(f"The workspace's public key {where} ~/.ssh/authorized_keys of {config['username']}:")
    call.terminal.line(key)


def _write_files(target: dict[str, Any], wanted: bool | None) -> list[str]:
    from windlass.client import compute_files

    if wanted is None:
        wanted = compute_files.has_folder(".")
    return compute_files.write(target, ".") if wanted else []
