"""Ranks of a distributed run: their nodes and their variables."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

import pytest

from windlass.runner.distributed import mpi, ports, pytorch, tensorflow
from windlass.runner.distributed.ranks import (
    Rank,
    Settings,
    expand_variables,
    one_on_each_node,
    read_settings,
    with_node_variables,
)

TAKE = "from windlass.runner.distributed import ports; print(*ports.take(6105, 2), flush=True); input()"


def settings(nodes: int, **more: Any) -> Settings:
    named = [{"name": f"n{i}", "env": {"CUDA_VISIBLE_DEVICES": str(i)}, "join": []} for i in range(nodes)]
    return read_settings({"framework": "", "nodes": named, "logs": "l", "reports": "r", "grace": 30.0, **more})


def sequence(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def column(ranks: list[Rank], name: str) -> list[str | None]:
    return [rank.env.get(name) for rank in ranks]


def test_pytorch() -> None:
    found = pytorch.ranks(settings(2, process_count=4), sequence)
    assert column(found, "RANK") == ["0", "1", "2", "3"]
    assert column(found, "LOCAL_RANK") == ["0", "1", "0", "1"]
    assert set(column(found, "WORLD_SIZE")) == {"4"}
    assert set(column(found, "MASTER_ADDR")) == {"127.0.0.1"}
    assert set(column(found, "MASTER_PORT")) == {"6105"}
    assert [rank.node for rank in found] == [0, 0, 1, 1]


def test_pytorch_has_one_process_on_each_node_by_default() -> None:
    found = pytorch.ranks(settings(3, process_count=None), sequence)
    assert [(rank.node, rank.env["LOCAL_RANK"]) for rank in found] == [(0, "0"), (1, "0"), (2, "0")]


def test_pytorch_with_a_number_that_nodes_do_not_divide() -> None:
    assert [rank.node for rank in pytorch.ranks(settings(2, process_count=5), sequence)] == [0, 0, 0, 1, 1]


def test_mpi_on_several_nodes() -> None:
    found = mpi.ranks(settings(2, processes_per_node=2), sequence)
    assert column(found, "OMPI_COMM_WORLD_LOCAL_RANK") == ["0", "1", "0", "1"]
    assert set(column(found, "OMPI_COMM_WORLD_LOCAL_SIZE")) == {"2"}
    assert set(column(found, "AZ_BATCH_MASTER_NODE")) == {"127.0.0.1:6105"}
    assert set(column(found, "AZ_BATCHAI_MPI_MASTER_NODE")) == {None}


def test_mpi_on_one_node() -> None:
    found = mpi.ranks(settings(1, processes_per_node=4), sequence)
    assert set(column(found, "AZ_BATCHAI_MPI_MASTER_NODE")) == {"127.0.0.1"}
    assert [rank.node for rank in found] == [0, 0, 0, 0]


def test_tensorflow() -> None:
    found = tensorflow.ranks(settings(2, workers=2, parameter_servers=1), sequence)
    configs = [json.loads(rank.env["TF_CONFIG"]) for rank in found]
    cluster = {"worker": ["127.0.0.1:2222", "127.0.0.1:2223"], "ps": ["127.0.0.1:2224"]}
    assert all(config["cluster"] == cluster and config["environment"] == "cloud" for config in configs)
    tasks = [(config["task"]["type"], config["task"]["index"]) for config in configs]
    assert tasks == [("worker", 0), ("worker", 1), ("ps", 0)]
    assert [rank.is_waited_for for rank in found] == [True, True, False]
    assert [rank.node for rank in found] == [0, 1, 0]


def test_tensorflow_without_parameter_servers() -> None:
    [rank] = tensorflow.ranks(settings(1), sequence)
    assert "ps" not in json.loads(rank.env["TF_CONFIG"])["cluster"]


def test_several_nodes_without_a_framework() -> None:
    nodes = settings(2)
    found = with_node_variables(nodes, one_on_each_node(nodes, sequence))
    assert column(found, "NODE_RANK") == ["0", "1"]
    assert column(found, "AZUREML_NODE_COUNT") == ["2", "2"]
    assert column(found, "CUDA_VISIBLE_DEVICES") == ["0", "1"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "t.py", "--rank", "$LOCAL_RANK"], ["python", "t.py", "--rank", "1"]),
        (["python", "t.py", "--r=${LOCAL_RANK}/$RANK"], ["python", "t.py", "--r=1/3"]),
        (["python", "t.py", "$LOCAL_RANKS", "$HOME", "$"], ["python", "t.py", "$LOCAL_RANKS", "$HOME", "$"]),
        (["/bin/sh", "-c", "echo '$RANK'"], ["/bin/sh", "-c", "echo '$RANK'"]),
    ],
    ids=["word", "part", "others", "shell"],
)
def test_variables_in_arguments(words: list[str], expected: list[str]) -> None:
    assert expand_variables(words, {"LOCAL_RANK": "1", "RANK": "3"}) == expected


def test_launchers_do_not_choose_the_same_port() -> None:
    """Nothing listens there yet while frameworks are loaded."""
    with subprocess.Popen([sys.executable, "-c", TAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        theirs = {int(word) for word in other.stdout.readline().split()}
        ours = ports.take(6105, 2)
        assert len(theirs) == 2 and not theirs & set(ours)
        other.communicate(b"\n")


def test_a_port_that_is_used_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        assert ports.take(used, 1) != [used]
