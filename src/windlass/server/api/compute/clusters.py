"""What can be done to the nodes of a cluster."""

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
from windlass.server.http.request import Call, answer
from windlass.server.http.routing import route

TAG = "clusters"


class Eviction(Body):
    node: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class Evicted(TypedDict):
    target: str
    nodes: list[str]


@route("POST", f"{TARGETS}/{{name}}/simulate-eviction", "targets.write", answers=Evicted, errors=(404, 409, 413, 422),
       takes="json")  # fmt: skip
def simulate_eviction(call: Call, workspace: WorkspaceName, name: TargetName, body: Eviction) -> Response:
    """Take a node of a cluster away, or all of them, as happens to nodes of low priority. Their runs get a notice and
    are queued again. `nodes` are those that go.
    """
    target = call.context.store.targets.get(workspace, name)
    if not issubclass(drivers.load(target.kind), Scalable):
        raise SpecNotSupported(f"{name} has no nodes that could be taken away.", "That is for clusters.")
    return answer({"target": name, "nodes": call.context.reconciler.evict_nodes(workspace, name, body.node)})
