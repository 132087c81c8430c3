"""Quotas of cores by family of VM sizes with their use, and the list of VM sizes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import vm_sizes
from windlass.core.vm_sizes import VmSize
from windlass.server.clusters.quotas import cores_in_use
from windlass.server.http.parameters import Body, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
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
    price: float | None  # US dollars an hour; null if it is not known
    low_priority_price: float | None


class VmSizes(TypedDict):
    sizes: list[VmSizeView]


@route("GET", _QUOTAS, "targets.read", answers=QuotaViews)
def show_quotas(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List the quota of each family of VM sizes in cores (null: no limit), and its use by clusters of the workspace."""
    return json_response({"quotas": quota_views(request, workspace)})


@route("PUT", _QUOTAS, "quotas.write", answers=QuotaView, errors=(404, 413), body_type="json")
def set_quota(request: ApiRequest, workspace: WorkspaceName, body: QuotaChange) -> Response:
    """Limit the cores of a family, or with null remove the limit. Existing clusters stay as they are."""
    family = vm_sizes.require_family(body.family)
    request.context.store.quotas.set(workspace, family, body.cores, request.principal.name)
    return json_response(next(view for view in quota_views(request, workspace) if view["family"] == family))


@route("GET", "/workspaces/{workspace}/vm-sizes", "targets.read", answers=VmSizes)
def show_vm_sizes(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List the VM sizes of nodes: Azure's, and those of the setting `vm_sizes`.

    Prices are approximate, in US dollars per hour.
    """
    return json_response({"sizes": [_size_view(size) for size in vm_sizes.every_size()]})


def quota_views(request: ApiRequest, workspace: str) -> list[QuotaView]:
    limits = request.context.store.quotas.get(workspace)
    used = cores_in_use(request.context.store.targets.list(workspace))
    families = dict.fromkeys([*vm_sizes.families(), *limits])
    return [{"family": name, "limit": limits.get(name), "used": used.get(name, 0)} for name in families]


def _size_view(size: VmSize) -> VmSizeView:
    return {
        "name": size.name,
        "family": size.family,
        "cores": size.cores,
        "memory_gb": size.memory_gb,
        "gpus": size.gpus,
        "price": size.price_per_hour(),
        "low_priority_price": size.price_per_hour(is_low_priority=True),
    }
