"""Quotas of cores by family of VM sizes, what is used of them, and the sizes themselves."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import vm_sizes
from windlass.core.vm_sizes import VmSize
from windlass.server.clusters.quotas import cores_in_use
from windlass.server.http.parameters import Body, WorkspaceName
from windlass.server.http.request import Call, answer
from windlass.server.http.routing import route

TAG = "quotas"

MOST_CORES = 1_000_000_000
_QUOTAS = "/workspaces/{workspace}/quotas"


class QuotaChange(Body):
    family: Annotated[str, Field(min_length=1, max_length=100)]
    cores: Annotated[int, Field(ge=0, le=MOST_CORES)] | None


class QuotaView(TypedDict):
    family: str
    limit: int | None
    used: int


class QuotaViews(TypedDict):
    quotas: list[QuotaView]


class VmSizeView(TypedDict):
    name: str
    family: str
    cores: int
    memory_gb: float
    gpus: int
    price: float | None


class VmSizes(TypedDict):
    sizes: list[VmSizeView]


@route("GET", _QUOTAS, "targets.read", answers=QuotaViews)
def show_quotas(call: Call, workspace: WorkspaceName) -> Response:
    """The quota of each family of VM sizes in cores (null: no limit), and the cores that the clusters of the workspace
    may take of it.
    """
    return answer({"quotas": quota_views(call, workspace)})


@route("PUT", _QUOTAS, "quotas.write", answers=QuotaView, errors=(404, 413), takes="json")
def set_quota(call: Call, workspace: WorkspaceName, body: QuotaChange) -> Response:
    """Limit the cores of a family, or with null remove the limit. Clusters that are there stay as they are."""
    family = vm_sizes.require_family(body.family)
    call.context.store.quotas.set(workspace, family, body.cores, call.principal.name)
    return answer(next(view for view in quota_views(call, workspace) if view["family"] == family))


@route("GET", "/workspaces/{workspace}/vm-sizes", "targets.read", answers=VmSizes)
def show_vm_sizes(call: Call, workspace: WorkspaceName) -> Response:
    """The sizes that nodes may have: Azure's, and those of the setting `vm_sizes`. Prices are approximate, in US
    dollars per hour.
    """
    return answer({"sizes": [_size_view(size) for size in vm_sizes.every_size()]})


def quota_views(call: Call, workspace: str) -> list[QuotaView]:
    limits = call.context.store.quotas.get(workspace)
    used = cores_in_use(call.context.store.targets.list(workspace))
    families = dict.fromkeys([*vm_sizes.families(), *limits])
    return [{"family": name, "limit": limits.get(name), "used": used.get(name, 0)} for name in families]


def _size_view(size: VmSize) -> VmSizeView:
    return {
        "name": size.name,
        "family": size.family,
        "cores": size.cores,
        "memory_gb": size.memory_gb,
        "gpus": size.gpus,
        "price": size.price,
    }
