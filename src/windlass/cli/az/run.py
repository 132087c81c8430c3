"""`az ml run` of the CLI v1, and `run submit` and its like of the SDK before it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.az.declaration import COUNT, METADATA, V1, AzGroup, Values, flag, many, option, required
from windlass.cli.az.later import PIPELINES
from windlass.cli.az.output import Printer
from windlass.cli.context import CommandContext
from windlass.cli.parameters import key_values, run_reference
from windlass.cli.workbench.experiment import experiment as native
from windlass.client.config.file_location import read_json

if TYPE_CHECKING:
    from windlass.client.runs.run import Run

View = dict[str, Any]
EXPERIMENT = option("-e --experiment-name", "The experiment.", "NAME")
RUN = option("-r --run", "The run's id.", "RUN", is_required=True)
_PAGE = 1000

run = AzGroup("run", "Submit, list, follow and cancel runs (CLI v1).")

_SUBMIT = (
    option("-c --run-configuration-name --run-configuration", "A run configuration, or a target.", "NAME"),
    option("--ct --target", "The target, in place of the run configuration's.", "NAME", key="target"),
    EXPERIMENT,
    option("-d --conda-dependencies", "The packages, as a conda file.", "FILE"),
    option("--source-directory", "The folder that goes with the run. [default: --path]", "FOLDER"),
    option("--path", "The folder of the run configurations. [default: the current one]", "FOLDER", key="project"),
    flag("--async", "Print the run and do not wait.", key="is_async"),
    METADATA,
)  # fmt: skip


@run.declare("submit-script", "Submit a script and follow its log.", *_SUBMIT, takes_script=True)
def submit_script(context: CommandContext, values: Values) -> Any:
    from windlass.cli.submit.options import parse
    from windlass.cli.submit.request import Request

    metadata = values["output_metadata_file"]
    if metadata is not None:
        values["output_metadata_file"] = os.path.abspath(metadata)
    folder = os.path.abspath(values["source_directory"] or values["project"] or os.curdir)
    experiment = values["experiment_name"] or default_experiment(values["project"] or os.curdir)
    with contextlib.chdir(values["project"] or os.curdir):
        parsed = parse(["-"])
        assert parsed is not None
        name, target = values["run_configuration_name"], values["target"]
        chosen = {
            "target": name or target,
            "instead": target if name and target != name else None,
            "experiment": experiment,
            "source_directory": folder,
            "env_file": values["conda_dependencies"],
            "script": values["script"],
            "arguments": values["arguments"],
            "detach": values["is_async"],
        }
        sent = Request(context, {**parsed.values, **chosen}).send()
    if not values["is_async"]:
        follow(context, context.sdk_workspace().get_run(sent["id"]))
    return details(context, sent["id"])


def follow(context: CommandContext, submitted: Run) -> None:
    """Print the log until the run has ended: to stdout, or to stderr if a format or query was chosen for the answer.
    Raises if the run failed.
    """
    printer = context.terminal
    assert isinstance(printer, Printer)
    with contextlib.redirect_stdout(sys.stderr if printer.is_chosen else printer.stream):
        submitted.wait_for_completion(show_output=True)


def default_experiment(folder: str) -> str | None:
    """The experiment that `az ml folder attach -e` chose for a folder; None if it chose none."""
    path = os.path.join(folder, ".azureml", "project.json")
    if not os.path.isfile(path):
        return None
    body = read_json(path)
    return str(body.get("Id") or "") or None if isinstance(body, dict) else None


for _name in ("submit", "prepare", "status"):
    run.add_native(native.commands[_name])


@run.declare(
    "list",
    "List runs, the newest first.",
    EXPERIMENT,
    option("--last", "How many. [default: 10]", "N", kind=COUNT),
    option("--status", "Only runs of this status.", "STATUS"),
    option("--compute-target-name", "Only runs on this target.", "NAME"),
    many("--tags", "Only runs with this tag.", "KEY[=VALUE]"),
    option("--parent-run-id --pipeline-run-id", "Only the children of this run.", "RUN"),
    flag("--minimal", "Only id, experiment, status and times."),
    *V1,
)
def list_runs(context: CommandContext, values: Values) -> Any:
    query = {
        "experiment": values["experiment_name"],
        "state": values["status"],
        "target": values["compute_target_name"],
        "tag": [tag.replace("=", ":", 1) for tag in values["tags"]],
        "parent": run_reference.find(context, values["parent_run_id"]) if values["parent_run_id"] else None,
    }
    views = find(context, query, values["last"] or 10)
    return [brief(view) if values["minimal"] else record(view) for view in views]


def find(context: CommandContext, query: dict[str, Any], limit: int | None) -> list[View]:
    """Runs that fit a query, page by page; all of them without a limit."""
    kept = {key: value for key, value in query.items() if value}
    views: list[View] = []
    while limit is None or len(views) < limit:
        page = context.get("/runs", {**kept, "limit": min(_PAGE, (limit or _PAGE + len(views)) - len(views))})
        views += page["runs"]
        if not page.get("next"):
            break
        kept["cursor"] = page["next"]
    return views


@run.declare("show", "Show a run.", RUN, EXPERIMENT, *V1)
def show(context: CommandContext, values: Values) -> Any:
    return details(context, run_reference.find(context, values["run"]))


@run.declare("cancel", "Cancel a run.", RUN, EXPERIMENT, *V1)
def cancel(context: CommandContext, values: Values) -> Any:
    return record(context.post(f"/runs/{run_reference.find(context, values['run'])}/cancel"))


@run.declare("monitor-logs", "Follow the log of a run until it has ended.", RUN, EXPERIMENT, *V1)
def monitor_logs(context: CommandContext, values: Values) -> None:
    follow(context, context.sdk_workspace().get_run(run_reference.find(context, values["run"])))


@run.declare(
    "download-logs",
    "Download the log files of a run.",
    RUN,
    required(option("-d --output-dir", "Where to put them.", "FOLDER")),
    EXPERIMENT,
    *V1,
)
def download_logs(context: CommandContext, values: Values) -> Any:
    found = context.sdk_workspace().get_run(run_reference.find(context, values["run"]))
    return found.get_all_logs(values["output_dir"])


@run.declare("update", "Add tags to a run.", RUN, many("--add-tag", "A tag.", "KEY[=VALUE]"), EXPERIMENT, *V1)
def update(context: CommandContext, values: Values) -> Any:
    tags = key_values.parse(values["add_tag"], "--add-tag")
    return record(context.patch(f"/runs/{run_reference.find(context, values['run'])}", {"tags": tags}))


run.explain(
    "submit-hyperdrive",
    "Sweeps are not provided in this version: submit a run for each set of parameters, in a loop of the shell.",
)
run.explain("submit-pipeline", f"Pipelines are not provided in this version: {PIPELINES}")
run.explain(
    "monitor-tensorboard",
    "Following a run by TensorBoard is not provided in this version: `windlass download RUN`, then `tensorboard "
    "--logdir RUN`.",
)


def details(context: CommandContext, run_id: str) -> View:
    """The details of a run, with the keys of the CLI v1."""
    found = context.sdk_workspace().get_run(run_id)
    return {**record(found._view), **found.get_details()}


def record(view: View) -> View:
    return {
        **brief(view),
        "createdUtc": view["created_at"],
        "description": view["description"] or None,
        "displayName": view["name"] or None,
        "parentRunId": view["parent"],
        "portalUrl": view["url"],
        "properties": view["properties"],
        "rootRunId": view["root"] or view["id"],
        "runNumber": view["number"],
        "runType": view["type"],
        "submittedBy": view["submitted_by"],
        "tags": view["tags"],
        "target": view["target"],
    }


def brief(view: View) -> View:
    return {
        "endTimeUtc": view["ended_at"],
        "experimentName": view["experiment"],
        "runId": view["id"],
        "startTimeUtc": view["started_at"],
        "status": view["status"],
    }
