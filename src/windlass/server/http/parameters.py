"""Parameters of routes, read from the signatures of their functions: path, query, headers and body.

A framework would do this too, but adds a third to the server's start.
"""

from __future__ import annotations

import inspect
import typing
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from windlass.core import names
from windlass.core.errors import InvalidRequest

if TYPE_CHECKING:
    from windlass.server.http.request import ApiRequest


class Body(BaseModel):
    """A request body: unknown keys are refused, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class FromHeader:
    """Marks a parameter that comes from the header of its name, with `-` for `_`."""


def _shape(pattern: str, longest: int) -> WithJsonSchema:
    """For the OpenAPI document only; core/names.py validates, so that an error is a sentence."""
    return WithJsonSchema({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": longest})


WorkspaceName = Annotated[str, AfterValidator(names.workspace_name), _shape(r"^[a-zA-Z0-9][a-zA-Z0-9_\-]+$", 64)]
ExperimentName = Annotated[str, AfterValidator(names.experiment_name), _shape(r"^[a-zA-Z0-9][a-zA-Z0-9_\-]*$", 255)]
TargetName = Annotated[str, AfterValidator(names.target_name), _shape(r"^[a-zA-Z][a-zA-Z0-9\-]+$", 32)]
SecretName = Annotated[str, AfterValidator(names.secret_name), _shape(r"^[a-zA-Z0-9_][a-zA-Z0-9_\-]*$", 127)]
ConnectionName = Annotated[str, AfterValidator(names.connection_name), _shape(r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$", 64)]
RunConfigurationName = Annotated[
    str, AfterValidator(names.run_configuration_name), _shape(r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$", 64)
]
MemberName = Annotated[str, AfterValidator(names.member_name), _shape(r"^[a-zA-Z0-9_][a-zA-Z0-9_.@+\-]*$", 64)]
EnvironmentName = Annotated[str, AfterValidator(names.environment_name), _shape(r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$", 255)]
ModelName = Annotated[str, AfterValidator(names.model_name), _shape(r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$", 255)]
RunId = Annotated[str, AfterValidator(names.run_id), _shape(r"^[a-zA-Z0-9](\.?[a-zA-Z0-9_\-])*\.?$", 256)]
FilePath = Annotated[str, AfterValidator(names.relative_path), _shape(r"^[^/]", 4096)]
Digest = Annotated[str, AfterValidator(names.digest), _shape(r"^[0-9a-f]{64}$", 64)]

# Idempotency key of a request that creates something: the same key is the same request.
Key = Annotated[Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$")] | None, FromHeader]
Text = Annotated[str, Field(max_length=500)]
Texts = Annotated[tuple[Text, ...], Field(max_length=50)]
TagKey = Annotated[str, Field(min_length=1, max_length=names.MAX_TAG_KEY), AfterValidator(names.tag_key)]
TagValue = Annotated[str, Field(max_length=names.MAX_TAG_VALUE), AfterValidator(names.tag_value)]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    source: str  # "path", "query" or "header"
    kind: Any
    default: Any

    @property
    def wire_name(self) -> str:
        return self.name.replace("_", "-") if self.source == "header" else self.name

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def is_list(self) -> bool:
        bare = typing.get_args(self.kind)[0] if typing.get_origin(self.kind) is Annotated else self.kind
        return typing.get_origin(bare) in (tuple, list)


class Signature:
    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._function = function
        self._path = path

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        kinds = typing.get_type_hints(self._function, include_extras=True)
        return {name: kind for name, kind in kinds.items() if name not in ("request", "return")}

    @cached_property
    def body(self) -> type[Body] | None:
        return self._kinds.get("body")

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        defaults = {name: p.default for name, p in inspect.signature(self._function).parameters.items()}
        return {
            name: Parameter(name, self._source(name, kind), kind, defaults[name])
            for name, kind in self._kinds.items()
            if name != "body"
        }

    def _source(self, name: str, kind: Any) -> str:
        if f"{{{name}}}" in self._path or f"{{{name}:" in self._path:
            return "path"
        return "header" if FromHeader in getattr(kind, "__metadata__", ()) else "query"

    @cached_property
    def _model(self) -> type[BaseModel]:
        fields: dict[str, Any] = {
            f"p_{p.name}": (p.kind, Field(... if p.is_required else p.default, alias=p.name))
            for p in self.parameters.values()
        }
        return create_model("Parameters", **fields)

    def values(self, request: ApiRequest) -> dict[str, Any]:
        """The arguments for the function. Raises pydantic's ValidationError."""
        found: dict[str, Any] = {}
        query = self._query(request)
        if self.parameters:
            model = self._model.model_validate({**request.path_params, **self._headers(request), **query})
            found = {name.removeprefix("p_"): value for name, value in model}
        if self.body is not None:
            found["body"] = self.body.model_validate(request.value)
        return found

    def _headers(self, request: ApiRequest) -> dict[str, str]:
        wanted = [p for p in self.parameters.values() if p.source == "header"]
        return {p.name: request.headers[p.wire_name] for p in wanted if p.wire_name in request.headers}

    def _query(self, request: ApiRequest) -> dict[str, Any]:
        if not request.scope["query_string"]:
            return {}
        given = request.query_params.multi_items()
        if any("\0" in value for _, value in given):
            raise InvalidRequest("A query parameter has a NUL character.")
        return {name: self._one(request, name, count) for name, count in Counter(name for name, _ in given).items()}

    def _one(self, request: ApiRequest, name: str, count: int) -> Any:
        parameter = self.parameters.get(name)
        if parameter is None or parameter.source != "query":
            known = ", ".join(p.name for p in self.parameters.values() if p.source == "query") or "none"
            raise InvalidRequest(f"There is no query parameter {ascii(name[:60])} here; known: {known}.")
        if parameter.is_list:
            return request.query_params.getlist(name)
        if count > 1:
            raise InvalidRequest(f"The query parameter {name} may stand only once.")
        return request.query_params[name]
