"""`windlass model`: files that the workspace keeps under a name, in versions."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.output.table import Column
from windlass.cli.parameters import key_values, run_reference
from windlass.cli.parameters.types import FILE, FOLDER, MODEL, RUN
from windlass.cli.runs.show import pairs_of
from windlass.core import names
from windlass.core.errors import Conflict, InvalidRequest, NotFound
from windlass.core.sanitize import escape, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from windlass.client.models.model import Model

View = dict[str, Any]
_VERSIONS_SHOWN = 12
_FILES_SHOWN = 12


@click.group("model", cls=Group, short_help="Register, list, show, download, tag and delete models.")
def model() -> None:
    """Models are files that the workspace keeps under a name. Registering a name again makes its next version, and the
    files of a version never change.
    """


_NOT_SERVED = "Models are not deployed here yet; `windlass model download NAME` fetches one."

model.not_provided = dict.fromkeys(("deploy", "package", "profile"), _NOT_SERVED)


@model.command("list", cls=Command, short_help="List the models.")
@click.option("-a", "--all", "everything", is_flag=True, help="Every version, not only the latest of each.")
@click.option("-n", "--name", metavar="NAME", help="The versions of this model.")
@click.option("-r", "--run", type=RUN, metavar="RUN", help="Models that were registered from this run.")
@click.pass_obj
def list_models(context: CommandContext, everything: bool, name: str | None, run: str | None) -> None:
    """List the models of the workspace, the latest version of each; with --name or --run, every version that fits."""
    wanted = {} if name is None else {"name": names.model_name(name)}
    if run is not None:
        wanted["run"] = run_reference.find(context, run)
    found = context.get("/models", wanted or ({} if everything else {"latest": "true"}))["models"]
    columns = [
        Column("MODEL"),
        Column("VERSION", right=True),
        Column("SIZE", right=True),
        Column("EXPERIMENT", least=8),
        Column("RUN"),
        Column("REGISTERED", right=True),
        Column("BY", least=8),
    ]
    context.print_list("models", found, _none(**wanted), columns, lambda view: _row(context, view))


def _none(name: str = "", run: str = "") -> str:
    if run:
        which = f"No models of run {format.short_id(run)}" + (f" are named {name}" if name else "")
        return f"{which}: windlass model register NAME PATH --run {format.short_id(run)}"
    if name:
        return f"No models are named {name}: windlass model list"
    return "No models yet: windlass model register NAME PATH"


def _row(context: CommandContext, view: View) -> list[str]:
    return [
        view["name"],
        str(view["version"]),
        format.size(_size(view)),
        view["experiment"] or "",
        format.short_id(view["run"] or ""),
        format.ago(view["created_at"], context.now),
        view["created_by"] or "",
    ]


@model.command("show", cls=Command, short_help="Show a model.")
@click.argument("name", type=MODEL, metavar="NAME[:VERSION]")
@click.pass_obj
def show_model(context: CommandContext, name: str) -> None:
    """Show the model NAME: its versions, where it comes from, tags and files. Without a version, it is the latest."""
    view = _find(context, name)
    versions = [each["version"] for each in context.get("/models", {"name": view["name"]})["models"]]
    if context.json:
        context.terminal.json({**view, "versions": versions})
        return
    context.terminal.line(f"Model {context.terminal.bold(escape(view['id']))}")
    context.print_facts(_facts(context, view, versions))
    _print_files(context, view["files"])
    context.terminal.line("\n" + context.terminal.dim(f"Next: windlass model download {escape(view['id'])}"))


def _facts(context: CommandContext, view: View, versions: list[int]) -> Iterator[tuple[str, str]]:
    by = f" by {escape(view['created_by'])}" if view["created_by"] else ""
    is_changed = view["changed_at"] != view["created_at"]
    yield "About", one_line(view["description"] or "")
    yield "Versions", _versions(versions)
    yield "Framework", escape(f"{view['framework'] or ''} {view['framework_version'] or ''}".strip())
    yield "Experiment", escape(view["experiment"] or "")
    yield "Run", escape(view["run"] or "")
    yield "Registered", format.at(view["created_at"], context.now) + by
    yield "Changed", format.at(view["changed_at"], context.now) if is_changed else ""
    yield "Tags", pairs_of(view["tags"])
    yield "Properties", pairs_of(view["properties"])


def _versions(versions: list[int]) -> str:
    more = len(versions) - _VERSIONS_SHOWN
    return ", ".join(map(str, versions[:_VERSIONS_SHOWN])) + (f" and {more} more" if more > 0 else "")


def _print_files(context: CommandContext, files: list[dict[str, Any]]) -> None:
    context.terminal.line("\nFiles")
    rows = [[file["path"], format.size(file["size"])] for file in files[:_FILES_SHOWN]]
    context.print_table([Column("PATH"), Column("SIZE", right=True)], rows, indent=2)
    if len(files) > _FILES_SHOWN:
        context.terminal.line(context.terminal.dim(f"  and {len(files) - _FILES_SHOWN} more; --json has all of them"))


@model.command("register", cls=Command, short_help="Register a file or a folder as a model.")
@click.argument("name", type=MODEL)
@click.argument("path", type=FILE)
@click.option(
    "-r", "--run", type=RUN, metavar="RUN", help="PATH is a file or folder of RUN, such as outputs/model.pkl."
)
@click.option("-t", "--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Tag the model. Repeatable.")
@click.option("-d", "--description", metavar="TEXT", help="A description of the model.")
@click.pass_obj
def register_model(
    context: CommandContext, name: str, path: str, run: str | None, tags: tuple[str, ...], description: str | None
) -> None:
    """Register the file or folder PATH as the next version of the model NAME. With --run, PATH is a file or folder of
    that run, and the model records the run.

    \b
    windlass model register churn model.pkl
    windlass model register churn outputs/model.pkl --run @last --tag auc=0.91
    """
    names.model_name(name)
    said = {"tags": key_values.parse(tags, "A tag"), "description": description}
    with contextlib.redirect_stdout(None):  # where the SDK prints its progress
        kept = (
            _register_here(context, name, path, said) if run is None else _register_of(context, run, name, path, said)
        )
    view = context.get(f"/models/{name}", {"version": kept.version})
    if context.json:
        context.terminal.json(view)
        return
    context.terminal.line(f"{escape(view['id'])} is registered: {_contents(view)}.")
    context.terminal.line(f"Fetch it anywhere: windlass model download {escape(view['id'])}")


def _register_here(context: CommandContext, name: str, path: str, said: dict[str, Any]) -> Model:
    from windlass.cli.compute.waiting import waiting
    from windlass.client.models.model import Model

    if not os.path.exists(path):
        near = _near(os.path.basename(path), _names_in(os.path.dirname(path) or "."))
        raise NotFound(
            f"There is no file or folder {escape(path)} here.", near or "What a run left is registered with --run RUN."
        )
    with waiting(context, f"Sending {escape(path)} ..."):
        return Model.register(context.sdk_workspace(), model_path=path, model_name=name, **said)


def _register_of(context: CommandContext, run: str, name: str, path: str, said: dict[str, Any]) -> Model:
    from windlass.cli.runs.download import is_below

    run_id = run_reference.find(context, run)
    there = [file["path"] for file in context.get(f"/runs/{run_id}/files")["files"]]
    if not any(is_below(each, os.path.normpath(path)) for each in there):
        raise NotFound(
            f"Run {run_id} has no file or folder {escape(path)}.",
            _near(path, there) or f"windlass files {format.short_id(run_id)} lists them.",
        )
    return context.sdk_workspace().get_run(run_id).register_model(model_name=name, model_path=path, **said)


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


@model.command("download", cls=Command, short_help="Download a model.")
@click.argument("name", type=MODEL, metavar="NAME[:VERSION]")
@click.option(
    "-o", "--output", type=FOLDER, default=".", metavar="FOLDER", help="Where to put it. [default: the current folder]"
)
@click.option("-f", "--force", is_flag=True, help="Overwrite files that are there already.")
@click.pass_obj
def download_model(context: CommandContext, name: str, output: str, force: bool) -> None:
    """Download the model NAME as it was registered: a file, or a folder. Without a version, it is the latest."""
    from windlass.cli.output.progress import progress
    from windlass.client.runs.downloads import listed, safe_path, save_all

    view = _find(context, name)
    files = [
        listed(file, f"{context.workspace_path}{_path(view)}/files", safe_path(output, file["path"]))
        for file in view["files"]
    ]
    tops = sorted({file.name.partition("/")[0] for file in files})
    _refuse_overwriting([os.path.join(output, top) for top in tops], force)
    with progress(context, "Downloading", _size(view)) as advance:
        skipped = save_all(context.session, files, advance)
    if skipped:
        raise Conflict(
            f"The model {escape(view['id'])} is not complete: {skipped[0]}",
            "Remove it, or choose a folder by --output.",
        )
    where = os.path.normpath(os.path.join(output, tops[0]) if len(tops) == 1 else output)
    if context.json:
        context.terminal.json({"model": view["id"], "path": os.path.abspath(where), "files": view["files"]})
    else:
        context.terminal.line(f"{escape(view['id'])}, {_contents(view)}, is {escape(where)}")


def _refuse_overwriting(places: list[str], force: bool) -> None:
    """Refuse a folder that exists as a whole: it would have files of two models afterwards."""
    there = [place for place in places if os.path.lexists(place)]
    if there and not force:
        where = escape(os.path.normpath(there[0]))
        raise click.UsageError(f"{where} is there already; --force overwrites, --output chooses a folder.")


@model.command("tag", cls=Command, short_help="Add tags to a model, or remove them.")
@click.argument("name", type=MODEL, metavar="NAME[:VERSION]")
@click.argument("given", nargs=-1, metavar="KEY=VALUE...")
@click.option("-r", "--remove", multiple=True, metavar="KEY", help="Remove this tag. Repeatable.")
@click.pass_obj
def tag_model(context: CommandContext, name: str, given: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Add the tags KEY=VALUE (or only KEY) to the model NAME; without any, list them. Without a version, it is the
    latest.
    """
    view = _find(context, name)
    if given or remove:
        changes = {**dict.fromkeys(remove), **key_values.parse(given, "A tag")}
        view = context.patch(_path(view), {"tags": changes})
    if context.json:
        context.terminal.json({"model": view["id"], "tags": view["tags"]})
    else:
        tags = pairs_of(view["tags"]) or f"No tags. Add one: windlass model tag {escape(view['id'])} KEY=VALUE"
        context.terminal.line(tags)


@model.command("delete", cls=Command, short_help="Delete a version of a model.")
@click.argument("name", type=MODEL, metavar="NAME:VERSION")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_model(context: CommandContext, name: str, yes: bool) -> None:
    """Delete a version of the model NAME, after asking for confirmation. This cannot be undone, and the version's
    number is not used again. The files of the run that it comes from stay.
    """
    if names.split_reference(name)[1] is None:
        raise InvalidRequest(
            f"Name the version to delete: {escape(name)}:1, for instance.",
            f"windlass model list --name {escape(name)} lists them.",
        )
    view = _find(context, name)
    if not yes:
        _confirm(view)
    gone = context.request("DELETE", context.workspace_path + _path(view))
    if context.json:
        context.terminal.json(gone)
    else:
        context.terminal.line(f"{escape(gone['id'])} is deleted.")


def _confirm(view: View) -> None:
    from windlass.cli.compute import credentials

    which = escape(view["id"])
    if not credentials.can_ask():
        raise InvalidRequest(
            f"There is no terminal to ask whether {which} is to be deleted.",
            f"If it is: windlass model delete {which} -y",
        )
    if not credentials.confirm(f"Delete {which} ({_contents(view)})? This cannot be undone."):
        raise Conflict(f"Nothing was deleted: {which} stays.")


def _find(context: CommandContext, text: str) -> View:
    """GET a model by NAME (its latest version) or NAME:VERSION."""
    name, version = names.split_reference(text)
    names.model_name(name)
    try:
        found: View = context.get(f"/models/{name}", {} if version is None else {"version": version})
    except NotFound as error:
        error.hint = _instead(context, name) or error.hint
        raise
    return found


def _instead(context: CommandContext, name: str) -> str:
    """A hint for a model or version that does not exist."""
    latest = {view["name"]: view["version"] for view in context.get("/models", {"latest": "true"})["models"]}
    return f"The latest version is {latest[name]}." if name in latest else _near(name, latest, most=3)


def _near(name: str, there: Iterable[str], most: int = 1) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(there), n=most)
    return f"Did you mean {' or '.join(map(escape, near))}?" if near else ""


def _path(view: View) -> str:
    """The model's path in the API. The server's answer is validated, since it becomes part of a URL."""
    return f"/models/{names.model_name(view['name'])}/{int(view['version'])}"


def _size(view: View) -> int:
    return sum(file["size"] for file in view["files"])


def _contents(view: View) -> str:
    return f"{format.count(len(view['files']), 'file')}, {format.size(_size(view))}"
