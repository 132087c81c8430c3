"""Lines of a run's log or other text file, by number, and a search in them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.errors import NotFound
from windlass.server.api.runs.history import RUNS
from windlass.server.http.parameters import FilePath, RunId, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.streaming.log_reader import File, find_file

TAG = "lines"

MOST_LINES = 10_000
LONGEST_SEARCH = 1000
_FAR = 1 << 53
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
    cut: list[CutLine]  # lines of which only the beginning is here
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
    file = _find(request, id, path)
    lines = _all(file)
    start = max(0, len(lines) + first) if first < 0 else min(first, len(lines))
    return json_response(
        {
            "path": path,
            "attempt": attempt or run.attempt,
            "first": start,
            "lines": lines[start : start + limit],
            "cut": [],
            "gap": None,
            "line_count": len(lines),
            "size": file.size,
            "is_complete": file.digest is not None,
        }
    )


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
    lines = _all(_find(request, id, path))
    wanted = text.casefold() if ignore_case else text
    matches = [
        {"line": number, "text": line}
        for number, line in enumerate(lines)
        if number > after and wanted in (line.casefold() if ignore_case else line)
    ]
    return json_response(
        {
            "path": path,
            "attempt": attempt or run.attempt,
            "matches": matches[:limit],
            "next": matches[limit - 1]["line"] if len(matches) > limit else None,
            "line_count": len(lines),
        }
    )


def _find(request: ApiRequest, id: str, path: str) -> File:
    file = find_file(request.context.store, request.run(id), path)
    if file is None:
        raise NotFound(f"Run {id} has no file {path}.", f"`windlass files {id}` lists those that it has.")
    return file


def _all(file: File) -> list[str]:
    return file.read(0, file.size).decode("utf-8", "replace").removesuffix("\n").split("\n")
