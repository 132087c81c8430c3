"""What runs cost: the time that they had nodes, at the price of the VM size of their target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import vm_sizes
from windlass.core.codec import format_time
from windlass.core.entities import Target
from windlass.core.states import RunState
from windlass.server.call import Call, answer
from windlass.server.parameters import Text, WorkspaceName
from windlass.server.routes import route
from windlass.server.runs import moment
from windlass.server.views import Time
from windlass.store.node_usage import NodeTime

_HOUR = 3600.0


class RunCost(TypedDict):
    run: str
    experiment: str
    target: str
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
def cost(call: Call, workspace: WorkspaceName, since: Text | None = None, target: Text | None = None) -> Response:
    """Node-seconds and cost of the runs that had nodes and were submitted `since` then, and of their targets, the most
    expensive first. Prices are approximate; a target that is gone, or has a size without a price, has none (null).
    """
    store = call.context.store
    known = {each.name: each for each in store.targets.list(workspace)}
    times = store.node_usage.node_times(workspace, moment(since), target)
    prices = {name: _price(known.get(name)) for name in dict.fromkeys(time.target for time in times)}
    runs = [_run_cost(time, prices[time.target]) for time in times]
    return answer({"currency": "USD", "targets": _target_costs(runs, known, prices), "runs": runs})


def _price(target: Target | None) -> float | None:
    config: Mapping[str, Any] = {} if target is None else target.config
    size = vm_sizes.find(str(config.get("vm_size") or ""))
    return None if size is None else size.price_per_hour(config.get("vm_priority") == "lowpriority")


def _run_cost(time: NodeTime, price: float | None) -> RunCost:
    return {
        "run": time.run,
        "experiment": time.experiment,
        "target": time.target,
        "state": time.state,
        "created_at": format_time(time.created_at),
        "node_seconds": round(time.seconds, 3),
        "cost": _cost(time.seconds, price),
    }


def _target_costs(
    runs: Iterable[RunCost], known: Mapping[str, Target], prices: Mapping[str, float | None]
) -> list[TargetCost]:
    found: dict[str, TargetCost] = {}
    for run in runs:
        name = run["target"]
        config = known[name].config if name in known else {}
        row = found.setdefault(name, {
            "target": name,
            "vm_size": config.get("vm_size"),
            "vm_priority": config.get("vm_priority"),
            "price_per_hour": prices[name],
            "runs": 0,
            "node_seconds": 0.0,
            "cost": None,
        })  # fmt: skip
        row["runs"] += 1
        row["node_seconds"] = round(row["node_seconds"] + run["node_seconds"], 3)
        row["cost"] = _cost(row["node_seconds"], prices[name])
    return sorted(found.values(), key=lambda row: (-(row["cost"] or 0.0), -row["node_seconds"], row["target"]))


def _cost(seconds: float, price: float | None) -> float | None:
    return None if price is None else round(seconds / _HOUR * price, 6)
