"""How a route is declared: with the permission that it needs. With one that declares none, no server starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, WithJsonSchema

from windlass.core import names
from windlass.core.errors import Denied, InvalidRequest
from windlass.server.auth import NOBODY, OPEN, PERMISSIONS, Doorkeeper
from windlass.server.call import Call, check_workspace
from windlass.server.refusals import Unauthenticated

API = "/api/v1"
F = TypeVar("F", bound=Callable[..., Any])


def _named(check: Callable[[str], str], pattern: str, longest: int) -> Any:
    """A name that core/names.py judges, so that a refusal is a sentence; the pattern is for the OpenAPI document."""
    schema = {"type": "string", "pattern": pattern, "minLength": 1, "maxLength": longest}
    return Annotated[str, AfterValidator(check), WithJsonSchema(schema)]


WorkspaceName = _named(names.workspace_name, r"^[a-zA-Z0-9][a-zA-Z0-9_\-]+$", 64)
ExperimentName = _named(names.experiment_name, r"^[a-zA-Z0-9][a-zA-Z0-9_\-]*$", 255)
TargetName = _named(names.target_name, r"^[a-zA-Z][a-zA-Z0-9\-]+$", 32)
RunId = _named(names.run_id, r"^[a-zA-Z0-9](\.?[a-zA-Z0-9_\-])*\.?$", 256)
FilePath = _named(names.relative_path, r"^[^/]", 4096)
Digest = _named(names.digest, r"^[0-9a-f]{64}$", 64)


class Body(BaseModel):
    """What a route takes: nothing that it does not know, and nothing turned into something else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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


_DECLARED: dict[Callable[..., Any], Declared] = {}


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
    def declare(endpoint: F) -> F:
        own = "{id}" in path if for_runs is None else for_runs
        _DECLARED[endpoint] = Declared(method, API + path, permission, status, answers, errors, takes, is_large, own)
        return endpoint

    return declare


class Route(APIRoute):
    """Lets in who may, reads the body strictly, then does as FastAPI does."""

    declared: Declared

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.declared = _DECLARED[endpoint]
        super().__init__(path, endpoint, **options)
        found = self.dependant.query_params
        self._queries = {field.alias: "list" in str(field.field_info.annotation) for field in found}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            call = Call(request.scope, request.receive)
            call.permission = self.declared.permission
            await self._let_in(call)
            self._check_query(call)
            await self._read(call)
            return await inner(call)

        return handle

    async def _let_in(self, call: Call) -> None:
        if self.declared.permission == OPEN:
            return
        secret = _bearer(call)
        doorkeeper: Doorkeeper = call.app.state.doorkeeper
        call.principal = doorkeeper.recall(secret) or NOBODY
        if call.principal is NOBODY:
            call.principal = await to_thread.run_sync(doorkeeper.admit, secret, call.address)
        if "workspace" in call.path_params:
            await self._enter(call)
        is_foreign = call.principal.run is not None and not self.declared.for_runs
        if not call.principal.may(self.declared.permission) or is_foreign:
            raise Denied(f"This needs the permission {self.declared.permission}, which your token does not have.")

    async def _enter(self, call: Call) -> None:
        if call.principal.may_see(call.workspace) and call.workspace in call.app.state.workspaces:
            return
        await to_thread.run_sync(check_workspace, call)

    def _check_query(self, call: Call) -> None:
        if not call.scope["query_string"]:
            return
        given = call.query_params.multi_items()
        if any("\0" in value for _, value in given):
            raise InvalidRequest("A query parameter has a NUL character.")
        for name, count in Counter(name for name, _ in given).items():
            if name not in self._queries:
                known = ", ".join(self._queries) or "none"
                raise InvalidRequest(f"There is no query parameter {ascii(name[:60])} here; known: {known}.")
            if count > 1 and not self._queries[name]:
                raise InvalidRequest(f"The query parameter {name} may stand only once.")

    async def _read(self, call: Call) -> None:
        if self.declared.takes in ("json", "metrics"):
            settings = call.context.settings
            limit = settings.manifest_limit_bytes if self.declared.is_large else settings.json_limit_bytes
            await call.load_json(limit, self.declared.takes == "metrics")


def add_routes(app: FastAPI) -> None:
    for endpoint, declared in _DECLARED.items():
        app.router.add_api_route(
            declared.path,
            endpoint,
            methods=[declared.method],
            status_code=declared.status,
            response_model=None,
            operation_id=f"{endpoint.__module__.rpartition('.')[2]}_{endpoint.__name__}",
            tags=[endpoint.__module__.rpartition(".")[2]],
            route_class_override=Route,
        )


def check_declared(app: FastAPI) -> None:
    """Refuse to start with a route that nobody thought about."""
    for found in app.routes:
        declared = getattr(found, "declared", None)
        if not isinstance(found, Route) or declared is None or declared.permission not in PERMISSIONS:
            raise RuntimeError(f"The route {getattr(found, 'path', found)} declares no permission that is known.")


def _bearer(call: Call) -> str:
    scheme, _, secret = call.headers.get("authorization", "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise Unauthenticated(
            "This needs a token: Authorization: Bearer ….",
            "The owner's stands in the file `token` of the server's home.",
        )
    return secret
