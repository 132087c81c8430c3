"""Run lists by filters: of an experiment, on a target, or below another run; the newest first, a page per request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.exceptions import UserErrorException
from windlass.client.runs.moments import as_text
from windlass.client.workspace.signed_in import signed_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from windlass.client.experiment import Experiment
    from windlass.client.runs.moments import Moment
    from windlass.client.runs.run import Run
    from windlass.client.workspace.workspace import Workspace

_PAGE = 100


def find(
    experiment: Experiment,
    kind: str | None = None,
    tags: Any = None,
    properties: Any = None,
    status: str | None = None,
    parent: str | None = None,
    **filters: Any,
) -> Iterator[Run]:
    """`filters` are those of `in_workspace`."""
    workspace = experiment.workspace
    query = {**_query(kind, tags, properties, status), "experiment": experiment.name, "parent": parent}
    return _pages(workspace, {**query, **_filters(workspace, **filters)})


def in_workspace(
    workspace: Workspace, status: str | None, tags: Any, parent: str | None, **filters: Any
) -> Iterator[Run]:
    query = {**_query(None, tags, None, status), "parent": parent}
    return _pages(workspace, {**query, **_filters(workspace, **filters)})


def _filters(
    workspace: Workspace,
    submitted_by: str | Sequence[str] | None = None,
    mine: bool = False,
    search: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    archived: bool | None = False,
) -> dict[str, Any]:
    """The query of what Azure does not filter by. `archived`: True for archived runs only, None for those too."""
    members = [submitted_by] if isinstance(submitted_by, str) else list(submitted_by or ())
    if mine:
        members.append(signed_in(workspace._session)["name"])
    return {
        "submitted_by": members or None,
        "search": search or None,
        "since": None if since is None else as_text(since),
        "until": None if until is None else as_text(until),
        "archived": {True: "only", None: "all"}.get(archived),
    }


def on_target(
    workspace: Workspace, target: str, kind: str | None, tags: Any, properties: Any, status: str | None
) -> Iterator[Run]:
    return _pages(workspace, {**_query(kind, tags, properties, status), "target": target})


def below(run: Run, recursive: bool, kind: str | None, tags: Any, properties: Any, status: str | None) -> Iterator[Run]:
    """The children of a run; with `recursive` also theirs, below runs that the filters leave out too."""
    workspace = run.experiment.workspace
    chosen = _pages(workspace, {**_query(kind, tags, properties, status), "parent": run.id})
    if not recursive:
        yield from chosen
        return
    yield from chosen
    for child in _pages(workspace, {"parent": run.id}):
        yield from below(child, True, kind, tags, properties, status)


def _pages(workspace: Workspace, query: dict[str, Any]) -> Iterator[Run]:
    from windlass.client.runs.run import make_run

    cursor = None
    while True:
        page = workspace._session.call(
            "GET", f"{workspace._path}/runs", query={**query, "limit": _PAGE, "cursor": cursor}
        )
        for view in page["runs"]:
            yield make_run(workspace._experiment(view["experiment"]), view)
        cursor = page["next"]
        if cursor is None:
            return


def _query(kind: str | None, tags: Any, properties: Any, status: str | None) -> dict[str, Any]:
    return {"type": kind, "tag": _pairs(tags), "property": _pairs(properties), "state": status}


def _pairs(wanted: Any) -> list[str] | None:
    """The query for "key" or {"key": "value"}; a value of None asks for the key alone."""
    if wanted is None:
        return None
    if isinstance(wanted, str):
        return [wanted]
    if isinstance(wanted, dict):
        return [str(key) if value is None else f"{key}:{value}" for key, value in wanted.items()]
    raise UserErrorException(f"Runs are chosen by a text or a dict of texts, not by {wanted!r}.")
