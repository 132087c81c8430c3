"""Groups of Azure ML Workbench: experiment, runconfiguration, history, asset, project, notebook, account."""

from __future__ import annotations

import json
import os
from typing import Any

from windlass.cli.az.declaration import NAME, PROJECT, V1, AzGroup, Values, flag, ignored, option, required
from windlass.cli.az.output import Printer
from windlass.cli.az.run import RUN, find, follow
from windlass.cli.az.workspace import attach_folder
from windlass.cli.context import CommandContext
from windlass.cli.parameters import run_reference
from windlass.cli.workbench.experiment import experiment as native_experiment
from windlass.cli.workbench.runconfiguration import runconfiguration as native_configurations
from windlass.core.errors import InvalidRequest, NotFound, SpecNotSupported

_TARGET = option("-t --target", "The target: known from the run.", "NAME")
_LISTED = 100

experiment = AzGroup("experiment", "Submit scripts, prepare targets (Workbench); list experiments (CLI v1).")
for _native in native_experiment.commands.values():
    experiment.add_native(_native)


@experiment.declare("list", "List the experiments.", *V1)
def list_experiments(context: CommandContext, values: Values) -> Any:
    found = context.get("/experiments")["experiments"]
    return [
        {
            "archivedTime": each["archived_at"],
            "createdUtc": each["created_at"],
            "experimentId": each["id"],
            "id": each["id"],
            "name": each["name"],
            "tags": each["tags"],
        }
        for each in found
    ]


@experiment.declare("create", "Create an experiment.", required(NAME), *V1)
def create_experiment(context: CommandContext, values: Values) -> Any:
    made = context.post("/experiments", {"name": values["name"]})
    return {"id": made["id"], "name": made["name"], "tags": made["tags"]}


@experiment.declare(
    "clean",
    "Say what becomes of the folders of runs.",
    RUN._replace(is_required=False),
    _TARGET,
    flag("--all", "Of all runs.", key="everything"),
)
def clean(context: CommandContext, values: Values) -> None:
    context.terminal.note(
        "Nothing is needed here: the server removes the folders of runs that have ended; `windlass gc` frees more."
    )


@experiment.declare(
    "diagnostics",
    "Write a run's source, logs and files to diagnostics.zip.",
    RUN,
    _TARGET,
    option("-d --directory", "Where to put it. [default: the current folder]", "FOLDER"),
)
def diagnostics(context: CommandContext, values: Values) -> Any:
    import zipfile

    run = context.sdk_workspace().get_run(run_reference.find(context, values["run"]))
    folder = values["directory"] or os.curdir
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "diagnostics.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", json.dumps(run.get_details(), indent=2))
        archive.writestr("events.json", json.dumps(run._call("GET", "/events"), indent=2))
        for name in run.get_file_names():
            archive.writestr(f"files/{name}", run._read_file(name))
        if run.get_snapshot_id() is not None:
            for file in run._call("GET", "/snapshot")["files"]:
                archive.writestr(f"source/{file['path']}", _source(context, run.id, file["path"]))
    return {"diagnostics": path, "runId": run.id}


def _source(context: CommandContext, run_id: str, path: str) -> bytes:
    from windlass.client.runs.downloads import quoted

    return b"".join(context.session.download(f"{context.workspace_path}/runs/{run_id}/snapshot/{quoted(path)}"))


@experiment.declare(
    "monitor",
    "Follow the log of a run until it has ended.",
    RUN,
    _TARGET,
    flag("--tensorboard", "Not provided in this version."),
    option("--port", "", "N"),
    option("--root-path", "", "FOLDER"),
)
def monitor(context: CommandContext, values: Values) -> None:
    if values["tensorboard"]:
        raise SpecNotSupported(
            "Following a run by TensorBoard is not provided in this version: `windlass download RUN`, then "
            "`tensorboard --logdir RUN`."
        )
    follow(context, context.sdk_workspace().get_run(run_reference.find(context, values["run"])))


@experiment.declare(
    "return",
    "Download the files of a run.",
    RUN,
    _TARGET,
    PROJECT._replace(help="Where to. [default: a folder named like the run]"),
)
def return_files(context: CommandContext, values: Values) -> Any:
    run = context.sdk_workspace().get_run(run_reference.find(context, values["run"]))
    folder = values["project"] or run.id
    run.download_files(output_directory=folder)
    return {"path": folder, "runId": run.id}


runconfiguration = AzGroup("runconfiguration", "List, create and delete run configurations (Workbench).")
for _native in native_configurations.commands.values():
    runconfiguration.add_native(_native)

history = AzGroup("history", "The runs of the workspace (Workbench).")


@history.declare("list", "List runs with their metrics, the newest first.", *V1)
def list_history(context: CommandContext, values: Values) -> Any:
    return [_run(context, view["id"]) for view in find(context, {}, _LISTED)]


@history.declare("last", "Show the newest run.", *V1)
def last(context: CommandContext, values: Values) -> Any:
    found = find(context, {}, 1)
    if not found:
        raise NotFound("There are no runs yet.", "Start one: windlass az ml experiment submit -c local train.py")
    return _run(context, found[0]["id"])


@history.declare(
    "info",
    "Show a run, or print a file of it.",
    RUN,
    option("-a --artifact", "A file of the run; driver_log is what its script printed.", "PATH"),
)
def info(context: CommandContext, values: Values) -> Any:
    run_id = run_reference.find(context, values["run"])
    run = context.sdk_workspace().get_run(run_id)
    if values["artifact"] is None:
        return _run(context, run_id)
    names = run.get_file_names()
    wanted = values["artifact"]
    if wanted == "driver_log":
        wanted = next((name for name in names if name.startswith("user_logs/")), wanted)
    if wanted not in names:
        raise NotFound(f"Run {run_id} has no file {wanted}.", f"windlass files {run_id} lists them.")
    from windlass.cli.runs.log_stream import LogPrinter

    assert isinstance(context.terminal, Printer)
    printer = LogPrinter(context.terminal.stream)
    printer.write(run._read_file(wanted))
    printer.close()
    return None


@history.declare(
    "promote",
    "Register a file of a run as a model, and write assets/NAME.link.",
    RUN,
    required(option("-ap --artifact-path", "The file of the run.", "PATH")),
    required(NAME),
)
def promote(context: CommandContext, values: Values) -> Any:
    run = context.sdk_workspace().get_run(run_reference.find(context, values["run"]))
    kept = run.register_model(model_name=values["name"], model_path=values["artifact_path"])
    os.makedirs("assets", exist_ok=True)
    link = os.path.join("assets", f"{kept.name}.link")
    document = {"ArtifactId": values["artifact_path"], "Id": kept.id, "Name": kept.name, "RunId": run.id}
    with open(link, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=4) + "\n")
    return {**document, "link": link}


def _run(context: CommandContext, run_id: str) -> dict[str, Any]:
    """A run with the last value of each of its metrics. It is requested by id, since lists lack its script."""
    view = context.get(f"/runs/{run_id}")
    metrics = context.get(f"/runs/{run_id}/metrics", {"last": "true"})["metrics"]
    last = {name: metric["values"][-1]["v"] for name, metric in metrics.items() if metric["values"]}
    return {
        **last,
        "duration": _duration(view),
        "end_time": view["ended_at"],
        "run_id": view["id"],
        "script_name": (view.get("spec") or {}).get("script"),
        "start_time": view["started_at"],
        "status": view["status"],
        "target": view["target"],
    }


def _duration(view: dict[str, Any]) -> str | None:
    from datetime import UTC, datetime

    from windlass.cli.output import format

    return format.duration(format.took(view, datetime.now(UTC))) or None


asset = AzGroup("asset", "Download promoted models (Workbench).")


@asset.declare(
    "download",
    "Download the model of a link file.",
    required(option("-l --link-file", "What `history promote` wrote.", "FILE")),
    required(option("-d --directory", "Where to.", "FOLDER")),
)
def download_asset(context: CommandContext, values: Values) -> Any:
    from windlass.client.models.model import Model

    try:
        with open(values["link_file"], encoding="utf-8") as file:
            model_id = str(json.load(file)["Id"])
    except FileNotFoundError:
        raise NotFound(f"There is no file {values['link_file']}.", "`az ml history promote` writes one.") from None
    except (ValueError, LookupError, TypeError):
        raise InvalidRequest(f"{values['link_file']} is not a link that `az ml history promote` wrote.") from None
    model = Model(context.sdk_workspace(), id=model_id)
    return {"id": model.id, "path": model.download(values["directory"], exist_ok=True)}


project = AzGroup("project", "Make and attach projects (Workbench).")


@project.declare(
    "create",
    "Make a folder for a project, attached to the workspace.",
    required(NAME),
    option("-p --path", "The folder that it is made in. [default: the current one]", "FOLDER", key="place"),
    option("-e --experiment-name", "The experiment of runs that name none.", "NAME"),
    option("-r --resource-group -g", "As everywhere.", "NAME"),
    *ignored("-a --account"),
)
def create_project(context: CommandContext, values: Values) -> Any:
    place = os.path.join(os.path.abspath(values["place"] or os.curdir), values["name"])
    os.makedirs(place, exist_ok=True)
    return attach_folder(context, place, values["experiment_name"])


@project.declare(
    "attach",
    "Say which workspace a folder belongs to.",
    option("-e --experiment-name --history", "The experiment of runs that name none.", "NAME"),
    option("-p --path", "The folder. [default: the current one]", "FOLDER", key="place"),
)
def attach_project(context: CommandContext, values: Values) -> Any:
    return attach_folder(context, os.path.abspath(values["place"] or os.curdir), values["experiment_name"])


project.explain("detach", "Remove .azureml/config.json: a folder without one belongs to the workspace `default`.")
project.explain("show list", "`az ml workspace show` shows the workspace that the current folder belongs to.")

notebook = AzGroup("notebook", "Start Jupyter (Workbench).")


@notebook.declare("start", "Start Jupyter, as `windlass jupyter` does.")
def start_notebook(context: CommandContext, values: Values) -> None:
    from windlass.cli.azureml import jupyter

    context.export_options()
    jupyter.start(None)


account = AzGroup("account", "Accounts (Workbench): none are needed.")
account.explain(
    "experimentation modelmanagement set show list create delete",
    "Nothing is needed here: a private server is yours; WINDLASS_URL and WINDLASS_TOKEN name a shared one.",
    0,
)
