"""Submit runs to targets; create interactive runs, which report their state themselves."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, with_config
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import names
from windlass.core.digests import snapshot_digest
from windlass.core.entities import RunSpec, SnapshotFile
from windlass.core.errors import Denied, InvalidRequest, SnapshotIncomplete
from windlass.failpoints import reach
from windlass.server.api.runs.spec_validation import FromWire, check_files, check_script, check_spec
from windlass.server.api.views import RunView, run_view
from windlass.server.http.parameters import Body, ExperimentName, Key, RunId, TagKey, TagValue, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.security.secret_store import RUNS
from windlass.store import NewRun, Store
from windlass.store.files.snapshots import Snapshots

TAG = "submit"

INTERACTIVE = "interactive"
MAX_LABELS = 1000


def _short_line(text: str) -> str:
    return names.printable("A name", text)


Name = Annotated[str, Field(max_length=1000), AfterValidator(_short_line)]
Tags = Annotated[dict[TagKey, TagValue | None], Field(max_length=MAX_LABELS)]
Properties = Annotated[dict[TagKey, TagValue], Field(max_length=MAX_LABELS)]


@with_config(ConfigDict(extra="forbid", strict=True))
class ManifestFile(TypedDict):
    path: str
    digest: str
    size: Annotated[int, Field(ge=0, le=1 << 62)]
    executable: NotRequired[bool]


class Submit(Body):
    experiment: ExperimentName
    type: Annotated[str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_.\-]{0,63}$")] = "azureml.scriptrun"
    spec: Annotated[RunSpec, FromWire(RunSpec)] | None = None
    files: list[ManifestFile] | None = None
    name: Name = ""
    tags: Tags | Annotated[list[Tags], Field(max_length=100)] = {}
    properties: Properties = {}
    parent: RunId | None = None
    run_id: RunId | None = None
    count: Annotated[int, Field(ge=1, le=100)] | None = None
    # Whether a user waits for it at a terminal.
    attended: bool = False


class Created(TypedDict):
    runs: list[RunView]


class PlanView(TypedDict):
    text: str
    target: str
    kind: str


@route(
    "POST",
    "/workspaces/{workspace}/runs",
    "runs.submit",
    status=201,
    answers=RunView | Created,
    errors=(404, 409, 413, 422, 502, 503, 507),
    body_type="json",
    is_large=True,
    for_runs=True,
)
def submit(request: ApiRequest, workspace: WorkspaceName, body: Submit, idempotency_key: Key = None) -> Response:
    """Submit a run, or create interactive ones. 200 instead of 201: an earlier request with the same key did so."""
    reach("F01")
    _check_parent(request, body)
    if body.type == INTERACTIVE:
        return _create(request, body, idempotency_key)
    if body.spec is None:
        raise InvalidRequest("A run needs a spec, unless its type is interactive.")
    if body.count is not None:
        raise InvalidRequest("Only interactive runs are made several at once.")
    context = request.context
    new = _new_run(request, body, idempotency_key, _keep_snapshot(context.store, body.spec, body.files))
    context.targets.plan(workspace, new)
    run, is_new, leased = context.store.runs.submit(
        new, context.reconciler.owner, context.targets.capacity_of, context.settings.lease_seconds
    )
    reach("F05")
    if is_new and body.run_id is not None:
        # A server that was killed may have left those of a deleted run: they would seem to be this one's.
        context.store.logs.drop_all(run.id)
    context.event_bus.publish_change(workspace, run.id)
    if leased is not None:
        context.reconciler.dispatch(leased)
    else:
        context.reconciler.on_queued(workspace, body.spec.target)
    return json_response(run_view(run, context.url), 201 if is_new else 200)


@route(
    "POST",
    "/workspaces/{workspace}/plan",
    "runs.submit",
    answers=PlanView,
    errors=(404, 413, 422, 502, 503),
    body_type="json",
    is_large=True,
)
def plan(request: ApiRequest, workspace: WorkspaceName, body: Submit) -> Response:
    """The plan of a run: a text about what would be sent to its target. Nothing is stored."""
    if body.spec is None:
        raise InvalidRequest("An interactive run has no plan: its script runs where it is.")
    check_spec(body.spec)
    digest, files = body.spec.snapshot, None
    if body.files is not None:
        files = read_manifest(body.files)
        check_files(files)
        check_script(body.spec, {file.path for file in files})
        digest = snapshot_digest(files)
    found = request.context.targets.plan(workspace, _new_run(request, body, None, digest), files)
    target = request.context.store.targets.get(workspace, body.spec.target)
    return json_response({"text": found.text, "target": target.name, "kind": target.kind})


def _create(request: ApiRequest, body: Submit, key: str | None) -> Response:
    if body.spec is not None:
        raise InvalidRequest("An interactive run has no spec: its script runs where it is.")
    context = request.context
    snapshot = None if body.files is None else keep_files(context.store, body.files)
    news = [_new_run(request, body, key, snapshot, i) for i in range(body.count or 1)]
    runs = context.store.runs.create(news)
    reach("F05")
    for run in runs:
        context.event_bus.publish_change(request.workspace, run.id)
    status = 201 if [run.id for run in runs] == [new.id for new in news] else 200
    views = [run_view(run, context.url) for run in runs]
    return json_response(views[0] if body.count is None else {"runs": views}, status)


def _new_run(request: ApiRequest, body: Submit, key: str | None, snapshot: str | None, index: int = 0) -> NewRun:
    spec = body.spec
    if spec is not None and snapshot is not None:
        spec = dataclasses.replace(spec, snapshot=snapshot)
    return NewRun(
        id=_run_id(body, index),
        workspace=request.workspace,
        experiment=body.experiment,
        type=INTERACTIVE if spec is None else body.type,
        # Keys of clients have no line breaks, so the keys of further runs cannot clash with them.
        key=f"{key}\n{index}" if key is not None and index else key,
        body_hash=hashlib.sha256(request.raw).hexdigest(),
        submitted_by=request.principal.name,
        spec=spec,
        parent=body.parent,
        name=body.name,
        tags=_tags(body, index),
        properties=body.properties,
        snapshot=snapshot,
        nonce=secrets.token_hex(16),
    )


def _run_id(body: Submit, index: int) -> str:
    if body.run_id is None:
        return names.make_run_id(body.experiment, int(time.time()), secrets.token_hex(4))
    if body.count is not None:
        raise InvalidRequest("Several runs cannot have one run_id.")
    return str(body.run_id)


def _tags(body: Submit, index: int) -> dict[str, str | None]:
    if isinstance(body.tags, dict):
        return body.tags
    if body.count is None or len(body.tags) > body.count:
        raise InvalidRequest("A list of tags has at most one entry for each of `count` runs.")
    return body.tags[index] if index < len(body.tags) else {}


def _check_parent(request: ApiRequest, body: Submit) -> None:
    """Check the parent: the token of a run may create children of that run on its target, others of runs that they may
    change.
    """
    own = request.principal.run
    if own is None and body.parent is None:
        return
    if body.parent is None:
        raise Denied("With a run's own token only children of that run can be made.", "Name the run as `parent`.")
    parent = request.run(body.parent)
    request.principal.check_acts_on(parent)
    if own is not None and body.spec is not None:
        target = parent.target or request.context.store.runs.get(request.workspace, own).target
        if body.spec.target != target:
            raise Denied(f"With a run's own token children go to the target of that run, {target}.")
        _check_secrets(request, own, body.spec)


def _check_secrets(request: ApiRequest, own: str, spec: RunSpec) -> None:
    """Raise Denied if a child names secrets that its parent does not have."""
    more = set(spec.secrets) - set(request.context.store.runs.spec(own).secrets) if spec.secrets else set()
    more -= {
        secret.name for secret in request.context.secret_store.list(request.workspace) if secret.granted_to == RUNS
    }
    if more:
        raise Denied(f"Run {own} does not have the secret {min(more)}, so that its children cannot have it either.")


def _keep_snapshot(store: Store, spec: RunSpec, manifest: Sequence[ManifestFile] | None) -> str | None:
    check_spec(spec)
    if manifest is not None:
        files = read_manifest(manifest)
        check_script(spec, {file.path for file in files})
        digest = _keep_files(store, files)
        if spec.snapshot not in (None, digest):
            raise InvalidRequest(f"The files are snapshot {digest}, not {spec.snapshot}.")
        return digest
    if spec.snapshot is None:
        check_script(spec, ())
        return None
    if not store.snapshots.known(spec.snapshot):
        raise SnapshotIncomplete(
            f"The server does not have the snapshot {spec.snapshot}.",
            "Send its manifest: `files`.",
            {"missing": [], "manifest": True},
        )
    if spec.script is not None and not _has(store.snapshots, spec.snapshot, spec.script):
        check_script(spec, ())
    return spec.snapshot


@lru_cache(maxsize=1024)
def _has(snapshots: Snapshots, digest: str, path: str) -> bool:
    """Whether a snapshot has a file. Cached, since a snapshot never changes and may be large."""
    return any(file.path == path for file in snapshots.get(digest).files)


def keep_files(store: Store, manifest: Sequence[ManifestFile]) -> str:
    return _keep_files(store, read_manifest(manifest))


def _keep_files(store: Store, files: Sequence[SnapshotFile]) -> str:
    digest = snapshot_digest(files)
    if not store.snapshots.known(digest):
        check_files(files)
        store.snapshots.put(files)
    return digest


def read_manifest(manifest: Sequence[ManifestFile]) -> list[SnapshotFile]:
    return [SnapshotFile(f["path"], f["digest"], f["size"], f.get("executable", False)) for f in manifest]
