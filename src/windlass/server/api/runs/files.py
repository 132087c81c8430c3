"""Files of a run and of its snapshot. They are sent as attachments, so that a browser never renders them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from pydantic import Field
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from windlass.core.entities import Artifact, Run
from windlass.core.errors import Conflict, NotFound
from windlass.server.api.runs.history import RUNS
from windlass.server.api.runs.submit import ManifestFile, keep_files
from windlass.server.api.views import FileView, SnapshotView, file_view, snapshot_view
from windlass.server.http.errors import NotInFile, error_response
from windlass.server.http.parameters import Body, FilePath, FromHeader, RunId, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.http.threads import run_in_thread
from windlass.server.streaming.log_reader import File, Sealed, find_file, list_artifacts, live_logs

TAG = "files"

BYTES = "application/octet-stream"
# What is read at once, in the thread that is there already.
SMALL = 1 << 20
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")
_HEADERS = {
    "accept-ranges": "bytes",
    "content-security-policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
}
Offset = Annotated[int, Field(ge=0, le=1 << 60)]
Limit = Annotated[int, Field(ge=0, le=1 << 60)]
RangeHeader = Annotated[Annotated[str, Field(max_length=200)] | None, FromHeader]


class Files(TypedDict):
    files: list[FileView]


class Manifest(Body):
    files: list[ManifestFile]


@route("GET", f"{RUNS}/{{id}}/files", "runs.read", answers=Files, errors=(404,))
def find(request: ApiRequest, workspace: WorkspaceName, id: RunId) -> Response:
    run = request.run(id)
    store = request.context.store
    views = {path: file_view(artifact) for path, artifact in list_artifacts(store, run).items()}
    for path, size in live_logs(store, run).items():
        views.setdefault(path, {"path": path, "size": size, "is_live": True})
    return json_response({"files": [views[path] for path in sorted(views)]})


@route("GET", f"{RUNS}/{{id}}/files/{{path:path}}", "runs.read", answers=BYTES, errors=(404, 416))
def read(
    request: ApiRequest,
    workspace: WorkspaceName,
    id: RunId,
    path: FilePath,
    offset: Offset | None = None,
    limit: Limit | None = None,
    range: RangeHeader = None,
) -> Response:
    """The bytes of a file, or a part: by `Range`, or at most `limit` from `offset`."""
    run = request.run(id)
    file = find_file(request.context.store, run, path)
    if file is None:
        raise NotFound(f"Run {id} has no file {path}.", f"`windlass files {id}` lists those that it has.")
    return send_file(file, offset, limit, range)


@route(
    "PUT",
    f"{RUNS}/{{id}}/files/{{path:path}}",
    "runs.write",
    status=201,
    answers=FileView,
    errors=(404, 408, 409, 507),
    body_type="bytes",
)
async def write(request: ApiRequest, workspace: WorkspaceName, id: RunId, path: FilePath) -> Response:
    """Add a file to the run's record. A name can be written once."""
    run = await run_in_thread(request.authenticator.threads.requests, request.run, id)
    return await request.take(lambda incoming: _keep(request, run, path, incoming))


@route("GET", f"{RUNS}/{{id}}/snapshot", "runs.read", answers=SnapshotView, errors=(404,))
def snapshot(request: ApiRequest, workspace: WorkspaceName, id: RunId) -> Response:
    run = request.run(id)
    return json_response(snapshot_view(request.context.store.snapshots.get(_snapshot(run))))


@route(
    "POST",
    f"{RUNS}/{{id}}/snapshot",
    "runs.write",
    status=201,
    answers=SnapshotView,
    errors=(404, 409, 413, 507),
    body_type="json",
    is_large=True,
)
def attach_snapshot(request: ApiRequest, workspace: WorkspaceName, id: RunId, body: Manifest) -> Response:
    """Attach a snapshot to an interactive run, which can have one."""
    run = request.run(id)
    store = request.context.store
    if run.target:
        raise Conflict(f"Run {id} was submitted with its snapshot.")
    digest = keep_files(store, body.files)
    store.runs.attach_snapshot(workspace, id, digest)
    request.context.event_bus.publish_change(workspace, id)
    return json_response(snapshot_view(store.snapshots.get(digest)), 201)


@route("GET", f"{RUNS}/{{id}}/snapshot/{{path:path}}", "runs.read", answers=BYTES, errors=(404, 416))
def read_snapshot(
    request: ApiRequest, workspace: WorkspaceName, id: RunId, path: FilePath, range: RangeHeader = None
) -> Response:
    run = request.run(id)
    store = request.context.store
    for file in store.snapshots.get(_snapshot(run)).files:
        if file.path == path:
            return send_file(Sealed(store, path, file.size, file.digest), None, None, range)
    raise NotFound(f"The snapshot of run {id} has no file {path}.")


def send_file(file: File, offset: int | None, limit: int | None, wanted: str | None) -> Response:
    headers = {**_HEADERS, "content-disposition": f"attachment; filename*=UTF-8''{_quoted(file.path)}"}
    if file.digest is not None:
        headers["etag"] = f'"{file.digest}"'
    if offset is not None or limit is not None:
        start = min(offset or 0, file.size)
        return _send(file, start, min(file.size - start, file.size if limit is None else limit), 200, headers)
    found = _range(wanted, file.size)
    if found is None:
        return _send(file, 0, file.size, 200, headers)
    start, length = found
    if length <= 0:
        refusal = error_response(NotInFile(f"{file.path} has {file.size} bytes, and none of them in this range."))
        refusal.headers["content-range"] = f"bytes */{file.size}"
        return refusal
    headers["content-range"] = f"bytes {start}-{start + length - 1}/{file.size}"
    return _send(file, start, length, 206, headers)


def _send(file: File, start: int, length: int, status: int, headers: dict[str, str]) -> Response:
    if length <= SMALL:
        return Response(file.read(start, length), status, headers, BYTES)
    headers = {**headers, "content-length": str(length)}
    return StreamingResponse(file.chunks(start, length), status, headers, BYTES)


def _range(wanted: str | None, size: int) -> tuple[int, int] | None:
    """Start and length of a single requested range; None for anything else, which gets the whole file."""
    found = _RANGE.match(wanted or "")
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        length = min(int(found[2]), size)
        return size - length, length
    start = int(found[1])
    last = min(int(found[2]), size - 1) if found[2] else size - 1
    if found[2] and int(found[2]) < start:
        return None
    return start, last - start + 1


def _keep(request: ApiRequest, run: Run, path: str, incoming: Iterable[bytes]) -> Response:
    store = request.context.store
    digest, size = store.blobs.put(incoming, None)
    artifact = Artifact(path, digest, size, datetime.now(UTC))
    store.artifacts.add(run.id, artifact)
    request.context.event_bus.publish(run.id)
    return json_response(file_view(artifact), 201)


def _snapshot(run: Run) -> str:
    if run.snapshot is None:
        raise NotFound(f"Run {run.id} has no snapshot.")
    return run.snapshot


def _quoted(path: str) -> str:
    return quote(path.rpartition("/")[2], safe="")
