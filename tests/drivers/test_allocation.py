"""What a driver tells a machine of a run's share and of its processes, and what it refuses before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import pytest

from windlass.core.entities import Allocation, Distribution, NodeShare, Resources
from windlass.core.errors import SpecNotSupported
from windlass.drivers.base import Features, Job
from windlass.drivers.machine import protocol
from windlass.drivers.machine.inventory import parse_inventory
from windlass.drivers.plan import refuse_undeclared, render

SHARES = Allocation((NodeShare("cpu-1", 2.0, 7168, (0, 3)), NodeShare("cpu-2", 2.0, 7168)))
JOB = Job("r.1", "r", 1, "nonce", 1, ("{python}", "train.py"))
PYTORCH = Distribution("pytorch", process_count=4, backend="gloo")
CLUSTER = Features(multi_node=True)


def test_a_start_has_the_allocation() -> None:
    document = protocol.run_document(replace(JOB, allocation=SHARES), {}, is_hard=True, hides_gpus=False)
    assert document["allocation"] == {
        "shares": [
            {"node": "cpu-1", "cores": 2.0, "memory_mb": 7168, "gpus": [0, 3]},
            {"node": "cpu-2", "cores": 2.0, "memory_mb": 7168, "gpus": []},
        ],
        "is_hard": True,
        "hides_gpus": False,
    }


def test_a_job_that_is_only_made_ready_has_none() -> None:
    assert "allocation" not in protocol.run_document(replace(JOB, allocation=SHARES), {}, is_prestaged=True)


def test_a_job_without_an_allocation_has_none() -> None:
    assert "allocation" not in protocol.run_document(JOB, {})
    assert "distribution" not in protocol.run_document(JOB, {})


@pytest.mark.parametrize("is_prestaged", [True, False])
def test_the_distribution_is_there_from_the_beginning(is_prestaged: bool) -> None:
    document = protocol.run_document(replace(JOB, distribution=PYTORCH), {}, is_prestaged=is_prestaged)
    assert document["distribution"] == {
        "framework": "pytorch", "processes_per_node": 1, "process_count": 4, "workers": 1, "parameter_servers": 0,
        "backend": "gloo",
    }  # fmt: skip


def test_several_nodes_need_a_kind_that_has_them() -> None:
    job = replace(JOB, resources=Resources(nodes=2))
    with pytest.raises(SpecNotSupported, match="run on one node"):
        refuse_undeclared("local", Features(), job)
    refuse_undeclared("cluster", CLUSTER, job)


@pytest.mark.parametrize("distribution", [PYTORCH, Distribution("mpi", 4), Distribution("tensorflow", workers=2)])
def test_several_processes_run_on_every_kind(distribution: Distribution) -> None:
    refuse_undeclared("local", Features(), replace(JOB, distribution=distribution))


@pytest.mark.parametrize("distribution", [replace(PYTORCH, process_count=2), Distribution("tensorflow", workers=2)])
def test_no_node_is_without_a_process(distribution: Distribution) -> None:
    job = replace(JOB, resources=Resources(nodes=3), distribution=distribution)
    with pytest.raises(SpecNotSupported, match="asks for 3 nodes and has 2 processes"):
        refuse_undeclared("cluster", CLUSTER, job)


def test_the_plan_shows_nodes_and_processes() -> None:
    job = replace(JOB, resources=Resources(nodes=2, cpus=1.5), distribution=PYTORCH)
    text = render("cpu", "cluster", PurePath("/m/runs/r.1"), job)
    assert "resources    nodes 2, cores 1.5\n" in text
    assert "processes    pytorch, 1 on each node, 4 in all\n" in text


def test_a_machine_says_what_limits_runs_there() -> None:
    said = {"limits": {"cpu": "cgroup v2 quota", "memory": "RLIMIT_AS\x1b", "disk": "x"}}
    assert parse_inventory(said) == {"limits": {"cpu": "cgroup v2 quota", "memory": "RLIMIT_AS "}}
    assert parse_inventory({"limits": "all"}) == {"limits": {}}
