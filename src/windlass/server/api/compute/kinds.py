"""Kinds of targets: what they are configured by, and whether a configuration that is being typed is valid."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass import drivers
from windlass.core import names
from windlass.core.errors import Conflict, InvalidRequest, WindlassError
from windlass.drivers.base import Attachable, Driver, HasNodes, Managed, NoCredentials, Scalable, TargetGroup
from windlass.server.clusters.quotas import cluster_check
from windlass.server.execution.target_probe import kind_for_users, valid_config
from windlass.server.http.parameters import Body, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store import Store

TAG = "targets"

log = logging.getLogger(__name__)

KINDS = "/workspaces/{workspace}/kinds"
KindName = Annotated[str, Field(min_length=1, max_length=64)]


class KindView(TypedDict):
    kind: str
    title: str
    group: TargetGroup
    description: str
    is_attachable: bool
    is_managed: bool
    has_nodes: bool
    is_scalable: bool
    is_this_computer: bool
    config_schema: dict[str, Any]
    credentials_schema: dict[str, Any]
    mutable_settings: list[str]
    has_workspace_credential: bool


class Kinds(TypedDict):
    kinds: list[KindView]


class Draft(Body):
    """A configuration that is being typed. With a name, that is checked too."""

    config: dict[str, Any]
    name: Annotated[str, Field(max_length=1000)] | None = None


class FieldProblem(TypedDict):
    field: str  # of the configuration; "name", or "" for all of it
    message: str


class Problems(TypedDict):
    problems: list[FieldProblem]


@route("GET", KINDS, "targets.read", answers=Kinds)
def kinds(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List the kinds of targets, with the JSON schemas of their configuration and credentials.

    Kinds of packages that are not installed are left out.
    """
    return json_response({"kinds": kind_views()})


@route("POST", f"{KINDS}/{{kind}}/check", "targets.read", answers=Problems, errors=(404, 413, 422), body_type="json")
def check_draft(request: ApiRequest, workspace: WorkspaceName, kind: KindName, body: Draft) -> Response:
    """What is wrong with a configuration, for a form that is being filled in. Nothing is stored or connected to."""
    model = kind_for_users(kind).config_model
    problems = _config_problems(model, body.config)
    if body.name is not None:
        problems += _name_problems(request.context.store, workspace, body.name)
    if not problems:
        problems += _quota_problems(request.context.store, workspace, kind, body)
    return json_response({"problems": [{"field": field, "message": message} for field, message in problems]})


def kind_views() -> list[KindView]:
    """The kinds for users, as their drivers declare them."""
    return [_kind_view(driver) for driver in _installed() if not driver.is_internal]


def _installed() -> Iterator[type[Driver[Any]]]:
    for kind in drivers.known_kinds():
        try:
            yield drivers.load(kind)
        except WindlassError as e:
            log.warning("kind=%s is left out: %s", kind, e.message)


def _kind_view(driver: type[Driver[Any]]) -> KindView:
    credentials = getattr(driver, "credentials_model", NoCredentials)
    return {
        "kind": driver.kind,
        "title": driver.title or driver.kind.capitalize(),
        "group": driver.group or ("instances" if issubclass(driver, Managed) else "attached"),
        "description": inspect.cleandoc(driver.__doc__ or ""),
        "is_attachable": issubclass(driver, Attachable),
        "is_managed": issubclass(driver, Managed),
        "has_nodes": issubclass(driver, HasNodes),
        "is_scalable": issubclass(driver, Scalable),
        "is_this_computer": driver.is_this_computer,
        "config_schema": driver.config_model.model_json_schema(),
        "credentials_schema": credentials.model_json_schema(),
        "mutable_settings": sorted(driver.mutable_settings),
        "has_workspace_credential": getattr(driver, "workspace_credential", None) is not None,
    }


def _config_problems(model: type[BaseModel], config: dict[str, Any]) -> list[tuple[str, str]]:
    try:
        model.model_validate_json(json.dumps(config), strict=True)
    except ValidationError as e:
        errors = e.errors(include_url=False, include_context=False)
        return [(str(error["loc"][0])[:60] if error["loc"] else "", _message(error["msg"])) for error in errors]
    except InvalidRequest as e:  # some validators raise it: this ends the validation, and does not name the field
        problems = list(_field_problems(model, config))
        whole = ("", _message(e.message))
        return problems if any(message == whole[1] for _, message in problems) else [whole]
    return []


def _field_problems(model: type[BaseModel], config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with single fields."""
    for name, field in model.model_fields.items():
        if name in config:
            kind: Any = Annotated[field.annotation, field]
            try:
                TypeAdapter(kind).validate_json(json.dumps(config[name]), strict=True)
            except ValidationError as e:
                yield name, _message(e.errors(include_url=False, include_context=False)[0]["msg"])
            except InvalidRequest as e:
                yield name, _message(e.message)


def _message(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _name_problems(store: Store, workspace: str, name: str) -> list[tuple[str, str]]:
    try:
        names.target_name(name)
    except InvalidRequest as e:
        return [("name", e.message)]
    is_taken = any(target.name == name for target in store.targets.list(workspace))
    return [("name", f"There is a target {name} already.")] if is_taken else []


def _quota_problems(store: Store, workspace: str, kind: str, draft: Draft) -> list[tuple[str, str]]:
    check = cluster_check(draft.name or "", valid_config(kind, draft.config))
    try:
        if check is not None:
            check(store.targets.list(workspace), store.quotas.get(workspace))
    except Conflict as e:
        return [("", e.message)]
    return []
