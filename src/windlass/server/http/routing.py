"""Routes: their declaration, with the permission that each needs, and the dispatch of requests to their functions."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from windlass.core.errors import InternalError, InvalidRequest, WindlassError
from windlass.server.http.errors import MethodNotAllowed, error_response, sentence
from windlass.server.http.parameters import Signature
from windlass.server.http.request import ApiRequest
from windlass.server.http.threads import run_in_thread
from windlass.server.security.authentication import Authenticator
from windlass.server.security.principals import PERMISSIONS

log = logging.getLogger(__name__)

API = "/api/v1"
_KIND_OF_PART = re.compile(r":\w+}")
F = TypeVar("F", bound=Callable[..., Any])


class DigestPart(Convertor[str]):
    """Matches digests only, so that `blobs/missing` is another route."""

    regex = "[0-9a-f]{64}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("digest", DigestPart())


@dataclass(frozen=True, slots=True)
class RouteSpec:
    method: str
    path: str
    permission: str
    status: int
    answers: Any  # the type of the JSON in its response, or a media type
    errors: tuple[int, ...]
    body_type: str  # "json", "metrics" (JSON with NaN), "bytes" or ""
    is_large: bool
    for_runs: bool  # whether tokens of runs are accepted

    @property
    def template(self) -> str:
        """The path for the OpenAPI document."""
        return _KIND_OF_PART.sub("}", self.path)

    @property
    def kept_free(self) -> float | None:
        """The share of the disk reserve that a request must leave free: all of it for new runs and their files, half of
        it for data of a run that exists. None for routes that work on a full disk too: states, labels, settings.
        """
        if self.permission == "runs.submit" and self.status == 201:
            return 1.0
        adds_data = self.body_type in ("bytes", "metrics") or self.is_large
        return 0.5 if self.permission == "runs.write" and adds_data else None


# All routes, by their functions.
ROUTES: dict[Callable[..., Any], RouteSpec] = {}


def route(
    method: str,
    path: str,
    permission: str,
    *,
    status: int = 200,
    answers: Any = None,
    errors: tuple[int, ...] = (),
    body_type: str = "",
    is_large: bool = False,
    for_runs: bool | None = None,
) -> Callable[[F], F]:
    def declare(function: F) -> F:
        own = "{id}" in path if for_runs is None else for_runs
        ROUTES[function] = RouteSpec(method, API + path, permission, status, answers, errors, body_type, is_large, own)
        return function

    return declare


class Route(StarletteRoute):
    """Authenticates a request, validates it, calls the function; the only place where exceptions become responses."""

    def __init__(
        self, function: Callable[..., Any], spec: RouteSpec, authenticator: Authenticator, allowed: str
    ) -> None:
        super().__init__(spec.path, self._answer, methods=[spec.method])
        self.spec = spec
        self.permission = spec.permission
        self._function = function
        self._signature = Signature(function, spec.path)
        self._authenticator = authenticator
        self._allowed = allowed
        self._is_async = inspect.iscoroutinefunction(function)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == self.spec.method:
            response = await self._answer(Request(scope, receive))
        else:
            response = error_response(MethodNotAllowed(f"{scope['path']} does not take {scope['method']}."))
            response.headers["allow"] = self._allowed
        await response(scope, receive, send)

    async def _answer(self, raw: Request) -> Response:
        spec = self.spec
        request = ApiRequest(raw.scope, raw.receive, self._authenticator, spec.permission, spec.kept_free)
        try:
            return await self._respond(request)
        except ValidationError as e:
            return error_response(InvalidRequest(sentence(e)))
        except WindlassError as e:
            if isinstance(e, InternalError):
                log.error("%s %s failed: %s", request.method, request.url.path, e)
            return error_response(e)
        except Exception:
            # A bug: the log has the traceback, the response only says so.
            log.exception("%s %s failed", request.method, request.url.path)
            return error_response(InternalError("The server made a mistake.", "Its log has the details."))

    async def _respond(self, request: ApiRequest) -> Response:
        await self._authenticator.authenticate(request, self.spec.for_runs)
        if self.spec.body_type in ("json", "metrics"):
            settings = self._authenticator.context.settings
            limit = settings.manifest_limit_bytes if self.spec.is_large else settings.json_limit_bytes
            await request.load_json(limit, self.spec.body_type == "metrics")
        if self._is_async:
            response: Response = await self._function(request, **self._signature.values(request))
            return response
        return await run_in_thread(self._authenticator.threads.requests, self._work, request)

    def _work(self, request: ApiRequest) -> Response:
        request.check_room()
        response: Response = self._function(request, **self._signature.values(request))
        return response


def make_routes(authenticator: Authenticator) -> list[Route]:
    methods: dict[str, list[str]] = {}
    for spec in ROUTES.values():
        methods.setdefault(spec.path, []).append(spec.method)
    return [Route(function, spec, authenticator, ", ".join(methods[spec.path])) for function, spec in ROUTES.items()]


def check_permissions(routes: list[BaseRoute]) -> None:
    """Raise an error for a route without a known permission: the server must not start with it."""
    for found in routes:
        if getattr(found, "permission", None) not in PERMISSIONS:
            raise RuntimeError(f"The route {getattr(found, 'path', found)} declares no permission that is known.")
