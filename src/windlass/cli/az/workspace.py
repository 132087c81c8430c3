"""`az ml workspace` of the CLI v1 and v2, and `az ml folder`."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from windlass.cli.az.declaration import METADATA, PROJECT, V1, AzGroup, Values, flag, ignored, many, option
from windlass.cli.context import CommandContext
from windlass.cli.parameters import key_values
from windlass.core import names
from windlass.core.errors import NotFound

View = dict[str, Any]
_NAME = option("-n --name -w --workspace-name", "The workspace. [default: that of the folder]", "NAME", key="name")
_GROUP = option("-g --resource-group", "The resource group: kept with the workspace.", "NAME")

workspace = AzGroup("workspace", "Create, list and show workspaces (CLI v1 and v2).")
folder = AzGroup("folder", "Attach a folder to a workspace (CLI v1).")


@workspace.declare(
    "create",
    "Create a workspace.",
    _NAME._replace(help="The workspace."),
    _GROUP,
    option("-l --location", "Kept with the workspace.", "TEXT"),
    option("-f --file --friendly-name", "A YAML file that describes it (CLI v2), or a name for people (v1).", "FILE"),
    many("--tags --tag", "A tag."),
    flag("--exist-ok", "One that is there is fine."),
    *ignored(
        "--display-name", "--description", "-a --application-insights", "-c --container-registry",
        "--key-vault --keyvault", "--storage-account", "--sku", "--hbi-workspace", "--cmk-keyvault",
        "--resource-cmk-uri", "-i --image-build-compute", "-m --managed-network", "--public-network-access",
        "-u --update-dependent-resources", "-p --primary-user-assigned-identity", "-e --enable-data-isolation",
        "--system-datastores-auth-mode",
    ),
)  # fmt: skip
def create(context: CommandContext, values: Values) -> Any:
    from windlass.client.workspace.workspace import Workspace

    said = _described(values)
    name = values["name"] or said.get("name")
    if not name:
        raise click.UsageError("the following arguments are required: --name/-n")
    context.export_options()
    made = Workspace.create(
        name,
        subscription_id=values["subscription"],
        resource_group=values["resource_group"] or said.get("resource_group"),
        location=values["location"] or said.get("location"),
        tags={**(said.get("tags") or {}), **key_values.parse(values["tags"], "--tags")},
        exist_ok=values["exist_ok"],
    )
    return _shape(made._view)


def _described(values: Values) -> dict[str, Any]:
    """Read -f: a file of the CLI v2, or the friendly name of the CLI v1, which is not stored."""
    given = values["file"]
    if given is None or (not given.endswith((".yml", ".yaml")) and not os.path.isfile(given)):
        return {}
    from windlass.client.config import yaml_map

    file = yaml_map.load(given, "workspace")
    return {**{key: file.text(key) for key in ("name", "resource_group", "location")}, "tags": file.texts("tags")}


@workspace.declare("list", "List the workspaces.", _GROUP, *ignored("-r --max-results"), METADATA)
def list_workspaces(context: CommandContext, values: Values) -> Any:
    found = context.request("GET", "/workspaces")["workspaces"]
    wanted = values["resource_group"]
    return [_shape(view) for view in found if wanted in (None, view["resource_group"])]


@workspace.declare("show", "Show a workspace.", _NAME, _GROUP, *V1)
def show(context: CommandContext, values: Values) -> Any:
    from windlass.cli.parameters.workspace import resolve

    return _shape(
        context.request("GET", f"/workspaces/{names.workspace_name(values['name'] or resolve(context.workspace))}")
    )


_KEPT = "is not provided in this version:"
workspace.explain("delete", f"Deleting a workspace {_KEPT} `windlass gc` removes what is not needed any more.")
workspace.explain("update", f"Changing a workspace {_KEPT} create another one, with `az ml workspace create`.")
workspace.explain(
    "share", f"Sharing by role {_KEPT} `windlass token create NAME --role contributor` gives others access."
)
workspace.explain("private-endpoint outbound-rule provision-network", f"Managing networks {_KEPT} a server has none.")
workspace.explain(
    "sync-keys resync-keys list-keys", "Nothing is needed here: a workspace has no keys of other services.", 0
)
workspace.explain("diagnose", "`windlass doctor` finds what is wrong on this machine.", 0)


def _shape(view: View) -> View:
    scope = f"/subscriptions/{view['subscription_id']}/resourceGroups/{view['resource_group']}"
    kind = "Microsoft.MachineLearningServices/workspaces"
    return {
        "creationTime": view["created_at"],
        "display_name": view["name"],
        "friendlyName": view["name"],
        "id": f"{scope}/providers/{kind}/{view['name']}",
        "location": view["location"],
        "name": view["name"],
        "resourceGroup": view["resource_group"],
        "resource_group": view["resource_group"],
        "subscriptionId": view["subscription_id"],
        "tags": view["tags"],
        "type": kind,
        "workspaceName": view["name"],
        "workspaceid": view["name"],
    }


@folder.declare(
    "attach",
    "Say which workspace a folder belongs to, and write run configurations for it.",
    option("-e --experiment-name", "The experiment of runs that name none.", "NAME"),
    PROJECT._replace(help="The folder. [default: the current one]"),
    METADATA,
)
def attach(context: CommandContext, values: Values) -> Any:
    return attach_folder(context, os.path.abspath(values["project"] or os.curdir), values["experiment_name"])


def attach_folder(context: CommandContext, place: str, experiment: str | None) -> View:
    """Write config.json and run configurations for `local` and `docker`, where they are not there yet."""
    from windlass.cli.submit.script import experiment_name
    from windlass.client.config import workbench_compute_file
    from windlass.client.config.run_configuration import config_folder

    if not os.path.isdir(place):
        raise NotFound(f"There is no folder {place}.", "Make it first, or name another one.")
    belongs = context.sdk_workspace()
    belongs.write_config(place)
    inner = os.path.join(place, config_folder(place))
    for target in ("local", "docker"):
        if not os.path.exists(os.path.join(inner, f"{target}.runconfig")):
            workbench_compute_file.write_configuration(context.get(f"/targets/{target}"), place, target)
    chosen = names.experiment_name(experiment) if experiment else experiment_name(place)
    if experiment:
        scope = f"{belongs.get_details()['id']}/projects/{chosen}"
        with open(os.path.join(inner, "project.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps({"Id": chosen, "Scope": scope}, indent=4) + "\n")
    return {
        "Experiment name": chosen,
        "Project path": place,
        "Resource group": belongs.resource_group,
        "Subscription id": belongs.subscription_id,
        "Workspace name": belongs.name,
    }
