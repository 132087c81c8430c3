"""`az ml computetarget` of Workbench, of the SDK's first command line and of the CLI v1."""

from __future__ import annotations

import os
from typing import Any

import click

from windlass.cli.az.declaration import (
    NAME,
    PROJECT,
    AzGroup,
    Option,
    Values,
    ignored,
    many,
    option,
    required,
)
from windlass.cli.context import CommandContext
from windlass.cli.parameters import key_values
from windlass.cli.workbench.computetarget import attach as native_attach
from windlass.cli.workbench.computetarget import target_type, with_kind
from windlass.core import names
from windlass.core.errors import SpecNotSupported

View = dict[str, Any]
TARGET = required(NAME._replace(help="The target's name."))
_SIZE = option("-s --vm-size", "The size of its machines.", "SIZE")
_NETWORK = ignored("--vnet-name", "--vnet-resourcegroup-name", "--subnet-name", "-l --location")
_RESOURCE = option("-i --compute-resource-id", "Its resource id in Azure.", "ID")

computetarget = AzGroup("computetarget", "Create, attach, list, show and detach targets (CLI v1 and Workbench).")
create = computetarget.subgroup("create", "Create a target.")
update = computetarget.subgroup("update", "Change a target.")


class _Attach(AzGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_kind(args))


attach = _Attach("attach", "Attach a target that is there.")
computetarget.add_command(attach)
for _native in native_attach.commands.values():
    attach.add_native(_native)


def compute_class(name: str) -> Any:
    """A class of the SDK, imported when it is needed."""
    import windlass

    return getattr(windlass, name)


def provision(context: CommandContext, name: str, configuration: Any, is_attached: bool, waits: bool = True) -> Any:
    """Create or attach a target by the SDK, and wait for it."""
    from windlass.client.compute.target import ComputeTarget

    act = ComputeTarget.attach if is_attached else ComputeTarget.create
    target = act(context.sdk_workspace(), name, configuration)
    if waits:
        target.wait_for_completion(show_output=True)
    return target


@create.declare(
    "amlcompute",
    "Create a cluster.",
    TARGET,
    required(_SIZE),
    required(option("--max-nodes", "The most nodes.", "N", kind=int)),
    option("--min-nodes", "The fewest nodes. [default: 0]", "N", kind=int),
    option("--idle-seconds-before-scaledown", "How long a node may be idle. [default: 1800]", "SECONDS", kind=int),
    option("-p --vm-priority", "dedicated or lowpriority.", "PRIORITY"),
    option("--admin-username", "The account on its nodes.", "USER"),
    option("--admin-user-password", "Its password.", "TEXT"),
    option("--admin-user-ssh-key", "Its public key.", "KEY"),
    option("--description", "What it is.", "TEXT"),
    many("--tag", "A tag."),
    PROJECT,
    *_NETWORK,
    *ignored("--assign-identity", "--remote-login-port-public-access", "--enable-node-public-ip"),
)
def create_cluster(context: CommandContext, values: Values) -> Any:
    configuration = compute_class("AmlCompute").provisioning_configuration(
        vm_size=values["vm_size"],
        vm_priority=values["vm_priority"] or "dedicated",
        min_nodes=values["min_nodes"] or 0,
        max_nodes=values["max_nodes"],
        idle_seconds_before_scaledown=values["idle_seconds_before_scaledown"] or 1800,
        admin_username=values["admin_username"],
        admin_user_password=values["admin_user_password"],
        admin_user_ssh_key=values["admin_user_ssh_key"],
        tags=key_values.parse(values["tag"], "--tag") or None,
        description=values["description"],
    )
    return brief(provision(context, values["name"], configuration, False, not values["no_wait"]))


@create.declare(
    "computeinstance",
    "Create a compute instance.",
    TARGET,
    required(_SIZE),
    option("--ssh-public-access", "Whether it is reached by SSH: True or False.", "BOOL"),
    option("--admin-user-ssh-public-key", "The public key of its account.", "KEY"),
    option("--description", "What it is.", "TEXT"),
    many("--tag", "A tag."),
    PROJECT,
    *_NETWORK,
    *ignored("--user-object-id", "--user-tenant-id"),
)
def create_instance(context: CommandContext, values: Values) -> Any:
    configuration = compute_class("ComputeInstance").provisioning_configuration(
        vm_size=values["vm_size"],
        ssh_public_access=str(values["ssh_public_access"]).lower() == "true",
        admin_user_ssh_public_key=values["admin_user_ssh_public_key"],
        tags=key_values.parse(values["tag"], "--tag") or None,
        description=values["description"],
    )
    return brief(provision(context, values["name"], configuration, False, not values["no_wait"]))


@create.declare(
    "aks",
    "Create a Kubernetes cluster for web services.",
    TARGET,
    _SIZE,
    option("-a --agent-count", "How many nodes.", "N", kind=int),
    PROJECT,
    *_NETWORK,
    *ignored(
        "--cluster-purpose", "--dns-service-ip", "--docker-bridge-cidr", "--load-balancer-subnet",
        "--load-balancer-type", "--service-cidr", "--ssl-cert-file", "--ssl-cname", "--ssl-key-file",
        "--ssl-leaf-domain-label", "--ssl-overwrite-domain",
    ),
)  # fmt: skip
def create_kubernetes(context: CommandContext, values: Values) -> Any:
    configuration = compute_class("AksCompute").provisioning_configuration(
        agent_count=values["agent_count"], vm_size=values["vm_size"]
    )
    return brief(provision(context, values["name"], configuration, False, not values["no_wait"]))


@create.declare("datafactory", "Create a data factory.", TARGET, PROJECT, *ignored("-l --location"))
def create_data_factory(context: CommandContext, values: Values) -> Any:
    configuration = compute_class("DataFactoryCompute").provisioning_configuration()
    return brief(provision(context, values["name"], configuration, False, not values["no_wait"]))


def _attach_by_resource(kind: str, text: str, class_name: str, *more: Option) -> None:
    """Declare `attach KIND`, for a kind that is named by its resource id."""

    @attach.declare(kind, text, TARGET, required(_RESOURCE), *more, PROJECT)
    def attach_it(context: CommandContext, values: Values) -> Any:
        said = {key: values[key] for key in ("namespace", "access_token") if values.get(key)}
        configuration = compute_class(class_name).attach_configuration(
            resource_id=values["compute_resource_id"], **said
        )
        return brief(provision(context, values["name"], configuration, True))


_attach_by_resource("aks", "Attach an AKS cluster, for web services.", "AksCompute")
_attach_by_resource(
    "kubernetes",
    "Attach a Kubernetes cluster.",
    "KubernetesCompute",
    option("--namespace", "The namespace of its runs.", "NAME"),
)
_attach_by_resource(
    "databricks",
    "Attach a Databricks workspace.",
    "DatabricksCompute",
    option("-a --access-token", "Its token.", "TEXT"),
)
_attach_by_resource("adla", "Attach a Data Lake Analytics account.", "AdlaCompute")
_attach_by_resource("batch", "Attach a Batch account.", "BatchCompute")
_attach_by_resource("datafactory", "Attach a data factory.", "DataFactoryCompute")
attach.add_native(native_attach.commands["cluster"], "hdi")
attach.explain(
    "batchai", "Batch AI clusters are not attached here: `az ml computetarget create amlcompute` makes a cluster."
)
computetarget.subgroup("setup", "Set up a machine.").explain(
    "dsvm", "Machines are not created here: `windlass compute attach ssh NAME ...` attaches one that is there."
)


@update.declare(
    "amlcompute",
    "Change a cluster.",
    TARGET,
    option("--min-nodes", "The fewest nodes.", "N", kind=int),
    option("--max-nodes", "The most nodes.", "N", kind=int),
    option("--idle-seconds-before-scaledown", "How long a node may be idle.", "SECONDS", kind=int),
    PROJECT,
)
def update_cluster(context: CommandContext, values: Values) -> Any:
    return brief(
        change_cluster(
            context, values["name"], values["min_nodes"], values["max_nodes"], values["idle_seconds_before_scaledown"]
        )
    )


def change_cluster(context: CommandContext, name: str, least: int | None, most: int | None, idle: int | None) -> Any:
    target = find(context, name)
    if not hasattr(target, "update"):
        raise SpecNotSupported(f"{name} is not a cluster.", "`windlass compute update` changes a target.")
    target.update(min_nodes=least, max_nodes=most, idle_seconds_before_scaledown=idle)
    return target


update.explain("aks", "Changing an AKS cluster is not provided in this version: change it where it runs.")


@computetarget.declare("list", "List the targets.", PROJECT)
def list_targets(context: CommandContext, values: Values) -> Any:
    from windlass.client.compute.target import ComputeTarget

    views = {view["name"]: view for view in context.get("/targets")["targets"]}
    found = ComputeTarget.list(context.sdk_workspace())
    return [{**brief(each), "type": target_type(views[each.name])} for each in found if each.name in views]


@computetarget.declare("show", "Show a target.", TARGET, PROJECT)
def show(context: CommandContext, values: Values) -> Any:
    document: View = find(context, values["name"]).serialize()
    return {**document, "provisioningState": document["properties"]["provisioningState"]}


def find(context: CommandContext, name: str) -> Any:
    """A target as an object of the SDK. Raises NotFound."""
    from windlass.client.compute.target import ComputeTarget

    context.get(f"/targets/{names.target_name(name)}")
    return ComputeTarget(context.sdk_workspace(), name)


@computetarget.declare("detach", "Detach a target.", TARGET, PROJECT)
def detach(context: CommandContext, values: Values) -> None:
    from windlass.client.config import workbench_compute_file

    find(context, values["name"]).detach()
    workbench_compute_file.remove(values["project"] or os.curdir, values["name"])


@computetarget.declare("delete", "Delete a target that was created.", TARGET, PROJECT)
def delete(context: CommandContext, values: Values) -> None:
    find(context, values["name"]).delete()


@computetarget.declare("get-credentials", "Show how a target is logged in to, without secrets.", TARGET, PROJECT)
def get_credentials(context: CommandContext, values: Values) -> Any:
    target = find(context, values["name"])
    if not hasattr(target, "get_credentials"):
        raise SpecNotSupported(f"{values['name']} has no credentials.", "`az ml computetarget show` shows it.")
    return target.get_credentials()


instance = computetarget.subgroup("computeinstance", "Start and stop compute instances.")


def control(context: CommandContext, name: str, verb: str, waits: bool) -> Any:
    """Start, stop or restart a compute instance."""
    target = find(context, name)
    if not hasattr(target, verb):
        raise SpecNotSupported(f"{name} is not a compute instance: only those {verb}.", "`az ml compute list`")
    getattr(target, verb)(wait_for_completion=waits, show_output=waits)
    return target


def _control(verb: str) -> None:
    @instance.declare(verb, f"{verb.capitalize()} a compute instance.", TARGET, PROJECT)
    def act(context: CommandContext, values: Values) -> Any:
        return brief(control(context, values["name"], verb, not values["no_wait"]))


for _verb in ("start", "stop", "restart"):
    _control(_verb)
computetarget.subgroup("amlcompute", "Identities of clusters.").explain(
    "identity", "Identities have no meaning here: a run has the secrets that it is granted (`windlass secret grant`)."
)


def brief(target: Any) -> View:
    """A target as the CLI v1 prints it."""
    return {
        "location": target.location,
        "name": target.name,
        "provisioningErrors": target.provisioning_errors,
        "provisioningState": target.provisioning_state,
    }
