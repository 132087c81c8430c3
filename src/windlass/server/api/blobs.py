"""Upload of bytes into the store, checked against their digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import names
from windlass.core.errors import InvalidRequest
from windlass.server.http.parameters import Body, Digest, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route

TAG = "blobs"

BLOBS = "/workspaces/{workspace}/blobs"
_HEAD = 64 + 8


class Digests(Body):
    digests: Annotated[list[Digest], Field(max_length=300_000)]


class BlobView(TypedDict):
    digest: str
    size: int


class Missing(TypedDict):
    missing: list[str]


class Stored(TypedDict):
    stored: int


@route(
    "PUT",
    f"{BLOBS}/{{digest:digest}}",
    "runs.submit",
    status=201,
    answers=BlobView,
    errors=(408, 507),
    body_type="bytes",
    for_runs=True,
)
async def put(request: ApiRequest, workspace: WorkspaceName, digest: Digest) -> Response:
    """Store bytes under their digest. Idempotent."""
    kept, size = await request.take(lambda incoming: request.context.store.blobs.put(incoming, digest))
    return json_response({"digest": kept, "size": size}, 201)


@route("POST", BLOBS, "runs.submit", status=201, answers=Stored, errors=(408, 507), body_type="bytes", for_runs=True)
async def put_many(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """Store many at once: for each its digest (64 hexadecimal digits), length (8 bytes, big-endian) and bytes."""
    return await request.take(lambda incoming: _keep(request, incoming))


@route(
    "POST",
    f"{BLOBS}/missing",
    "runs.submit",
    answers=Missing,
    errors=(413,),
    body_type="json",
    is_large=True,
    for_runs=True,
)
def missing(request: ApiRequest, workspace: WorkspaceName, body: Digests) -> Response:
    """Which of these digests the server does not have."""
    return json_response({"missing": request.context.store.blobs.missing(body.digests)})


def _keep(request: ApiRequest, incoming: Iterable[bytes]) -> Response:
    split = Split(incoming)
    request.context.store.blobs.put_many(iter(split))
    return json_response({"stored": split.count}, 201)


class Split:
    """Splits a body into its blobs, with one chunk in memory at a time."""

    def __init__(self, incoming: Iterable[bytes]) -> None:
        self._chunks = iter(incoming)
        self._left = b""
        self.count = 0

    def __iter__(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        while head := self._exactly(_HEAD):
            digest = names.digest(head[:64].decode("ascii", "replace"))
            rest = self._rest(int.from_bytes(head[64:], "big"))
            yield digest, rest
            for _ in rest:
                pass  # the store does not read a blob that it has
            self.count += 1

    def _rest(self, length: int) -> Iterator[bytes]:
        while length:
            part = self._left[:length] or next(self._chunks, b"")
            if not part:
                raise InvalidRequest(f"The body ended {length} bytes before the end of a blob.")
            part, over = part[:length], part[length:]
            self._left = self._left[length:] if self._left else over
            length -= len(part)
            yield part

    def _exactly(self, length: int) -> bytes:
        while len(self._left) < length and (more := next(self._chunks, b"")):
            self._left += more
        if self._left and len(self._left) < length:
            raise InvalidRequest("The body ended in the middle of a blob's digest and length.")
        head, self._left = self._left[:length], self._left[length:]
        return head
