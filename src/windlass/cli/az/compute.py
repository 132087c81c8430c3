"""`az ml compute` of the CLI v2."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.az.computetarget import TARGET, change_cluster, compute_class, control, find, provision
from windlass.cli.az.declaration import COUNT, NAME, AzGroup, Values, ignored, many, option
from windlass.cli.context import CommandContext
from windlass.cli.parameters import key_values
from windlass.core.errors import SpecNotSupported

if TYPE_CHECKING:
    from windlass.client.config.cli_v2_compute_file import ComputeFile

View = dict[str, Any]
_FILE = option("-f --file", "The target, as a YAML file.", "FILE")
_SET = many("--set", "Replace what the file says.", "KEY=VALUE")
_IDLE = option("-d --idle-time-before-scale-down", "How long a node may be idle.", "SECONDS", kind=int)
_LEAST = option("--min-instances", "The fewest nodes.", "N", kind=int)
_MOST = option("--max-instances", "The most nodes.", "N", kind=int)
_IDENTITY = ignored("--identity-type", "-i --user-assigned-identities")
_IDLE_SECONDS = 120
_MOST_NODES = 4

compute = AzGroup("compute", "Create, attach, list, show, start and stop targets (CLI v2).")


@compute.declare(
    "create",
    "Create a cluster or a compute instance: of a YAML file, or by options.",
    _FILE,
    NAME,
    option("-t --type", "AmlCompute or ComputeInstance.", "TYPE"),
    option("--size", "The size of its machines.", "SIZE"),
    _LEAST,
    _MOST,
    option("--tier", "dedicated or low_priority.", "TIER"),
    _IDLE,
    option("--admin-username", "The account on its nodes.", "USER"),
    option("--admin-password", "Its password.", "TEXT"),
    option("--ssh-key-value", "Its public key.", "KEY"),
    option("-p --ssh-public-access-enabled", "Whether it is reached by SSH.", "BOOL", is_value_optional=True),
    option("--description", "What it is.", "TEXT"),
    many("--tags", "A tag."),
    _SET,
    *_IDENTITY,
    *ignored(
        "--enable-node-public-ip", "-l --location", "--subnet", "--vnet-name", "--user-object-id", "--user-tenant-id"
    ),
)
def create(context: CommandContext, values: Values) -> Any:
    said = _said(values)
    if said.type == "amlcompute":
        configuration = _cluster(said)
    elif said.type == "computeinstance":
        configuration = _instance(said)
    else:
        raise SpecNotSupported(f"A target of type {said.type} is attached, not created.", "az ml compute attach")
    return _shape(provision(context, said.name, configuration, False, not values["no_wait"]))


def _said(values: Values) -> ComputeFile:
    """Read the file, and apply the options to it."""
    from windlass.client.config import cli_v2_compute_file

    if values["file"]:
        found = cli_v2_compute_file.load(values["file"], values.get("set") or ())
    else:
        if not values["name"] or not values["type"]:
            raise click.UsageError("the following arguments are required: --name/-n and --type/-t, or --file/-f")
        if values["type"].lower() not in cli_v2_compute_file.TYPES:
            raise click.UsageError(f"{values['type']} is none of {', '.join(cli_v2_compute_file.TYPES)}.")
        found = cli_v2_compute_file.ComputeFile(values["name"], values["type"].lower())
    ssh = dataclasses.replace(
        found.ssh_settings or cli_v2_compute_file.SshSettings(), **_given(values, cli_v2_compute_file.SshSettings)
    )
    changes = _given(values, cli_v2_compute_file.ComputeFile)
    if values.get("tags"):
        changes["tags"] = key_values.parse(values["tags"], "--tags")
    if values.get("ssh_public_access_enabled") is not None:
        changes["ssh_public_access_enabled"] = values["ssh_public_access_enabled"].lower() != "false"
    return dataclasses.replace(found, **{**changes, "type": found.type, "ssh_settings": ssh})


def _given(values: Values, kind: Any) -> dict[str, Any]:
    """The fields that are set by an option."""
    fields = {each.name for each in dataclasses.fields(kind)}
    return {key: value for key, value in values.items() if key in fields and value not in (None, ())}


def _cluster(said: ComputeFile) -> Any:
    ssh = said.ssh_settings
    assert ssh is not None
    return compute_class("AmlCompute").provisioning_configuration(
        vm_size=said.size or "",
        vm_priority="lowpriority" if (said.tier or "").replace("_", "") == "lowpriority" else "dedicated",
        min_nodes=said.min_instances or 0,
        max_nodes=_MOST_NODES if said.max_instances is None else said.max_instances,
        idle_seconds_before_scaledown=said.idle_time_before_scale_down or _IDLE_SECONDS,
        admin_username=ssh.admin_username,
        admin_user_password=ssh.admin_password,
        admin_user_ssh_key=ssh.ssh_key_value,
        tags=said.tags or None,
        description=said.description,
    )


def _instance(said: ComputeFile) -> Any:
    assert said.ssh_settings is not None
    return compute_class("ComputeInstance").provisioning_configuration(
        vm_size=said.size or "",
        ssh_public_access=bool(said.ssh_public_access_enabled),
        admin_user_ssh_public_key=said.ssh_settings.ssh_key_value,
        tags=said.tags or None,
        description=said.description,
    )


@compute.declare(
    "attach",
    "Attach a virtual machine or a Kubernetes cluster: of a YAML file, or by options.",
    _FILE,
    NAME,
    option("-t --type", "virtualmachine or Kubernetes.", "TYPE"),
    option("--resource-id", "Its resource id in Azure.", "ID"),
    option("--address", "The machine itself: HOST or HOST:PORT, in place of --resource-id.", "HOST"),
    option("--admin-username", "The account.", "USER"),
    option("--admin-password", "Its password: better a key.", "TEXT"),
    option("--ssh-port", "The port of its SSH server. [default: 22]", "N", kind=int),
    option("--ssh-private-key-file", "Log in with this private key.", "FILE"),
    option("--namespace", "The namespace of its runs.", "NAME"),
    _SET,
    *_IDENTITY,
)
def attach(context: CommandContext, values: Values) -> Any:
    said = _said(values)
    ssh = said.ssh_settings
    assert ssh is not None
    if said.type == "virtualmachine":
        configuration = compute_class("RemoteCompute").attach_configuration(
            username=ssh.admin_username or "",
            resource_id=said.resource_id,
            address=said.address,
            ssh_port=ssh.ssh_port or 22,
            password=ssh.admin_password or "",
            private_key_file=ssh.ssh_private_key_file or "",
        )
    elif said.type == "kubernetes":
        configuration = compute_class("KubernetesCompute").attach_configuration(
            resource_id=said.resource_id, namespace=said.namespace
        )
    else:
        raise SpecNotSupported(f"A target of type {said.type} is created, not attached.", "az ml compute create")
    return _shape(provision(context, said.name, configuration, True, not values["no_wait"]))


@compute.declare(
    "list",
    "List the targets.",
    option("-t --type", "Only targets of this type.", "TYPE"),
    option("-r --max-results", "How many.", "N", kind=COUNT),
)
def list_targets(context: CommandContext, values: Values) -> Any:
    from windlass.client.compute.target import ComputeTarget

    shapes = [_shape(target) for target in ComputeTarget.list(context.sdk_workspace())]
    wanted = (values["type"] or "").lower()
    return [each for each in shapes if wanted in ("", each["type"])][: values["max_results"]]


@compute.declare("show", "Show a target.", TARGET)
def show(context: CommandContext, values: Values) -> Any:
    return _shape(find(context, values["name"]))


@compute.declare(
    "update", "Change a cluster.", TARGET, _LEAST, _MOST, _IDLE, many("--tags", "A tag."), _SET, *_IDENTITY
)
def update(context: CommandContext, values: Values) -> Any:
    least, most, idle = (values[key] for key in ("min_instances", "max_instances", "idle_time_before_scale_down"))
    return _shape(change_cluster(context, values["name"], least, most, idle))


@compute.declare("delete", "Delete a target that was created.", TARGET)
def delete(context: CommandContext, values: Values) -> None:
    find(context, values["name"]).delete()


@compute.declare("detach", "Detach a target that was attached.", TARGET)
def detach(context: CommandContext, values: Values) -> None:
    from windlass.client.config import workbench_compute_file

    find(context, values["name"]).detach()
    workbench_compute_file.remove(os.curdir, values["name"])


@compute.declare("list-nodes", "List the nodes of a cluster.", TARGET)
def list_nodes(context: CommandContext, values: Values) -> Any:
    target = find(context, values["name"])
    if not hasattr(target, "list_nodes"):
        raise SpecNotSupported(f"{values['name']} is not a cluster: only those have nodes.", "az ml compute list")
    return target.list_nodes()


@compute.declare("list-sizes", "List the sizes of machines.", *ignored("-l --location", "-t --type"))
def list_sizes(context: CommandContext, values: Values) -> Any:
    return compute_class("AmlCompute").supported_vmsizes(context.sdk_workspace())


@compute.declare("list-usage", "List what is used of each size.", *ignored("-l --location"))
def list_usage(context: CommandContext, values: Values) -> Any:
    return compute_class("AmlCompute").list_usages(context.sdk_workspace())


def _control(verb: str) -> None:
    @compute.declare(verb, f"{verb.capitalize()} a compute instance.", TARGET)
    def act(context: CommandContext, values: Values) -> None:
        control(context, values["name"], verb, not values["no_wait"])


for _verb in ("start", "stop", "restart"):
    _control(_verb)
compute.explain("connect-ssh", "Logging in is not provided in this version: use ssh with the address of the target.")
compute.explain("enable-sso", "Single sign-on has no meaning here: each member has a token (`windlass token create`).")


def _shape(target: Any) -> View:
    """A target in the words of the CLI v2."""
    document = target.serialize()
    about = document["properties"]
    own = about.get("properties") or {}
    scale = own.get("scaleSettings") or {}
    found: View = {
        "created_on": target.created_on.isoformat() if target.created_on else None,
        "description": target.description,
        "id": target.id,
        "location": target.location,
        "name": target.name,
        "provisioning_state": target.provisioning_state,
        "resource_id": about.get("resourceId"),
        "tags": target.tags or {},
        "type": str(target.type).lower(),
    }
    said = {
        "size": own.get("vmSize"),
        "tier": {"Dedicated": "dedicated", "LowPriority": "low_priority"}.get(str(own.get("vmPriority"))),
        "min_instances": scale.get("minNodeCount"),
        "max_instances": scale.get("maxNodeCount"),
        "idle_time_before_scale_down": scale.get("nodeIdleTimeBeforeScaleDown"),
        "ssh_settings": {"ssh_port": own["sshPort"]} if own.get("sshPort") else None,
        "address": own.get("address"),
    }
    return {**found, **{key: value for key, value in said.items() if value is not None}}
