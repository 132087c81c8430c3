"""Runs: list, show, describe, cancel, end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import names
from windlass.core.codec import parse_time
from windlass.core.entities import Run
from windlass.core.errors import Conflict, Denied, InvalidRequest
from windlass.core.states import Reason, RunState, Step
from windlass.failpoints import reach
from windlass.server.api.runs.submit import Name, Properties, Tags
from windlass.server.api.views import (
    EventView,
    RunDetails,
    RunPage,
    RunView,
    attempt_view,
    event_view,
    run_view,
    share_view,
)
from windlass.server.http.parameters import Body, RunId, TagKey, Text, Texts, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import API, route
from windlass.server.security.principals import check_own
from windlass.server.streaming.log_reader import log_paths, read_log
from windlass.store import CommandLine, Ending, RunQuery, Store

TAG = "runs"

RUNS = "/workspaces/{workspace}/runs"
USAGE_LOG = "system_logs/usage.jsonl"
MAX_USAGE_BYTES = 16 << 20


Why = Annotated[
    str, Field(min_length=1, max_length=1000), AfterValidator(lambda t: names.printable("The cause of an eviction", t))
]


class Describe(Body):
    name: Name | None = None
    description: (
        Annotated[str, Field(max_length=10_000), AfterValidator(lambda t: names.printable("A description", t))] | None
    ) = None
    tags: Tags | None = None
    remove_tags: Annotated[list[TagKey], Field(max_length=1000)] = []
    properties: Properties | None = None
    archived: bool | None = None


class EndError(Body):
    code: Annotated[str, Field(max_length=200)] = "client"
    message: Annotated[str, Field(max_length=100_000)] = ""


class End(Body):
    state: Literal["Completed", "Failed", "Canceled"]
    error: EndError | None = None


class Events(TypedDict):
    events: list[EventView]


class Usage(TypedDict):
    samples: list[dict[str, Any]]
    summary: dict[str, Any] | None


@route("GET", RUNS, "runs.read", answers=RunPage, for_runs=True)
def find(
    request: ApiRequest,
    workspace: WorkspaceName,
    experiment: Text | None = None,
    state: Texts = (),
    type: Text | None = None,
    parent: Text | None = None,
    target: Text | None = None,
    submitted_by: Texts = (),
    archived: Literal["no", "only", "all"] = "no",
    tag: Texts = (),
    property: Texts = (),
    where: Texts = (),
    since: Text | None = None,
    until: Text | None = None,
    search: Text = "",
    sort: Text = "-created_at",
    metrics: Texts = (),
    arguments: bool = False,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    cursor: Annotated[str, Field(max_length=10_000)] | None = None,
) -> Response:
    """List runs by filters, in pages. `next` is the `cursor` of the next page. Archived runs are left out."""
    if request.principal.run is not None:
        if parent is None or parent == "none":
            raise Denied("With a run's own token only the children of that run can be listed.", "Name it: parent=")
        # Its ancestors may be read, but not listed: their children are its siblings.
        check_own(request.context.store, request.principal, request.run(names.run_id(parent)), is_reading=False)
    query = RunQuery(
        workspace=workspace,
        experiment=experiment,
        states=state,
        type=type,
        parent=parent,
        target=target,
        submitted_by=submitted_by,
        archived=archived,
        tags=tag,
        properties=property,
        where=where,
        since=moment(since),
        until=moment(until),
        search=search,
        sort=sort,
        metrics=metrics,
        arguments=arguments,
        limit=limit,
        cursor=cursor,
    )
    page = request.context.store.runs.find(query)
    views = [run_view(run, request.context.url) for run in page.runs]
    if metrics:
        for view in views:
            view["metrics"] = dict(page.metrics.get(view["id"], {}))
    if arguments:
        for view in views:
            line = page.commands.get(view["id"], CommandLine())
            view["script"], view["arguments"] = line.script, list(line.arguments)
    return json_response({"runs": views, "next": page.next})


@route("GET", f"{RUNS}/{{id}}", "runs.read", answers=RunDetails, errors=(404,))
def show(request: ApiRequest, workspace: WorkspaceName, id: RunId) -> Response:
    return json_response(run_details(request.context.store, request.run(id), request.context.url))


def run_details(store: Store, run: Run, url: str) -> dict[str, Any]:
    """The details of a run as its routes return them."""
    spec, kind = store.runs.origin(run.id)
    shares = () if run.is_final else store.node_usage.allocation(run.id).shares
    return {
        **run_view(run, url),
        "allocation": [share_view(share) for share in shares],
        "spec": spec,
        "target_kind": kind,
        "log_files": log_paths(store, run),
        "events_url": f"{url}{API}/workspaces/{run.workspace}/runs/{run.id}/events",
        **({"attempts": [attempt_view(each) for each in store.runs.attempts(run.id)]} if run.attempt > 1 else {}),
    }


@route("PATCH", f"{RUNS}/{{id}}", "runs.write", answers=RunView, errors=(404, 409, 413), body_type="json")
def describe(request: ApiRequest, workspace: WorkspaceName, id: RunId, body: Describe) -> Response:
    """Change name, description and tags of a run, archive it or restore it. Properties can be written once."""
    request.run(id)
    run = request.context.store.runs.describe(
        workspace,
        id,
        name=body.name,
        description=body.description,
        tags=body.tags,
        remove_tags=body.remove_tags,
        properties=body.properties,
        archived=body.archived,
    )
    request.context.event_bus.publish_change(workspace, id)
    return json_response(run_view(run, request.context.url))


@route("POST", f"{RUNS}/{{id}}/cancel", "runs.cancel", answers=RunView, errors=(404,))
def cancel(request: ApiRequest, workspace: WorkspaceName, id: RunId) -> Response:
    """Request that the run ends. The request is durable; the run is stopped as soon as its target can be reached."""
    context = request.context
    request.run(id)
    run = context.store.runs.request_cancel(workspace, id)
    reach("F21")
    if not run.target and not run.is_final:
        run = _end(request, run, Step(RunState.CANCELED, Reason.CLIENT, "canceled"), None)
    context.reconciler.wake(id)
    context.event_bus.publish_change(workspace, id)
    return json_response(run_view(run, context.url))


@route("POST", f"{RUNS}/{{id}}/evict", "runs.cancel", answers=RunView, errors=(404,))
def evict(request: ApiRequest, workspace: WorkspaceName, id: RunId, why: Why = "requested by a user") -> Response:
    """Stop the attempt of a started run and queue the run for the next attempt, as when its node is taken away.

    Other runs stay as they are.
    """
    context = request.context
    request.run(id)
    run = context.store.runs.request_eviction(workspace, id, why)
    reach("F29")
    context.reconciler.wake(id)
    context.event_bus.publish_change(workspace, id)
    return json_response(run_view(run, context.url))


@route("POST", f"{RUNS}/{{id}}/end", "runs.write", answers=RunView, errors=(404, 409, 413), body_type="json")
def end(request: ApiRequest, workspace: WorkspaceName, id: RunId, body: End) -> Response:
    """End an interactive run. The script of a submitted run may report a failure or request a cancel."""
    run = request.run(id)
    error = to_wire_error(body.error)
    if run.target:
        run = _note_end(request, run, body.state, error)
    elif not run.is_final:
        message = body.error.message[:1000] if body.error else ""
        run = _end(request, run, Step(RunState(body.state), Reason.CLIENT, message), error)
    request.context.event_bus.publish_change(workspace, id)
    return json_response(run_view(run, request.context.url))


@route("POST", f"{RUNS}/{{id}}/heartbeat", "runs.write", answers=RunView, errors=(404, 409))
def heartbeat(request: ApiRequest, workspace: WorkspaceName, id: RunId) -> Response:
    """Report that an interactive run is alive."""
    request.run(id)
    runs = request.context.store.runs
    run = runs.heartbeat(workspace, id)
    if run.state is RunState.NOT_RESPONDING and not run.target:
        run = runs.advance(id, expect=run.state, step=Step(RunState.RUNNING, Reason.STARTED, ""), fence=None)
        request.context.event_bus.publish_change(workspace, id)
    return json_response(run_view(run, request.context.url))


@route("GET", f"{RUNS}/{{id}}/events", "runs.read", answers=Events, errors=(404,))
def events(
    request: ApiRequest, workspace: WorkspaceName, id: RunId, after: Annotated[int, Field(ge=0, le=1 << 53)] = 0
) -> Response:
    """The events of a run after that number, at most 1000."""
    request.run(id)
    return json_response({"events": [event_view(event) for event in request.context.store.runs.events(id, after)]})


@route("GET", f"{RUNS}/{{id}}/usage", "runs.read", answers=Usage, errors=(404,))
def usage(request: ApiRequest, workspace: WorkspaceName, id: RunId) -> Response:
    """The resource usage of a run's processes: samples over time, and a summary."""
    run = request.run(id)
    data = read_log(request.context.store, run, USAGE_LOG, 0, MAX_USAGE_BYTES)
    return json_response({"samples": list(_samples(data)), "summary": run.usage})


def to_wire_error(error: EndError | None) -> dict[str, Any] | None:
    return None if error is None else {"code": error.code, "message": error.message}


def _end(request: ApiRequest, run: Run, step: Step, error: dict[str, Any] | None) -> Run:
    """Move an interactive run to its final state, even if its state has changed meanwhile."""
    runs = request.context.store.runs
    for _ in range(5):
        try:
            return runs.advance(run.id, expect=run.state, step=step, fence=None, ending=Ending(error=error))
        except Conflict:
            run = runs.get(run.workspace, run.id)
            if run.is_final:
                return run
    raise Conflict(f"Run {run.id} changes all the time; try again.")


def _note_end(request: ApiRequest, run: Run, state: str, error: dict[str, Any] | None) -> Run:
    if run.is_final or state == "Completed":
        return run
    if state == "Canceled":
        run = request.context.store.runs.request_cancel(run.workspace, run.id)
        request.context.reconciler.wake(run.id)
        return run
    message = error["message"][:1000] if error else "the script says that it failed"
    request.context.store.runs.append_event(run.id, "failed_by_script", message, {"error": error} if error else {})
    return request.context.store.runs.get(run.workspace, run.id)


def moment(text: str | None) -> datetime | None:
    """A time in a query parameter."""
    if text is None:
        return None
    try:
        return parse_time(text).astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(f"Not a time that can be: {text[:60]!r}") from None


def _samples(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            sample = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the last line may be incomplete, and a script can write to this file too
        if isinstance(sample, dict):
            yield sample
