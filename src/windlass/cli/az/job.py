"""`az ml job` of the CLI v2."""

from __future__ import annotations

import os
from typing import Any

from windlass.cli.az.declaration import COUNT, NAME, AzGroup, Values, flag, many, option, required
from windlass.cli.az.run import find, follow
from windlass.cli.context import CommandContext
from windlass.cli.parameters import run_reference
from windlass.core.errors import InvalidRequest, SpecNotSupported

View = dict[str, Any]
_FILE = required(option("-f --file", "The job, as a YAML file.", "FILE"))
_SET = many("--set", "Replace what the file says: inputs.alpha=0.2, for instance.", "KEY=VALUE")
_JOB = required(NAME._replace(help="The job's name: the id of its run."))
_WEB = flag("-e --web", "Print the address of the job's page, too.")
# Earlier versions archived a run by this tag.
_ARCHIVED = "archived"
_LISTED = 50

job = AzGroup("job", "Create, list, follow, cancel and download jobs (CLI v2).")


@job.declare(
    "create",
    "Submit the job of a YAML file.",
    _FILE,
    NAME._replace(help="The job's name, in place of the file's."),
    _SET,
    flag("-s --stream", "Follow the log until the job has ended."),
    _WEB,
    option("-a --save-as", "Write the job to this YAML file, too.", "FILE"),
    flag("--skip-validation", "Accepted; a job is always checked."),
)
def create(context: CommandContext, values: Values) -> Any:
    from windlass.cli.submit.script import experiment_name
    from windlass.client.config import job_file
    from windlass.client.experiment import Experiment

    workspace = context.sdk_workspace()
    file = job_file.load(values["file"], values["set"], workspace)
    experiment = Experiment(workspace, file.experiment_name or experiment_name(os.getcwd()))
    if values["save_as"]:
        job_file.dump(file, values["save_as"])
    run = experiment.submit(
        file.resolve(workspace),
        tags=file.tags,
        run_id=values["name"] or file.name,
        display_name=file.display_name,
    )
    if file.description or file.properties:
        run._change(description=file.description or "", properties=file.properties)
    _show_page(context, run._view, values["web"])
    if values["stream"]:
        follow(context, run)
    return record(context, run.id)


@job.declare("validate", "Check a YAML file without submitting anything.", _FILE, _SET)
def validate(context: CommandContext, values: Values) -> Any:
    from windlass.client.config import job_file
    from windlass.client.experiment import Experiment
    from windlass.client.submit.submission import Submission

    workspace = context.sdk_workspace()
    file = job_file.load(values["file"], values["set"], workspace)
    experiment = Experiment(workspace, file.experiment_name or "default", _create_in_cloud=False)
    Submission(file.resolve(workspace), experiment).plan()
    return {"result": "Succeeded"}


@job.declare(
    "list",
    "List jobs, the newest first.",
    option("-r --max-results", f"How many. [default: {_LISTED}]", "N", kind=COUNT),
    option("--all-results", "List all of them.", "true|false", is_value_optional=True),
    option("-p --parent-job-name", "Only the children of this job.", "NAME"),
    flag("--archived-only", "Only archived ones."),
    flag("--include-archived", "Archived ones, too."),
)
def list_jobs(context: CommandContext, values: Values) -> Any:
    is_all = values["all_results"] is not None and values["all_results"].lower() != "false"
    parent = run_reference.find(context, values["parent_job_name"]) if values["parent_job_name"] else "none"
    limit = None if is_all else values["max_results"] or _LISTED
    tagged = {view["id"]: view for view in find(context, {"parent": parent, "tag": [_ARCHIVED]}, None)}
    if values["archived_only"]:
        found = [*find(context, {"parent": parent, "archived": "only"}, limit), *tagged.values()]
        found = sorted(found, key=lambda view: str(view["created_at"]), reverse=True)
    elif values["include_archived"]:
        found = find(context, {"parent": parent, "archived": "all"}, limit)
    else:
        found = find(context, {"parent": parent}, None if limit is None else limit + len(tagged))
        found = [view for view in found if view["id"] not in tagged]
    return [_shape(view) for view in found[:limit]]


@job.declare("show", "Show a job.", _JOB, _WEB)
def show(context: CommandContext, values: Values) -> Any:
    document = record(context, run_reference.find(context, values["name"]))
    if values["web"]:
        context.terminal.note(document["services"]["Studio"]["endpoint"])
    return document


@job.declare("stream", "Follow the log of a job until it has ended.", _JOB)
def stream(context: CommandContext, values: Values) -> None:
    follow(context, context.sdk_workspace().get_run(run_reference.find(context, values["name"])))


@job.declare("cancel", "Cancel a job.", _JOB)
def cancel(context: CommandContext, values: Values) -> None:
    context.post(f"/runs/{run_reference.find(context, values['name'])}/cancel")


@job.declare(
    "download",
    "Download the files of a job, into artifacts below a folder.",
    _JOB,
    option("-p --download-path", "The folder. [default: the current one]", "FOLDER"),
    flag("--all", "All outputs, too.", key="everything"),
    option("--output-name", "Only this output.", "NAME"),
)
def download(context: CommandContext, values: Values) -> None:
    run = context.sdk_workspace().get_run(run_reference.find(context, values["name"]))
    folder = values["download_path"] or os.curdir
    if values["output_name"] in (None, "default"):
        place = os.path.join(folder, "artifacts")
        run.download_files(output_directory=place)
    else:
        name = values["output_name"]
        place = os.path.join(folder, "named-outputs", name)
        run.download_files(f"outputs/{name}", place, append_prefix=False)
    context.terminal.note(f"Downloaded to {place}")


@job.declare("archive", "Leave a job out of lists.", _JOB)
def archive(context: CommandContext, values: Values) -> None:
    context.patch(f"/runs/{run_reference.find(context, values['name'])}", {"archived": True})


@job.declare("restore", "Show an archived job in lists again.", _JOB)
def restore(context: CommandContext, values: Values) -> None:
    context.patch(
        f"/runs/{run_reference.find(context, values['name'])}", {"archived": False, "remove_tags": [_ARCHIVED]}
    )


@job.declare(
    "update",
    "Change tags, properties, name or description of a job.",
    _JOB,
    _SET,
    many("--add", "As --set.", "KEY=VALUE"),
    many("--remove", "Remove a tag: tags.NAME.", "KEY"),
    flag("--force-string", "Accepted: values are texts."),
    _WEB,
)
def update(context: CommandContext, values: Values) -> Any:
    run_id = run_reference.find(context, values["name"])
    changes: dict[str, Any] = {}
    for text in (*values["set"], *values["add"]):
        path, _, value = text.partition("=")
        group, _, key = path.partition(".")
        if group in ("tags", "properties") and key:
            changes.setdefault(group, {})[key] = value
        elif path in ("display_name", "description"):
            changes["name" if path == "display_name" else path] = value
        else:
            raise InvalidRequest(
                f"{path} of a job cannot be changed.", "Only tags.NAME, properties.NAME, display_name and description."
            )
    removed = [path.partition(".")[2] for path in values["remove"] if path.startswith("tags.")]
    if len(removed) != len(values["remove"]):
        raise SpecNotSupported("Only tags are removed from a job.", "--remove tags.NAME")
    context.patch(f"/runs/{run_id}", {**changes, **({"remove_tags": removed} if removed else {})})
    return record(context, run_id)


job.explain("connect-ssh", "Logging in to a job is not provided in this version: log in to its target by ssh.")
job.explain(
    "show-services", "Services of a job are not provided in this version: `windlass logs -f RUN` follows its log."
)


def _show_page(context: CommandContext, view: View, is_wanted: bool) -> None:
    if is_wanted:
        context.terminal.note(str(view["url"]))


def record(context: CommandContext, run_id: str) -> View:
    return _shape(context.get(f"/runs/{run_id}"))


def _shape(view: View) -> View:
    """A run in the words of the CLI v2. Lists do not have what a job was made from."""
    spec = view.get("spec") or {}
    definition = spec.get("definition") or {}
    document: View = {
        "compute": view["target"],
        "creation_context": {
            "created_at": view["created_at"],
            "created_by": view["submitted_by"],
            "created_by_type": "User",
        },
        "description": view["description"] or None,
        "display_name": view["name"] or view["id"],
        "experiment_name": view["experiment"],
        "id": f"azureml:/workspaces/{view['workspace']}/jobs/{view['id']}",
        "name": view["id"],
        "parent_job_name": view["parent"],
        "properties": view["properties"],
        "services": {"Studio": {"endpoint": view["url"], "type": "Studio"}},
        "status": view["status"],
        "tags": view["tags"],
        "type": "command",
    }
    if spec:
        job = definition.get("job") or {}
        document.update(
            command=job.get("command") or _command(spec),
            environment=_environment(definition.get("environment") or {}),
            environment_variables=spec.get("environment_variables") or {},
            inputs=job.get("inputs") or {},
            outputs={"default": {"mode": "rw_mount", "type": "uri_folder"}, **(job.get("outputs") or {})},
            resources={"instance_count": definition.get("nodeCount") or 1},
        )
        if view["snapshot"]:
            document["code"] = f"{document['id']}/code"
        if spec.get("max_run_duration_seconds"):
            document["limits"] = {"timeout": spec["max_run_duration_seconds"]}
    if view["error"]:
        document["error"] = view["error"]
    return document


def _environment(definition: View) -> Any:
    """The name of a registered or curated environment; else what stands in the job file."""
    from windlass.client.environments import curated, environment_file
    from windlass.client.environments.environment import Environment

    name, version = definition.get("name"), definition.get("version")
    if not name or curated.is_curated(name):
        return name
    if version:
        return f"azureml:{name}:{version}"
    return environment_file.inline(Environment.from_dict(definition)) or name


def _command(spec: View) -> str:
    import shlex

    words = list(spec.get("command") or ())
    if words[:2] == ["sh", "-c"] and len(words) == 3:
        return str(words[2])
    return shlex.join(words) if words else shlex.join(["python", str(spec.get("script")), *spec.get("arguments", ())])
