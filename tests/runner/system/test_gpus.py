"""A run sees the GPUs of its shares, by device number, and no others where its target hides them. There are none here:
what a script sees is decided by variables, and in containers by what is asked of the engine.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.runner.system import gpus

from ..pipe import Host

SHOW = "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if 'VISIBLE' in k or 'CUDA' in k}))"


def allocation(*devices: list[int], hides: bool = True) -> dict[str, Any]:
    shares = [{"node": f"n{i}", "cores": 1.0, "memory_mb": 0, "gpus": each} for i, each in enumerate(devices)]
    return {"shares": shares, "is_hard": False, "hides_gpus": hides}


def seen(host: Host, log: str = "std_log.txt", **more: Any) -> dict[str, str]:
    host.python("a.1", SHOW, **more)
    assert host.wait("a.1")["exit_code"] == 0
    found: dict[str, str] = json.loads(host.read("a.1", f"user_logs/{log}").decode().splitlines()[-1])
    return found


THEIRS = {"CUDA_VISIBLE_DEVICES": "7"}


@pytest.mark.parametrize(
    ("given", "env", "visible"),
    [
        (allocation([2, 0]), {}, {"CUDA_VISIBLE_DEVICES": "0,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (allocation([1]), THEIRS, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (allocation([1], hides=False), THEIRS, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (allocation([]), THEIRS, {"CUDA_VISIBLE_DEVICES": ""}),
        (allocation([], hides=False), THEIRS, THEIRS),
        (None, THEIRS, THEIRS),
    ],
    ids=["two", "not-the-users", "not-the-users-either", "none", "not-hidden", "no-allocation"],
)
def test_the_variables_of_a_script(host: Host, given: Any, env: dict[str, str], visible: dict[str, str]) -> None:
    assert seen(host, env=env, allocation=given) == visible


@pytest.mark.parametrize(("rank", "device"), [(0, "3"), (1, "1")])
def test_each_node_has_its_own(host: Host, rank: int, device: str) -> None:
    found = seen(host, f"std_log_process_{rank}.txt", allocation=allocation([3], [1]))
    assert found["CUDA_VISIBLE_DEVICES"] == device


def test_a_container_has_only_its_own_and_counts_them_from_0() -> None:
    run = {"container": {"image": "x"}, "allocation": allocation([5], [2])}
    assert gpus.show_devices(run, THEIRS) == {
        "NVIDIA_VISIBLE_DEVICES": "2,5",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert gpus.requests_for([2, 5]) == [{"DeviceIDs": ["2", "5"], "Capabilities": [["gpu"]]}]
    nodes = [gpus.on_node(run, number) or {} for number in (0, 1)]
    assert [node["CUDA_VISIBLE_DEVICES"] for node in nodes] == ["1", "0"]


def test_a_container_without_gpus_is_given_none() -> None:
    run = {"container": {"image": "x"}, "allocation": allocation([])}
    assert gpus.show_devices(run, {}) == {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
