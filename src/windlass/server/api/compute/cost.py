"""Cost of runs: the time that they had nodes, at the price of the VM size of their target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import vm_sizes
from windlass.core.codec import format_time
from windlass.core.entities import Target
from windlass.core.states import RunState
from windlass.server.api.runs.history import moment
from windlass.server.api.views import Time
from windlass.server.http.parameters import Text, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store.catalog.node_usage import FormerTarget, NodeTime

TAG = "cost"

_HOUR = 3600.0


class RunCost(TypedDict):
    run: str
    experiment: str
    target: str
    submitted_by: str
    state: RunState
    created_at: Time
    node_seconds: float
    cost: float | None


class TargetCost(TypedDict):
    target: str
    vm_size: str | None
    vm_priority: str | None
    price_per_hour: float | None
    runs: int
    node_seconds: float
    cost: float | None


class Cost(TypedDict):
    currency: str
    targets: list[TargetCost]
    runs: list[RunCost]


@route("GET", "/workspaces/{workspace}/cost", "runs.read", answers=Cost)
def cost(
    request: ApiRequest, workspace: WorkspaceName, since: Text | None = None, target: Text | None = None
) -> Response:
    """List node-seconds and cost of runs that had nodes, and of their targets, the most expensive first.

    `since` limits the list to runs submitted after that time. Prices are approximate; null for a size without a price.
    A target that was deleted and created again with another size is listed once for each size.
    """
    store = request.context.store
    sizes = _Sizes(store.targets.list(workspace), store.node_usage.former_targets(workspace))
    times = store.node_usage.node_times(workspace, moment(since), target)
    sized = [(time, sizes.of(time)) for time in times]
    runs = [_run_cost(time, size) for time, size in sized]
    return json_response({"currency": "USD", "targets": _target_costs(sized), "runs": runs})


class _Size(NamedTuple):
    """The part of a target's configuration that its price depends on."""

    vm_size: str | None = None
    vm_priority: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> _Size:
        return cls(config.get("vm_size"), config.get("vm_priority"))

    @property
    def price(self) -> float | None:
        return vm_sizes.node_price(self._asdict())


class _Sizes:
    def __init__(self, targets: Iterable[Target], former: Iterable[FormerTarget]) -> None:
        self._now = {each.name: _Size.of(each.config) for each in targets}
        self._former: dict[str, list[FormerTarget]] = {}
        for each in former:
            self._former.setdefault(each.name, []).append(each)

    def of(self, time: NodeTime) -> _Size:
        """The size of the target that the run was on: of those of its name, the one that was there then."""
        then = (each for each in self._former.get(time.target, ()) if each.removed_at >= time.created_at)
        former = next(then, None)
        return self._now.get(time.target, _Size()) if former is None else _Size.of(former.config)


def _run_cost(time: NodeTime, size: _Size) -> RunCost:
    return {
        "run": time.run,
        "experiment": time.experiment,
        "target": time.target,
        "submitted_by": time.submitted_by,
        "state": time.state,
        "created_at": format_time(time.created_at),
        "node_seconds": round(time.seconds, 3),
        "cost": _cost(time.seconds, size.price),
    }


def _target_costs(sized: Iterable[tuple[NodeTime, _Size]]) -> list[TargetCost]:
    found: dict[tuple[str, _Size], TargetCost] = {}
    for time, size in sized:
        row = found.setdefault((time.target, size), {
            "target": time.target,
            "vm_size": size.vm_size,
            "vm_priority": size.vm_priority,
            "price_per_hour": size.price,
            "runs": 0,
            "node_seconds": 0.0,
            "cost": None,
        })  # fmt: skip
        row["runs"] += 1
        row["node_seconds"] = round(row["node_seconds"] + round(time.seconds, 3), 3)
        row["cost"] = _cost(row["node_seconds"], size.price)
    return sorted(found.values(), key=lambda row: (-(row["cost"] or 0.0), -row["node_seconds"], row["target"]))


def _cost(seconds: float, price: float | None) -> float | None:
    return None if price is None else round(seconds / _HOUR * price, 6)
