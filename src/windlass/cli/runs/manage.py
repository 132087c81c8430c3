"""`windlass run`: delete, archive and rename runs, and write notes about them."""

from __future__ import annotations

import sys
from typing import Any

import click

from windlass.cli.command import Command, Group, HintedUsageError
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.client.runs.record import FINAL
from windlass.core.errors import Conflict, InvalidRequest
from windlass.core.sanitize import escape

_SCRIPTS = (".py", ".sh", ".ipynb")
_NAMED = 3
_LONGEST_NOTE = 1 << 20  # of standard input; the server has a limit of its own
_RUNS = click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
View = dict[str, Any]


class _RunGroup(Group):
    command_hints = {
        **dict.fromkeys(("list", "ls", "ps"), "`windlass runs` lists runs."),
        **dict.fromkeys(("start", "submit"), "`windlass submit train.py` runs a script."),
        **dict.fromkeys(("stop", "kill"), "`windlass cancel RUN` stops a run."),
        **dict.fromkeys(("describe", "title"), "`windlass run rename RUN NAME` names a run, and `windlass run note RUN "
                        "TEXT` says more about it."),
        **{name: f"`windlass {name} RUN` does it." for name in ("cancel", "compare", "download", "events", "files",
                                                                "logs", "metrics", "rerun", "show", "tag", "wait")},
    }  # fmt: skip

    def _unknown(self, ctx: click.Context, name: str) -> Exception:
        if name.endswith(_SCRIPTS):
            hint = f"`windlass submit {escape(name)}` runs a script."
            return HintedUsageError(f"{ctx.command_path} has no command {escape(name)}.", hint, ctx)
        return super()._unknown(ctx, name)


@click.group("run", cls=_RunGroup, short_help="Delete, archive and rename runs; write notes.")
def run() -> None:
    """Keep the list of runs in order: delete and archive runs, name them, and note what they were about."""


@run.command("delete", cls=Command, short_help="Delete runs with their files and metrics.")
@_RUNS
@click.option("--children", is_flag=True, help="Delete the runs below them, too.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete(context: CommandContext, runs: tuple[str, ...], children: bool, yes: bool) -> None:
    """Delete each RUN with its logs, metrics, files and events, after asking for confirmation. This cannot be undone.
    Registered models stay.

    Runs that have not ended are refused: `windlass cancel` ends them. `windlass run archive` only hides runs.

    \b
    windlass run delete 3f9a1c2b 77aa88bb
    """
    ids = run_reference.find_all(context, runs)
    found = [context.get(f"/runs/{run_id}") for run_id in ids]
    _refuse_active(found)
    if not yes:
        _confirm(context, found, children)
    for view in found:
        _delete(context, view, children, yes)
        if not context.json:
            context.terminal.line(f"{format.short_id(view['id'])}  deleted")
    if context.json:
        context.terminal.json({"deleted": ids})


def _refuse_active(found: list[View]) -> None:
    active = [view for view in found if view["state"] not in FINAL]
    if not active:
        return
    ids = [format.short_id(view["id"]) for view in active]
    some = ", ".join(ids[:_NAMED]) + (" ..." if len(ids) > _NAMED else "")
    raise Conflict(
        f"Nothing was deleted: {some} {'has' if len(ids) == 1 else 'have'} not ended.",
        f"Cancel {'it' if len(ids) == 1 else 'them'} first: windlass cancel {' '.join(ids[:_NAMED])}",
    )


def _confirm(context: CommandContext, found: list[View], children: bool) -> None:
    many = len(found) > 1
    what = f"{len(found)} runs" if many else f"run {format.short_id(found[0]['id'])}"
    below = f" and all runs below {'them' if many else 'it'}" if children else ""
    if not _ask(f"Delete {what}{below}, with logs, metrics and files? This cannot be undone."):
        raise Conflict(f"Nothing was deleted: {'the runs stay' if many else 'the run stays'}.")


def _delete(context: CommandContext, view: View, children: bool, yes: bool) -> None:
    """Delete one run. If it has children, ask for them: the server refuses to delete them unasked."""
    path = f"{context.workspace_path}/runs/{view['id']}"
    try:
        context.request("DELETE", path, None, {"children": "true"} if children else None)
    except Conflict as e:
        count = e.details.get("children")
        if not count or children:
            raise
        below = format.count(count, "run")
        short = format.short_id(view["id"])
        if yes or not _can_ask():
            raise Conflict(f"{short} stays: there {_are(count)} {below} below it.", _with_children(short)) from None
        if not _ask(f"There {_are(count)} {below} below {short}. Delete {'it' if count == 1 else 'them'}, too?"):
            raise Conflict(f"{short} stays, with the {below} below it.") from None
        context.request("DELETE", path, None, {"children": "true"})


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _with_children(short: str) -> str:
    return f"To delete them, too: windlass run delete --children {short}"


def _can_ask() -> bool:
    from windlass.cli.compute import credentials

    return credentials.can_ask()


def _ask(question: str) -> bool:
    from windlass.cli.compute import credentials

    if not credentials.can_ask():
        raise InvalidRequest("There is no terminal to ask whether it is to be deleted.", "If it is, add --yes.")
    return credentials.confirm(question)


@run.command("archive", cls=Command, short_help="Hide runs from lists, and keep them.")
@_RUNS
@click.pass_obj
def archive(context: CommandContext, runs: tuple[str, ...]) -> None:
    """Archive each RUN: lists leave it out, and all of it is kept. `windlass runs --archived` lists archived runs."""
    _set_archived(context, runs, True)


@run.command("unarchive", cls=Command, short_help="Show archived runs in lists again.")
@_RUNS
@click.pass_obj
def unarchive(context: CommandContext, runs: tuple[str, ...]) -> None:
    """Undo `windlass run archive`: each RUN is in lists again."""
    _set_archived(context, runs, False)


def _set_archived(context: CommandContext, runs: tuple[str, ...], archived: bool) -> None:
    ids = run_reference.find_all(context, runs)
    found = []
    for run_id in ids:
        found.append(context.patch(f"/runs/{run_id}", {"archived": archived}))
        if not context.json:
            context.terminal.line(f"{format.short_id(run_id)}  {'archived' if archived else 'in lists again'}")
    if context.json:
        context.terminal.json({"runs": found})


@run.command("rename", cls=Command, short_help="Name a run, for lists.")
@click.argument("run", type=RUN)
@click.argument("name")
@click.pass_obj
def rename(context: CommandContext, run: str, name: str) -> None:
    """Give RUN the name NAME, which lists show; its id stays. An empty NAME removes the name."""
    run_id = run_reference.find(context, run)
    found = context.patch(f"/runs/{run_id}", {"name": name})
    if context.json:
        context.terminal.json(found)
    else:
        short = format.short_id(run_id)
        context.terminal.line(f"{short} is named {escape(found['name'])}" if found["name"] else f"{short} has no name")


@run.command("note", cls=Command, short_help="Write or show the note about a run.")
@click.argument("run", type=RUN)
@click.argument("text", nargs=-1)
@click.pass_obj
def note(context: CommandContext, run: str, text: tuple[str, ...]) -> None:
    """Write TEXT as the note about RUN, in place of the one before; - reads it from standard input. Without TEXT, print
    the note. An empty TEXT removes it.

    \b
    windlass run note @last "learning rate too high"
    windlass run note @last - < findings.txt
    """
    run_id = run_reference.find(context, run)
    if text:
        body = {"description": _standard_input() if text == ("-",) else " ".join(text)}
        found = context.patch(f"/runs/{run_id}", body)
    else:
        found = context.get(f"/runs/{run_id}")
    if context.json:
        context.terminal.json({"run": run_id, "note": found["description"]})
    elif not text:
        _print_note(context, run_id, found["description"])
    else:
        done = "noted" if found["description"] else "the note is removed"
        context.terminal.line(f"{format.short_id(run_id)}  {done}")


def _print_note(context: CommandContext, run_id: str, note: str) -> None:
    if not note:
        context.terminal.note(f"No note. Write one: windlass run note {format.short_id(run_id)} TEXT")
    context.terminal.lines([escape(line) for line in note.splitlines()])


def _standard_input() -> str:
    try:
        text = sys.stdin.buffer.read(_LONGEST_NOTE + 1).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The note is not UTF-8 text.") from None
    if len(text) > _LONGEST_NOTE:
        raise InvalidRequest("The note is too long.", "Upload it as a file of the run.")
    return text.replace("\r\n", "\n").strip()
