"""`az ml model` of the CLI v1 and v2, and of Workbench."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

import click

from windlass.cli.az.declaration import (
    COUNT,
    METADATA,
    NAME,
    PROJECT,
    AzGroup,
    Values,
    flag,
    ignored,
    many,
    option,
    required,
    write_json,
)
from windlass.cli.az.later import SERVICES
from windlass.cli.context import CommandContext
from windlass.cli.parameters import key_values, run_reference
from windlass.client.models.model import Model
from windlass.core import names
from windlass.core.errors import Conflict, InvalidRequest, NotFound

_ID = option("-i --model-id -m --model", "The model: NAME:VERSION.", "ID", key="model_id")
_NAME = NAME._replace(names=("-n", "--name", "--model-name"), help="The model's name.")
# In the CLI v1, -v without a value asks for more output.
_VERSION = option("-v --version", "The version. [default: the latest]", "N", is_value_optional=True)
_RUN = option("-r --run-id", "The run that made it.", "RUN")
_TAG = many("--tag --tags", "A tag.")
_PROPERTY = many("--property", "A property.")
_OF_RUN = re.compile(r"runs:/(?P<run>[^/]+)/(?P<path>.+)|azureml://jobs/(?P<job>[^/]+)/outputs/\w+/paths/(?P<below>.+)")
_TYPES = ("custom_model", "mlflow_model", "triton_model")
_KEYS = (
    "name", "version", "path", "type", "description", "tags", "properties", "stage", "flavors", "datastore",
    "intellectual_property", "system_metadata",
)  # fmt: skip
# Written by `az ml model show`, without meaning in a file that creates one.
_OUTPUT_ONLY = (
    "createdBy", "createdTime", "creation_context", "experimentName", "framework", "frameworkVersion", "id", "job_name",
    "runId",
)  # fmt: skip

model = AzGroup("model", "Register, list, show, download and delete models (CLI v1, v2 and Workbench).")


@model.declare(
    "register",
    "Register a file or folder, of this machine or of a run, as the next version of a model.",
    required(NAME),
    option("-p --model-path -m --model", "The file or folder of this machine.", "PATH", key="model_path"),
    option("--asset-path", "The file or folder of the run.", "PATH"),
    _RUN,
    option("-f --run-metadata-file", "What `run submit-script -t` wrote, in place of --run-id.", "FILE"),
    option("--experiment-name", "The experiment of the run.", "NAME"),
    option("-d --description", "What it is.", "TEXT"),
    option("--model-framework", "Its framework.", "NAME"),
    option("--model-framework-version", "The version of its framework.", "VERSION"),
    _TAG,
    _PROPERTY,
    option("-t --output-metadata-file", "Write id and workspace to this file.", "FILE", key="metadata"),
    PROJECT,
    *ignored(
        "--cc --cpu-cores", "--gb --memory-gb", "--gc --gpu-cores", "--sample-input-dataset-id",
        "--sample-output-dataset-id", "-s --schema-file",
    ),
)  # fmt: skip
def register(context: CommandContext, values: Values) -> Any:
    run = values["run_id"] or _run_of(values["run_metadata_file"])
    path = values["model_path"] or values["asset_path"]
    if not path:
        raise click.UsageError(
            "the following arguments are required: --model-path/-p, or --asset-path with --run-id/-r"
        )
    said = {
        "tags": key_values.parse(values["tag"], "--tag"),
        "properties": key_values.parse(values["property"], "--property"),
        "description": values["description"],
        "model_framework": values["model_framework"],
        "model_framework_version": values["model_framework_version"],
    }
    kept = _register(context, values["name"], path, None if values["model_path"] else run, said)
    if values["metadata"]:
        named = {"workspaceName": kept.workspace.name, "resourceGroupName": kept.workspace.resource_group}
        write_json(values["metadata"], {"modelId": kept.id, **named})
    return _shape(kept)


def _run_of(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file)["runId"])
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", "`az ml run submit-script -t FILE` writes one.") from None
    except (ValueError, LookupError, TypeError):
        raise InvalidRequest(f"{path} names no run.", 'It has {"runId": "..."}.') from None


def _register(context: CommandContext, name: str, path: str, run: str | None, said: dict[str, Any]) -> Model:
    workspace = context.sdk_workspace()
    if run is None:
        return Model.register(workspace, model_path=path, model_name=name, **said)
    return workspace.get_run(run_reference.find(context, run)).register_model(model_name=name, model_path=path, **said)


@model.declare(
    "create",
    "Register a model: of a YAML file, a path of this machine, or a path of a job.",
    option("-f --file", "The model, as a YAML file.", "FILE"),
    NAME,
    _VERSION._replace(help="Its version, which must be the next one.", is_value_optional=False),
    option("-p --path", "A local path, runs:/JOB/PATH or azureml://jobs/JOB/outputs/artifacts/paths/PATH.", "PATH"),
    option("--description", "What it is.", "TEXT"),
    option("-t --type", "Its type: kept as a property.", "TYPE", choices=_TYPES),
    many("--tags", "A tag."),
    many("--set", "Replace what the file says.", "KEY=VALUE"),
    *ignored("--datastore", "--registry-name", "-s --stage"),
)
def create(context: CommandContext, values: Values) -> Any:
    file = _described(values["file"], values["set"]) if values["file"] else {}
    base = os.path.dirname(values["file"] or "") or os.curdir
    name, path = values["name"] or file.get("name"), values["path"] or file.get("path")
    if not name or not path:
        raise click.UsageError("the following arguments are required: --name/-n and --path/-p, or --file/-f")
    _check_version(context, str(name), values["version"] or file.get("version"))
    kind = values["type"] or file.get("type")
    said = {
        "tags": {**(file.get("tags") or {}), **key_values.parse(values["tags"], "--tags")},
        "properties": {**(file.get("properties") or {}), **({"type": kind} if kind else {})},
        "description": values["description"] or file.get("description"),
    }
    of_run = _OF_RUN.match(str(path))
    if of_run is not None:
        run, inner = of_run.group("run") or of_run.group("job"), of_run.group("path") or of_run.group("below")
        return _shape(_register(context, str(name), inner.rstrip("/"), run, said))
    local = str(path) if values["path"] else os.path.join(base, str(path))
    return _shape(_register(context, str(name), local, None, said))


def _described(path: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Read the YAML file of a model."""
    from windlass.client.config import yaml_map

    file = yaml_map.load(path, "model", overrides)
    file.check_keys((*_KEYS, *_OUTPUT_ONLY))
    said: dict[str, Any] = {key: file.text(key) for key in ("name", "version", "path", "description")}
    return {
        **said,
        "type": file.choice("type", _TYPES),
        "tags": file.texts("tags"),
        "properties": file.texts("properties"),
    }


def _check_version(context: CommandContext, name: str, wanted: Any) -> None:
    """Refuse a version that is not the next one: the workspace numbers versions."""
    if wanted is None:
        return
    found = context.get("/models", {"name": names.model_name(name)})["models"]
    following = max((view["version"] for view in found), default=0) + 1
    if str(wanted) != str(following):
        raise Conflict(f"The next version of the model {name} is {following}, not {wanted}.", "Leave out --version.")


@model.declare(
    "list",
    "List models: every version.",
    _NAME,
    flag("-l --latest", "Only the latest version of each."),
    option("--run-id", "Only what this run made.", "RUN"),
    _TAG,
    _PROPERTY,
    option("-r --max-results", "How many.", "N", kind=COUNT),
    PROJECT,
    METADATA,
    *ignored("--dataset-id", "--archived-only", "--include-archived", "--registry-name"),
)
def list_models(context: CommandContext, values: Values) -> Any:
    found = Model.list(
        context.sdk_workspace(),
        name=values["name"],
        run_id=run_reference.find(context, values["run_id"]) if values["run_id"] else None,
        latest=values["latest"],
        tags=[tag.split("=", 1) if "=" in tag else tag for tag in values["tag"]],
        properties=[pair.split("=", 1) if "=" in pair else pair for pair in values["property"]],
    )
    return [_shape(each) for each in found][: values["max_results"]]


@model.declare("show", "Show a model.", _ID, _NAME, _VERSION, _RUN, PROJECT, *ignored("-l --label"))
def show(context: CommandContext, values: Values) -> Any:
    return _shape(_find(context, values))


@model.declare(
    "download",
    "Download a model.",
    _ID,
    _NAME,
    _VERSION,
    option("-t --target-dir -p --download-path", "Where to. [default: the current folder]", "FOLDER", key="folder"),
    flag("--overwrite", "Write over files that are there."),
    PROJECT,
)
def download(context: CommandContext, values: Values) -> Any:
    found = _find(context, values)
    path = found.download(values["folder"] or os.curdir, exist_ok=values["overwrite"])
    return {"downloadPath": path, "id": found.id}


@model.declare("delete", "Delete a version of a model.", _ID, _NAME, _VERSION, PROJECT)
def delete(context: CommandContext, values: Values) -> None:
    if not values["model_id"] and not values["version"]:
        raise click.UsageError("the following arguments are required: --model-id/-i, or --name/-n and --version/-v")
    _find(context, values).delete()


@model.declare(
    "update",
    "Change tags, properties or the description of a model.",
    _ID,
    _NAME,
    _VERSION,
    many("--add-tag", "A tag."),
    many("--remove-tag", "The name of a tag.", "KEY"),
    many("--add-property", "A property."),
    many("--set", "tags.NAME=VALUE, properties.NAME=VALUE or description=TEXT.", "KEY=VALUE"),
    option("--description", "What it is.", "TEXT"),
    PROJECT,
)
def update(context: CommandContext, values: Values) -> Any:
    found = _find(context, values)
    said: dict[str, Any] = {"tags": {}, "properties": {}, "description": values["description"]}
    for key, value in key_values.parse(values["set"], "--set").items():
        group, _, inner = key.partition(".")
        if group in ("tags", "properties") and inner:
            said[group][inner] = value
        elif key == "description":
            said["description"] = value
        else:
            raise InvalidRequest(f"{key} of a model cannot be changed.", "Only tags, properties and the description.")
    found.update_tags_properties(
        add_tags={**said["tags"], **key_values.parse(values["add_tag"], "--add-tag")},
        remove_tags=values["remove_tag"],
        add_properties={**said["properties"], **key_values.parse(values["add_property"], "--add-property")},
    )
    if said["description"] is not None:
        found.update(description=said["description"])
    return _shape(found)


model.explain("deploy package profile", f"Deploying models is not provided in this version: {SERVICES}")
model.explain("share", "Registries are not provided in this version: models are kept in the workspace.")
model.explain(
    "archive restore", "Archiving models is not provided in this version: `az ml model delete` removes a version."
)


def _find(context: CommandContext, values: Values) -> Model:
    """Find a model by id, by name and version, or by the run that it comes from."""
    workspace = context.sdk_workspace()
    if values["model_id"]:
        return Model(workspace, id=values["model_id"])
    if not values["name"] and not values.get("run_id"):
        raise click.UsageError("the following arguments are required: --name/-n, or --model-id/-i")
    run = run_reference.find(context, values["run_id"]) if values.get("run_id") else None
    return Model(workspace, values["name"], version=values["version"] or None, run_id=run)


def _shape(found: Model) -> dict[str, Any]:
    """A model in the words of the CLI v1, with the keys of the CLI v2."""
    return {
        **found.serialize(),
        "creation_context": {"created_at": found._view["created_at"], "created_by": found._view["created_by"]},
        "path": found.url,
        "type": found.properties.get("type") or "custom_model",
    }
