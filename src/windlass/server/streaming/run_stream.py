"""Server-sent events of a run: state, log, metrics and events.

The client keeps its position (offset, counts, event number) and can resume with any server. A stream reads from the
store what is new since that position; the event bus says when to read again.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response

from windlass.core import names
from windlass.core.entities import Artifact, Run
from windlass.core.errors import InvalidRequest, NotFound
from windlass.server.api.runs.history import RUNS, run_details
from windlass.server.api.views import event_view, run_view
from windlass.server.execution.ingest import TAIL
from windlass.server.execution.outcome import BUILD_LOG, MAIN_LOG
from windlass.server.http.parameters import RunId, Text, WorkspaceName
from windlass.server.http.request import ApiRequest
from windlass.server.http.routing import route
from windlass.server.http.threads import run_in_thread
from windlass.server.streaming.event_stream import HEARTBEAT_SECONDS, EventStream, frame
from windlass.server.streaming.log_reader import find_artifact, find_log_of_attempt
from windlass.store import Store

TAG = "streams"

AUTO = "auto"
CHUNK = 1 << 18
MAX_POINTS = 5000
# Between two reads where another server may own the run: its commits do not reach our event bus.
SHARED_POLL_SECONDS = 0.5


class StreamCursor:
    """The position of one stream. `step` reads what is new once; called by one thread at a time."""

    def __init__(self, store: Store, run: Run, url: str, head_limit: int, attempt: int = 0) -> None:
        """`attempt` is the one whose log the client has read so far; 0 for the current one."""
        self._store = store
        self._run = run
        self._url = url
        self._head_limit = head_limit
        self._version = -1
        self._is_auto = False
        self._path: str | None = None
        self._offset = 0
        self._attempt = min(attempt or run.attempt, run.attempt)
        self._seen: dict[str, int] | None = None
        self._series: dict[str, int] = {}  # by series: the attempt that had logged to it last when it was read
        self._first_attempt = run.attempt
        self._after: int | None = None
        self.pause = 0.0
        self.has_more = False  # the last step reached its limit
        self.is_over = False

    def want_log(self, log: str, offset: str) -> None:
        path, colon, number = offset.rpartition(":")
        if not number.isascii() or not number.isdigit() or len(number) > 18:
            raise InvalidRequest(f"offset is a number of bytes, or the id of a log event: {ascii(offset[:60])}")
        self._is_auto = log == AUTO
        self._path = None if self._is_auto else names.relative_path(log)
        if colon:
            self._path = names.relative_path(path)
        self._offset = int(number)

    def want_metrics(self, seen: tuple[str, ...]) -> None:
        self._seen = {}
        for text in seen:
            name, _, count = text.rpartition(":")
            if not name or not count.isascii() or not count.isdigit() or len(count) > 18:
                raise InvalidRequest(f"seen is name:count: {ascii(text[:60])}")
            self._seen[name] = int(count)

    def want_events(self, after: int) -> None:
        self._after = after

    def step(self) -> list[bytes]:
        """The next frames, up to a limit. The state is read first: when it is final, the rest is complete."""
        run = self._run = self._store.runs.get(self._run.workspace, self._run.id)
        frames: list[bytes] = self._rest_of_attempt(run)
        if frames:
            self.has_more = True
            return frames
        if run.version != self._version:
            self._version = run.version
            frames.append(frame("state", run_view(run, self._url)))
        news = [*self._log(run), *self._metrics(), *self._events()]
        self.has_more = bool(news)
        if run.is_final and not news:
            self.is_over = True
            news.append(frame("end", run_details(self._store, run, self._url)))
        return frames + news

    # the log

    def _log(self, run: Run) -> list[bytes]:
        if not self._wants_log:
            return []
        if run.attempt != self._attempt:
            if not self._has_begun(run):
                return []
            return self._begin_attempt(run.attempt)
        self._choose(run)
        frames = self._stored(run) if run.is_final else self._live(run)
        if not frames and self._is_auto and self._path == BUILD_LOG and self._exists(run, MAIN_LOG):
            self._path, self._offset = MAIN_LOG, 0
            return self._log(run)
        return frames

    def _rest_of_attempt(self, run: Run) -> list[bytes]:
        """The unread rest of the log of an earlier attempt, then of the attempts between it and the current one."""
        while self._wants_log and self._attempt < run.attempt:
            path = self._path or (MAIN_LOG if self._is_auto else "")
            frames = self._sealed(path, find_log_of_attempt(self._store, run, self._attempt, path))
            if frames or self._attempt + 1 == run.attempt:
                return frames
            return self._begin_attempt(self._attempt + 1)
        return []

    def _begin_attempt(self, attempt: int) -> list[bytes]:
        self._attempt, self._offset = attempt, 0
        self._path = None if self._is_auto else self._path
        return [frame("attempt", {"attempt": attempt})]

    def _has_begun(self, run: Run) -> bool:
        """Whether there is a log of the current attempt. If it was never started, the run ends with the files of the
        one before, which the client has read.
        """
        if not run.is_final:
            return any(self._exists(run, path) for path in self._paths())
        return any(find_log_of_attempt(self._store, run, self._attempt, path) is not None for path in self._paths())

    def _paths(self) -> tuple[str, ...]:
        return (MAIN_LOG, BUILD_LOG) if self._is_auto or self._path is None else (self._path,)

    @property
    def _wants_log(self) -> bool:
        return self._is_auto or self._path is not None

    def _choose(self, run: Run) -> None:
        if self._path is None:
            self._path = next((path for path in (MAIN_LOG, BUILD_LOG) if self._exists(run, path)), None)

    def _exists(self, run: Run, path: str) -> bool:
        if run.is_final:
            return find_artifact(self._store, run, path) is not None
        return self._store.logs.size(run.id, run.attempt, path) > 0

    def _live(self, run: Run) -> list[bytes]:
        """The next bytes of a growing log. Of one that reached its cap only the head: the rest is not in order yet."""
        limit = min(CHUNK, self._head_limit - self._offset)
        if self._path is None or limit <= 0:
            return []
        try:
            data = self._store.logs.read(run.id, run.attempt, self._path, self._offset, limit)
        except NotFound:
            return []
        return self._take(self._path, data)

    def _stored(self, run: Run) -> list[bytes]:
        return [] if self._path is None else self._sealed(self._path, find_artifact(self._store, run, self._path))

    def _sealed(self, path: str, artifact: Artifact | None) -> list[bytes]:
        if artifact is None:
            return []
        gap_end = artifact.gap_offset + artifact.gap_length
        if artifact.gap_length and artifact.gap_offset <= self._offset < gap_end:
            missing, self._offset = {"offset": self._offset, "length": gap_end - self._offset}, gap_end
            return [frame("gap", {"path": path, **missing}, f"{path}:{gap_end}")]
        skipped, limit = (
            (artifact.gap_length, CHUNK) if self._offset >= gap_end else (0, artifact.gap_offset - self._offset)
        )
        if self._offset - skipped >= artifact.size:
            return []
        with self._store.blobs.open(artifact.digest) as file:
            file.seek(self._offset - skipped)
            return self._take(path, file.read(min(CHUNK, limit)))

    def _take(self, path: str, data: bytes) -> list[bytes]:
        if not data:
            return []
        start, self._offset = self._offset, self._offset + len(data)
        body = {"path": path, "offset": start, "data": base64.b64encode(data).decode("ascii")}
        return [frame("log", body, f"{path}:{self._offset}")]

    # metrics and events

    def _metrics(self) -> list[bytes]:
        frames: list[bytes] = []
        if self._seen is None:
            return frames
        self._restart_cut_series(self._seen)
        for name, count in self._store.metrics.counts(self._run.id).items():
            known = self._seen.get(name, 0)
            if known < count and len(frames) < MAX_POINTS:
                frames += self._points(name, known)
        return frames

    def _restart_cut_series(self, seen: dict[str, int]) -> None:
        """Send a series that a later attempt logs to again from its beginning: points of it may be gone."""
        if self._run.attempt == 1:
            return
        for name, attempt in self._store.metrics.attempts(self._run.id).items():
            if attempt > self._series.get(name, self._first_attempt):
                seen[name] = 0
            self._series[name] = attempt

    def _points(self, name: str, known: int) -> list[bytes]:
        series = self._store.metrics.read(self._run.id, [name], known, MAX_POINTS).get(name)
        assert self._seen is not None
        if series is None:
            return []
        frames = []
        for index, (value, moment, step) in enumerate(series.values, known):
            line: dict[str, Any] = {"n": name, "v": value, "t": moment, "i": index}
            if series.kind != "scalar":
                line["k"] = series.kind
            if step is not None:
                line["s"] = step
            frames.append(frame("metric", line))
        self._seen[name] = known + len(frames)
        return frames

    def _events(self) -> list[bytes]:
        if self._after is None:
            return []
        found = self._store.runs.events(self._run.id, self._after)
        if found:
            self._after = found[-1].seq
        return [frame("event", event_view(event)) for event in found]


class RunStream(EventStream):
    """The stream of a run."""

    def __init__(self, request: ApiRequest, cursor: StreamCursor, run_id: str) -> None:
        poll = SHARED_POLL_SECONDS if request.context.store.is_shared else HEARTBEAT_SECONDS
        super().__init__(request, cursor, run_id, poll)
        self._run_id = run_id

    def on_subscribed(self) -> None:
        self._request.context.targets.read_now(self._run_id)


@route("GET", f"{RUNS}/{{id}}/stream", "runs.read", answers="text/event-stream", errors=(404,))
async def follow(
    request: ApiRequest,
    workspace: WorkspaceName,
    id: RunId,
    log: Annotated[str, Field(max_length=4096)] = "",
    offset: Annotated[str, Field(max_length=4200)] = "0",
    metrics: bool = False,
    seen: Annotated[tuple[Text, ...], Field(max_length=1000)] = (),
    events: bool = False,
    after: Annotated[int, Field(ge=0, le=1 << 53)] = 0,
    attempt: Annotated[int, Field(ge=0, le=1 << 31)] = 0,
) -> Response:
    """Server-sent events until the run has ended: state, log, attempt, metric, event, gap, end. `offset` is in the log
    of `attempt`; it counts from 0 in each attempt, which an event `attempt` begins.
    """
    run = await run_in_thread(request.authenticator.threads.requests, request.run, id)
    cap = request.context.settings.log_cap_bytes
    cursor = StreamCursor(request.context.store, run, request.context.url, cap - min(TAIL, cap // 4), attempt)
    if log:
        cursor.want_log(log, offset)
    if metrics:
        cursor.want_metrics(seen)
    if events:
        cursor.want_events(after)
    return RunStream(request, cursor, id)
