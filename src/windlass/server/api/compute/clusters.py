"""Operations on the nodes of a cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass import drivers
from windlass.core.errors import SpecNotSupported
from windlass.drivers.base import Scalable
from windlass.server.api.compute.targets import TARGETS
from windlass.server.http.parameters import Body, TargetName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route

TAG = "clusters"


class Eviction(Body):
    node: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class Evicted(TypedDict):
    target: str
    nodes: list[str]


@route("POST", f"{TARGETS}/{{name}}/simulate-eviction", "targets.write", answers=Evicted, errors=(404, 409, 413, 422),
       body_type="json")  # fmt: skip
def simulate_eviction(request: ApiRequest, workspace: WorkspaceName, name: TargetName, body: Eviction) -> Response:
    """Evict a node of a cluster, or all, as happens to nodes of low priority.

    Their runs get a notice and are queued again. `nodes` are the evicted ones.
    """
    target = request.context.store.targets.get(workspace, name)
    if not issubclass(drivers.load(target.kind), Scalable):
        raise SpecNotSupported(f"{name} has no nodes that could be taken away.", "That is for clusters.")
    return json_response({"target": name, "nodes": request.context.reconciler.evict_nodes(workspace, name, body.node)})
