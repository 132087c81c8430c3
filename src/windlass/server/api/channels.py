"""Channels: shells, commands and TCP connections that members open where a run is, or on the machine of a target."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from windlass.core.entities import Run
from windlass.core.errors import Conflict, InvalidRequest, WindlassError
from windlass.core.states import RunState
from windlass.drivers.base import ChannelRequest
from windlass.server.api.compute.targets import TARGETS
from windlass.server.api.runs.history import RUNS
from windlass.server.http.bodies import Incoming
from windlass.server.http.parameters import Body, RunId, TargetName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.http.threads import run_in_thread
from windlass.server.streaming.channels import (
    HEARTBEAT,
    MAX_RETAINED,
    OpenChannel,
    Opening,
    frame,
    shown_command,
)

TAG = "channels"

CHANNELS = "/workspaces/{workspace}/channels"
FRAMES = "application/vnd.windlass.channel"
MAX_INPUT = 1 << 20
INPUT_SECONDS = 10.0
HEARTBEAT_SECONDS = 15.0
_PIECE = 1 << 17
_HEADERS = [
    (b"content-type", FRAMES.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Word = Annotated[str, Field(max_length=100_000)]  # JSON with NUL is refused for all routes
Cells = Annotated[int, Field(ge=1, le=9999)]
Position = Annotated[int, Field(ge=0, le=1 << 60)]
ChannelId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class TerminalSize(Body):
    columns: Cells
    rows: Cells


class NewChannel(Body):
    command: Annotated[list[Word], Field(max_length=10_000)] = []
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    terminal: TerminalSize | None = None
    term: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+\-]{0,63}$")] | None = None
    rank: Annotated[int, Field(ge=0, le=100_000)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.port is not None and (self.command or self.terminal):
            raise ValueError("a port is given alone: a connection has neither a command nor a terminal")
        return self

    def request(self) -> ChannelRequest:
        size = (self.terminal.columns, self.terminal.rows) if self.terminal else None
        return ChannelRequest(tuple(self.command), self.port, size, self.term or "", self.rank)

    def details(self) -> dict[str, Any]:
        """What the audit log has of it."""
        if self.port is not None:
            return {"port": self.port}
        return {"command": shown_command(tuple(self.command)), "terminal": self.terminal is not None}


class ChannelView(TypedDict):
    id: str


class Written(TypedDict):
    offset: int


@route(
    "POST", f"{RUNS}/{{id}}/channels", "runs.exec", status=201, answers=ChannelView,
    errors=(404, 409, 422), body_type="json", for_runs=False,
)  # fmt: skip
def open_in_run(request: ApiRequest, workspace: WorkspaceName, id: RunId, body: NewChannel) -> Response:
    """Open a shell, a command or a TCP connection where a run is: with its account, folder, variables and limits, and
    in its container if it has one. Members for their own runs, owners for all.

    With `terminal`, the command has one of that size; without, its output and errors come separately.
    """
    run = request.run(id)
    _check_running(run)
    return _open(request, body, run.target, run)


@route(
    "POST", f"{TARGETS}/{{name}}/channels", "targets.exec", status=201, answers=ChannelView,
    errors=(404, 409, 422), body_type="json", for_runs=False,
)  # fmt: skip
def open_on_target(request: ApiRequest, workspace: WorkspaceName, name: TargetName, body: NewChannel) -> Response:
    """Open a shell, a command or a TCP connection on the machine of a target, as the account that runs there have."""
    if body.rank is not None:
        raise InvalidRequest("A rank is one of a run.", "Leave `rank` out.")
    request.context.store.targets.get(workspace, name)
    return _open(request, body, name, None)


@route("GET", f"{CHANNELS}/{{id}}/output", "runs.exec", answers=FRAMES, errors=(404, 409), for_runs=False)
async def read(request: ApiRequest, workspace: WorkspaceName, id: ChannelId, after: Position = 0) -> Response:
    """The channel's output as frames: a byte for the kind (1 stdout, 2 stderr, 3 the end as JSON, 0 a heartbeat), three
    zeros, the length in four bytes (big-endian), and the bytes.

    `after` is the number of bytes of frames that the client has, without heartbeats; it confirms them. A response ends
    after about a megabyte: the client then asks again. A channel ends 30 seconds after its client was gone.
    """
    channel = request.context.channels.get(workspace, id, request.principal)
    channel.confirm(after)
    channel.read(after, 0)
    return OutputStream(request, channel, after)


@route(
    "POST", f"{CHANNELS}/{{id}}/input", "runs.exec", answers=Written, errors=(404, 408, 409, 413),
    body_type="bytes", for_runs=False,
)  # fmt: skip
async def write(
    request: ApiRequest, workspace: WorkspaceName, id: ChannelId, offset: Position, last: bool = False
) -> Response:
    """Write input, in order: `offset` is the number of bytes before. The answer has the offset of what follows, which
    is not the end of the body if the command takes its input slowly. `last`: no input follows.
    """
    channel = request.context.channels.get(workspace, id, request.principal)
    data = await Incoming(request.receive, MAX_INPUT).whole()
    deadline = time.monotonic() + INPUT_SECONDS
    threads, done = request.authenticator.threads.requests, offset
    with request.context.event_bus.subscribe(channel.id) as subscription:
        while True:
            done = await run_in_thread(threads, channel.write, done, data[done - offset :], last)
            left = deadline - time.monotonic()
            if done >= offset + len(data) or left <= 0 or request.context.event_bus.is_closed:
                return json_response({"offset": done})
            await subscription.wait(left)


@route(
    "PUT", f"{CHANNELS}/{{id}}/terminal", "runs.exec", answers=ChannelView, errors=(404,),
    body_type="json", for_runs=False,
)  # fmt: skip
def resize(request: ApiRequest, workspace: WorkspaceName, id: ChannelId, body: TerminalSize) -> Response:
    """Set the size of the terminal."""
    channel = request.context.channels.get(workspace, id, request.principal)
    channel.resize(body.columns, body.rows)
    return json_response({"id": id})


@route("DELETE", f"{CHANNELS}/{{id}}", "runs.exec", answers=ChannelView, errors=(404,), for_runs=False)
def close(request: ApiRequest, workspace: WorkspaceName, id: ChannelId) -> Response:
    """End a channel: every process that it has started is killed."""
    channel = request.context.channels.get(workspace, id, request.principal)
    channel.close("The connection was closed.")
    return json_response({"id": id})


def _open(request: ApiRequest, body: NewChannel, target: str, run: Run | None) -> Response:
    context, name = request.context, request.principal.name
    object_ = f"run/{run.id}" if run is not None else f"target/{target}"
    channel = context.channels.begin(Opening(request.workspace, name, object_, body.details()))
    try:
        context.targets.open_channel(request.workspace, target, run, body.request(), channel)
    except WindlassError as e:
        context.channels.cancel(channel, e)
        raise
    return json_response({"id": channel.id}, 201)


def _check_running(run: Run) -> None:
    """Refuse a run in which nothing can be opened, with what to do instead."""
    if not run.target:
        raise Conflict(f"Run {run.id} is interactive: its script runs where it was started, not on a target.")
    if run.is_final or run.state is RunState.FINALIZING:
        raise Conflict(
            f"Run {run.id} has ended ({run.state.value}): nothing can be opened in it any more.",
            f"`windlass download {run.id}` has its files; `windlass rerun {run.id}` runs it again.",
        )
    if run.state not in (RunState.RUNNING, RunState.NOT_RESPONDING):
        raise Conflict(
            f"The script of run {run.id} was not started yet: it is {run.state.value}.",
            f"`windlass logs -f {run.id}` follows it until it runs.",
        )


class OutputStream(Response):
    """Sends frames until the channel or the token ends, the client disconnects or asks again, or enough was sent."""

    media_type = FRAMES

    def __init__(self, request: ApiRequest, channel: OpenChannel, position: int) -> None:
        self.background = None
        self._request = request
        self._channel = channel
        self._position = position
        self._first = position
        channel.readers += 1
        self._number = channel.readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        channel = self._channel
        channel.left_at = None
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        sending = asyncio.create_task(self._stream(send))
        disconnect = asyncio.create_task(_until_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            disconnect.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)
            if self._is_last:
                channel.left_at = time.monotonic()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @property
    def _is_last(self) -> bool:
        """Whether no other request has begun to read the channel since."""
        return self._channel.readers == self._number

    async def _stream(self, send: Send) -> None:
        channel, event_bus = self._channel, self._request.context.event_bus
        threads = self._request.authenticator.threads.requests
        sent_at = time.monotonic()
        with event_bus.subscribe(channel.id) as subscription:
            while self._is_last and not event_bus.is_closed:
                left = MAX_RETAINED - (self._position - self._first)
                data, is_over = channel.read(self._position, min(left, _PIECE))
                if data or time.monotonic() - sent_at >= HEARTBEAT_SECONDS - 1:
                    await send({"type": "http.response.body", "body": data or frame(HEARTBEAT), "more_body": True})
                    sent_at = time.monotonic()
                if data:
                    self._position += len(data)
                    credit = channel.passed_on(self._position)
                    if credit:
                        await run_in_thread(threads, channel.confirm_to_driver, credit)
                if is_over or self._position - self._first >= MAX_RETAINED:
                    return
                if not data:
                    if not await self._request.authenticator.still_valid(self._request):
                        await run_in_thread(threads, channel.close, "The token that opened it is not valid any more.")
                        return
                    await subscription.wait(HEARTBEAT_SECONDS)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
