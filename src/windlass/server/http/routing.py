"""How a route is declared: with the permission that it needs. With one that declares none, no server starts."""

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
from windlass.server.http.errors import MethodNotAllowed, refuse, sentence
from windlass.server.http.parameters import Signature
from windlass.server.http.request import Call
from windlass.server.http.threads import run_in_thread
from windlass.server.security.authentication import Door
from windlass.server.security.principals import PERMISSIONS

log = logging.getLogger(__name__)

API = "/api/v1"
_KIND_OF_PART = re.compile(r":\w+}")
F = TypeVar("F", bound=Callable[..., Any])


class DigestPart(Convertor[str]):
    """So that `blobs/missing` is no digest."""

    regex = "[0-9a-f]{64}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("digest", DigestPart())


@dataclass(frozen=True, slots=True)
class Declared:
    method: str
    path: str
    permission: str
    status: int
    answers: Any  # the type of the JSON that it answers, or a media type
    errors: tuple[int, ...]
    takes: str  # "json", "metrics" (JSON with NaN), "bytes" or ""
    is_large: bool
    for_runs: bool  # whether a run's own token is good here

    @property
    def template(self) -> str:
        """The path as people write it."""
        return _KIND_OF_PART.sub("}", self.path)

    @property
    def kept_free(self) -> float | None:
        """The share of the disk reserve that it must leave free: all of it for new runs and their files, half of it
        for data of a run that exists. None for what must work on a full disk too: states, labels, settings.
        """
        if self.permission == "runs.submit" and self.status == 201:
            return 1.0
        adds_data = self.takes in ("bytes", "metrics") or self.is_large
        return 0.5 if self.permission == "runs.write" and adds_data else None


# Every function that answers a route.
DECLARED: dict[Callable[..., Any], Declared] = {}


def route(
    method: str,
    path: str,
    permission: str,
    *,
    status: int = 200,
    answers: Any = None,
    errors: tuple[int, ...] = (),
    takes: str = "",
    is_large: bool = False,
    for_runs: bool | None = None,
) -> Callable[[F], F]:
    def declare(function: F) -> F:
        own = "{id}" in path if for_runs is None else for_runs
        DECLARED[function] = Declared(method, API + path, permission, status, answers, errors, takes, is_large, own)
        return function

    return declare


class Route(StarletteRoute):
    """Lets in who may, reads strictly what they sent, answers; the only place where an error becomes an answer."""

    def __init__(self, function: Callable[..., Any], declared: Declared, door: Door, allowed: str) -> None:
        super().__init__(declared.path, self._answer, methods=[declared.method])
        self.declared = declared
        self.permission = declared.permission
        self._function = function
        self._signature = Signature(function, declared.path)
        self._door = door
        self._allowed = allowed
        self._is_async = inspect.iscoroutinefunction(function)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == self.declared.method:
            response = await self._answer(Request(scope, receive))
        else:
            response = refuse(MethodNotAllowed(f"{scope['path']} does not take {scope['method']}."))
            response.headers["allow"] = self._allowed
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        declared = self.declared
        call = Call(request.scope, request.receive, self._door, declared.permission, declared.kept_free)
        try:
            return await self._respond(call)
        except ValidationError as e:
            return refuse(InvalidRequest(sentence(e)))
        except WindlassError as e:
            if isinstance(e, InternalError):
                log.error("%s %s failed: %s", call.method, call.url.path, e)
            return refuse(e)
        except Exception:
            # A bug of ours: the log has it, the caller only learns that.
            log.exception("%s %s failed", call.method, call.url.path)
            return refuse(InternalError("The server made a mistake.", "Its log has the details."))

    async def _respond(self, call: Call) -> Response:
        await self._door.let_in(call, self.declared.for_runs)
        if self.declared.takes in ("json", "metrics"):
            settings = self._door.context.settings
            limit = settings.manifest_limit_bytes if self.declared.is_large else settings.json_limit_bytes
            await call.load_json(limit, self.declared.takes == "metrics")
        if self._is_async:
            response: Response = await self._function(call, **self._signature.values(call))
            return response
        return await run_in_thread(self._door.threads.requests, self._work, call)

    def _work(self, call: Call) -> Response:
        call.check_room()
        response: Response = self._function(call, **self._signature.values(call))
        return response


def make_routes(door: Door) -> list[Route]:
    methods: dict[str, list[str]] = {}
    for declared in DECLARED.values():
        methods.setdefault(declared.path, []).append(declared.method)
    return [
        Route(function, declared, door, ", ".join(methods[declared.path])) for function, declared in DECLARED.items()
    ]


def check_declared(routes: list[BaseRoute]) -> None:
    """Refuse to start with a route that nobody thought about."""
    for found in routes:
        if getattr(found, "permission", None) not in PERMISSIONS:
            raise RuntimeError(f"The route {getattr(found, 'path', found)} declares no permission that is known.")
