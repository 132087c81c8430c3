"""Errors as HTTP responses: the status of each code, and errors that exist over HTTP only."""

from __future__ import annotations

import json
from typing import ClassVar

from pydantic import ValidationError
from starlette.responses import Response

from windlass.core.errors import Denied, InvalidRequest, WindlassError

STATUS = {
    "invalid_request": 400,
    "credentials_needed": 422,
    "not_found": 404,
    "already_exists": 409,
    "conflict": 409,
    "snapshot_incomplete": 409,
    "too_large": 413,
    "not_supported": 422,
    "denied": 403,
    "too_many": 429,
    "storage_full": 507,
    "target_error": 502,
    "target_rejected": 502,
    "target_unreachable": 503,
    "login_refused": 502,
    "target_quarantined": 409,
    "no_capacity": 503,
    "server_unavailable": 503,
    "internal_error": 500,
}


class Unauthenticated(Denied):
    status: ClassVar[int] = 401


class MethodNotAllowed(InvalidRequest):
    status: ClassVar[int] = 405


class TooSlow(InvalidRequest):
    """The body did not arrive in time, or the connection was lost in the middle of it."""

    status: ClassVar[int] = 408


class WrongMedia(InvalidRequest):
    status: ClassVar[int] = 415


class NotInFile(InvalidRequest):
    status: ClassVar[int] = 416


def sentence(error: ValidationError) -> str:
    """A sentence about invalid input: the first problem, and how many more there are."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    what = ".".join(_short(part) for part in first["loc"]) or "The body"
    message = str(first["msg"]).removeprefix("Value error, ")
    more = error.error_count() - 1
    return f"{what}: {message[0].lower()}{message[1:]}." + (f" There are {more} more problems." if more else "")


def _short(part: int | str) -> str:
    """A key of the input may have any length and any characters."""
    return ascii(part[:60])[1:-1] if isinstance(part, str) else str(part)


def error_response(error: WindlassError) -> Response:
    status = getattr(error, "status", None) or STATUS.get(error.code, 500)
    response = Response(json.dumps({"error": error.to_wire()}), status, media_type="application/json")
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if error.transient:
        response.headers["retry-after"] = "1"
    return response
