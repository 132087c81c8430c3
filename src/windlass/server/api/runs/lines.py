"""Lines of a run's log or other text file, by number, and a search in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.errors import InvalidRequest, NotFound
from windlass.server.api.runs.history import RUNS
from windlass.server.http.parameters import FilePath, RunId, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.streaming.line_index import FileLines, FileMoved
from windlass.server.streaming.log_reader import File, find_file_of_attempt

TAG = "lines"

MOST_LINES = 10_000
LONGEST_SEARCH = 1000
_FAR = 1 << 53
_TRIES = 3
First = Annotated[int, Field(ge=-MOST_LINES, le=_FAR)]
Attempt = Annotated[int, Field(ge=0, le=1 << 31)]


class CutLine(TypedDict):
    line: int
    size: int  # of the whole line, in bytes


class LogGap(TypedDict):
    """Bytes that are not kept, since the log reached its limit: they were in this line."""

    line: int
    size: int


class Lines(TypedDict):
    path: str
    attempt: int
    first: int
    lines: list[str]
    cut: list[CutLine]  # lines of which only a part is here
    gap: LogGap | None
    line_count: int
    size: int
    is_complete: bool  # no more lines will come


class LineMatch(TypedDict):
    line: int
    text: str  # the line, or the part of a long one around the match


class Found(TypedDict):
    path: str
    attempt: int
    matches: list[LineMatch]
    next: int | None
    line_count: int


@route("GET", f"{RUNS}/{{id}}/lines", "runs.read", answers=Lines, errors=(404,))
def read(
    request: ApiRequest,
    workspace: WorkspaceName,
    id: RunId,
    path: FilePath,
    first: First = 0,
    limit: Annotated[int, Field(ge=1, le=MOST_LINES)] = 1000,
    attempt: Attempt = 0,
) -> Response:
    """Lines of a text file by number, from 0 on. A negative `first` counts from the end: -1000 for the last ones.

    `attempt` is one of the run's attempts, 0 for the current one. A line is text up to a line feed: carriage returns
    in it stay. The last line may be incomplete, and goes on later.
    """
    run = request.run(id)

    def answer(file: File, lines: FileLines) -> dict[str, Any]:
        start = max(0, lines.count + first) if first < 0 else min(first, lines.count)
        texts, cut = lines.read(start, limit)
        gap = None if lines.gap_line is None else {"line": lines.gap_line, "size": file.gap_length}
        return {
            "path": path,
            "attempt": attempt or run.attempt,
            "first": start,
            "lines": texts,
            "cut": [{"line": each.line, "size": each.size} for each in cut],
            "gap": gap,
            "line_count": lines.count,
            "size": file.size,
            "is_complete": file.digest is not None,
        }

    return json_response(_with_lines(request, id, attempt, path, answer))


@route("GET", f"{RUNS}/{{id}}/lines/search", "runs.read", answers=Found, errors=(404,))
def search(
    request: ApiRequest,
    workspace: WorkspaceName,
    id: RunId,
    path: FilePath,
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_SEARCH)],
    after: Annotated[int, Field(ge=-1, le=_FAR)] = -1,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ignore_case: bool = False,
    attempt: Attempt = 0,
) -> Response:
    """The lines after number `after` that have this text. `next` is the `after` of the next request: null at the end.

    A request looks through a part of a large file, so there may be a `next` without matches.
    """
    run = request.run(id)
    if "\n" in text:
        raise InvalidRequest("A search is for a text within one line.")

    def answer(file: File, lines: FileLines) -> dict[str, Any]:
        matches, following = lines.search(text, ignore_case, after, limit)
        return {
            "path": path,
            "attempt": attempt or run.attempt,
            "matches": [{"line": match.line, "text": match.text} for match in matches],
            "next": following,
            "line_count": lines.count,
        }

    return json_response(_with_lines(request, id, attempt, path, answer))


def _with_lines(
    request: ApiRequest, id: str, attempt: int, path: str, answer: Callable[[File, FileLines], dict[str, Any]]
) -> dict[str, Any]:
    """What `answer` makes of the lines of a file. A live log may be sealed meanwhile; then it is opened again."""
    for _ in range(_TRIES):
        file = find_file_of_attempt(request.context.store, request.run(id), attempt, path)
        if file is None:
            break
        with suppress(FileMoved):
            return answer(file, request.context.line_indexes.lines(file))
    of = f"attempt {attempt} of run {id}" if attempt else f"run {id}"
    raise NotFound(f"There is no file {path} of {of}.", f"`windlass files {id}` lists those that there are.")
