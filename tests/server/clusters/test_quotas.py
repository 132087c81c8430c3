"""Quotas by family: set by administrators, counted over clusters, and named with their numbers in refusals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import Field

from tests.server.fake_kinds import FARMS, FakeFarm, FarmDriver, kinds
from tests.server.real import RealServer, real_server
from windlass.drivers.base import TargetConfig

__all__ = ["kinds"]


class FieldConfig(TargetConfig):
    vm_size: str = Field(description="The size of a node.")
    max_nodes: int = Field(default=1, description="How many nodes.")

    @property
    def nodes(self) -> int:
        return self.max_nodes


class FieldDriver(FarmDriver):
    """A farm whose nodes have a size."""

    kind = "field"
    config_model = FieldConfig  # type: ignore[assignment]
    mutable_settings = frozenset({"max_nodes"})

    def update(self, before: Any) -> Any:
        return super().update({"nodes": before["max_nodes"]})


@pytest.fixture
def server(kinds: Any, tmp_path: Path) -> Iterator[RealServer]:
    kinds["field"] = SimpleNamespace(load=lambda: FieldDriver)
    FARMS.update(one=FakeFarm(), two=FakeFarm())
    with real_server(tmp_path / "home", vm_sizes={"big": {"cores": 64, "memory_gb": 512}}) as running:
        yield running


def create(server: RealServer, name: str, status: int = 201, **config: Any) -> Any:
    return server.ask("POST", "/targets", {"name": name, "kind": "field", "config": config}, status)


def quota(server: RealServer, family: str) -> dict[str, Any]:
    found: dict[str, Any] = next(q for q in server.ask("GET", "/quotas")["quotas"] if q["family"] == family)
    return found


def test_a_cluster_beyond_the_quota_is_refused_with_the_numbers(server: RealServer) -> None:
    family = "Standard Dv2 Family"
    assert quota(server, family) == {"family": family, "limit": None, "used": 0}
    assert server.ask("PUT", "/quotas", {"family": "dv2", "cores": 10}) == {"family": family, "limit": 10, "used": 0}
    create(server, "one", vm_size="STANDARD_D2_V2", max_nodes=4)
    assert quota(server, family)["used"] == 8
    refused = create(server, "two", 409, vm_size="Standard_D3_v2", max_nodes=1)["error"]
    assert refused["message"] == (
        "The quota of Standard Dv2 Family is 10 cores: 8 are in use by other clusters, 4 are needed, and 2 are left."
    )
    assert 'windlass quota set "Standard Dv2 Family" 12' in refused["hint"]
    create(server, "two", vm_size="Standard_NC6", max_nodes=4)  # another family


def test_clusters_that_are_created_in_the_same_moment_pass_no_quota_together(server: RealServer) -> None:
    server.ask("PUT", "/quotas", {"family": "Dv2", "cores": 8})
    names = [f"c{number}" for number in range(8)]
    FARMS.update((name, FakeFarm()) for name in names)
    together = threading.Barrier(len(names))

    def is_created(name: str) -> bool:
        together.wait()
        try:
            create(server, name, vm_size="STANDARD_D2_V2", max_nodes=4)
        except AssertionError as e:
            assert "8 are in use by other clusters" in str(e)
            return False
        return True

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(is_created, names)).count(True) == 1


def test_an_update_counts_its_own_cluster_once(server: RealServer) -> None:
    server.ask("PUT", "/quotas", {"family": "Dv2", "cores": 8})
    create(server, "one", vm_size="STANDARD_D2_V2", max_nodes=2)
    server.until("/targets/one", lambda found: found["provisioning_state"] == "Succeeded")
    server.ask("PATCH", "/targets/one", {"config": {"max_nodes": 4}})
    refused = server.refused("PATCH", "/targets/one", {"config": {"max_nodes": 5}})
    assert "0 are in use by other clusters, 10 are needed, and 8 are left" in refused["message"]


def test_a_limit_is_removed_by_null(server: RealServer) -> None:
    server.ask("PUT", "/quotas", {"family": "NC", "cores": 0})
    create(server, "one", 409, vm_size="Standard_NC6", max_nodes=1)
    assert server.ask("PUT", "/quotas", {"family": "NC", "cores": None})["limit"] is None
    create(server, "one", vm_size="Standard_NC6", max_nodes=1)


def test_own_sizes_have_a_family_and_a_quota(server: RealServer) -> None:
    sizes = {size["name"]: size for size in server.ask("GET", "/vm-sizes")["sizes"]}
    assert sizes["big"] == {
        "name": "big", "family": "Own Sizes", "cores": 64, "memory_gb": 512.0, "gpus": 0, "price": None,
        "low_priority_price": None,
    }  # fmt: skip
    assert sizes["Standard_D2_v2"]["price"] == 0.146
    server.ask("PUT", "/quotas", {"family": "Own Sizes", "cores": 63})
    create(server, "one", 409, vm_size="BIG", max_nodes=1)


@pytest.mark.parametrize(
    "body", [{"family": "Dv2"}, {"family": "Dv2", "cores": -1}, {"family": "", "cores": 1}, {"family": "x", "cores": 1}]
)
def test_what_is_no_quota_is_refused(server: RealServer, body: dict[str, Any]) -> None:
    assert server.refused("PUT", "/quotas", body, 400)["message"]
