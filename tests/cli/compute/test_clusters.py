"""Clusters at the command line: create, show, quotas, cost, evictions, and a cluster for one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fake import FakeSession, W, windlass
from tests.cli.shell import Shell, Terminal

RUN = {
    "run": "demo_1763268000_3f9a1c2b", "experiment": "demo", "target": "cpu-cluster", "state": "Completed",
    "created_at": "2026-01-31T12:00:00Z", "node_seconds": 5400.0, "cost": 0.219,
}  # fmt: skip
COST: dict[str, Any] = {
    "currency": "USD",
    "targets": [
        {
            "target": "cpu-cluster", "vm_size": "STANDARD_D2_V2", "vm_priority": "lowpriority", "runs": 2,
            "price_per_hour": 0.0292, "node_seconds": 5401.0, "cost": 0.219,
        },
        {
            "target": "gone", "vm_size": None, "vm_priority": None, "runs": 1, "price_per_hour": None,
            "node_seconds": 10.0, "cost": None,
        },
    ],
    "runs": [RUN, {**RUN, "run": "demo_1763268000_00000001", "node_seconds": 1.0, "cost": 0.00004}],
}  # fmt: skip


@pytest.fixture
def cluster(shell: Shell) -> Iterator[str]:
    made = shell("compute", "create", "cluster", "cpus", "--vm-size", "standard_d2_v2", "--max-nodes", "1",
                 "--idle-seconds", "60", "--priority", "low")  # fmt: skip
    assert made.code == 0, made.err
    yield "cpus"
    shell("compute", "delete", "--force", "cpus")


def test_a_run_on_a_cluster(shell: Shell, project: Path, cluster: str) -> None:
    found = shell("compute", "show", "--json", cluster).json
    assert (found["config"]["vm_priority"], found["config"]["idle_seconds_before_scaledown"]) == ("lowpriority", 60)
    assert found["nodes"] == [] and found["queue"] == []
    run = shell.submit(project, "print(1)", "-c", cluster)
    assert (run["state"], run["target"]) == ("Completed", cluster)
    (node,) = shell("compute", "show", "--json", cluster).json["nodes"]
    assert node["id"].startswith("cpus-")
    assert "cpus" in shell("status").out and "1 of 1" in shell("compute", "list").out
    (paid,) = [row for row in shell("cost", cluster, "--json").json["runs"] if row["run"] == run["id"]]
    assert paid["node_seconds"] > 0 and paid["cost"] is not None


def test_a_cluster_for_one_run(shell: Shell, project: Path) -> None:
    folder = project / "aml_config"
    folder.mkdir()
    (folder / "once.runconfig").write_text(
        "target: amlcompute\namlcompute: {vmSize: STANDARD_D2_V2}\n"
        "environment: {python: {userManagedDependencies: true}}\n"
    )
    run = shell.submit(project, "print(1)", "-c", "once")
    assert (run["state"], run["target"]) == ("Completed", f"run-{run['id'][-8:]}")
    refused = shell("submit", "-c", "once", "--dry-run", "train.py", cwd=project)
    assert "A dry run on amlcompute shows nothing" in refused.err
    (folder / "once.runconfig").write_text("target: amlcompute\n")
    refused = shell("submit", "-c", "once", "train.py", cwd=project)
    assert "whose VM size is not given" in refused.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["compute", "create", "cluster", "odd", "--vm-size", "Standard_D2_v22"], "Did you mean Standard_D2_v2"),
        (["compute", "create", "cluster", "odd", "--priority", "high"], "'high' is not one of 'dedicated', 'low'"),
        (["quota", "set", "Dv2", "many"], "CORES is a whole number or none, not 'many'."),
        (["quota", "set", "Dv22", "1"], 'Did you mean "Standard Dv2 Family"?'),
    ],
)
def test_mistakes(shell: Shell, words: list[str], error: str) -> None:
    done = shell(*words)
    assert done.code == 2 and error in done.err


def test_quotas_are_set_and_kept(shell: Shell) -> None:
    assert shell("quota", "set", "nc", "0").out == "Standard NC Family: 0 cores, 0 in use.\n"
    try:
        lines = [line.split() for line in shell("quota", "list").out.splitlines()]
        assert ["Standard", "NC", "Family", "0", "0"] in lines
        refused = shell("compute", "create", "cluster", "gpus", "--vm-size", "Standard_NC6", "--max-nodes", "2")
        assert refused.code == 6 and "is 0 cores: 0 are in use by other clusters, 12 are needed" in refused.err
    finally:
        assert shell("quota", "set", "nc", "none").out == "Standard NC Family: no limit, 0 in use.\n"
    assert "Standard NVSv3 Family" in shell("quota", "list", "--all").out


def test_sizes_are_listed(shell: Shell) -> None:
    out = shell("compute", "sizes").out
    assert ["Standard_NC6", "Standard", "NC", "Family", "6", "56", "GB", "1", "$0.900"] in [
        line.split() for line in out.splitlines()
    ]


def test_what_runs_cost_fits_80_columns(at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    at_terminal(80)
    assert windlass(FakeSession({f"GET {W}/cost": COST}), "cost") == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines), lines
    rows = [" ".join(line.split()) for line in lines]
    assert any(row.startswith("cpu-cluster") and row.endswith("$0.029 $0.22") for row in rows), rows
    assert any(row.startswith("gone 1") and row.endswith("?") for row in rows), rows
    assert any(row.startswith("in all 3") for row in rows), rows
    assert any(row.startswith("00000001") and row.endswith("<$0.01") for row in rows), rows


@pytest.mark.parametrize(("since", "sent"), [("2026-01-31", "2026-01-31"), ("7d", "20")])
def test_since_when(since: str, sent: str) -> None:
    session = FakeSession({f"GET {W}/cost": {"currency": "USD", "targets": [], "runs": []}})
    assert windlass(session, "cost", "--since", since, "cpu") == 0
    query = session.asked[-1][2]
    assert query["target"] == "cpu" and query["since"].startswith(sent)


def test_a_run_whose_node_is_taken_away_is_queued_again(shell: Shell, project: Path, cluster: str) -> None:
    (project / "train.py").write_text(
        "import os, time\nif os.environ['WINDLASS_ATTEMPT'] == '1':\n"
        "    print('first', flush=True)\n    time.sleep(60)\n"
    )
    run = shell("submit", "--json", "-d", "-c", cluster, "train.py", cwd=project).json["id"]
    following = Terminal(shell, "logs", "-f", run, cwd=project)
    following.wait_for("first")
    (node,) = shell("compute", "show", "--json", cluster).json["nodes"]
    assert shell("compute", "simulate-eviction", cluster, "none").code == 3
    assert shell("compute", "simulate-eviction", cluster, node["id"]).out.startswith(f"Taken away: {node['id']}\n")
    following.end()
    ended = shell("show", "--json", run).json
    assert (ended["state"], ended["attempt"]) == ("Completed", 2)


def test_an_eviction_names_the_nodes_that_go(capsys: pytest.CaptureFixture[str]) -> None:
    path = f"POST {W}/targets/cpus/simulate-eviction"
    session = FakeSession({path: {"target": "cpus", "nodes": ["cpus-1", "cpus-2"]}})
    assert windlass(session, "compute", "simulate-eviction", "cpus") == 0
    assert capsys.readouterr().out.startswith("Taken away: cpus-1, cpus-2\n")
    assert session.asked[-1][1] == {"node": None}
    assert windlass(session, "compute", "simulate-eviction", "cpus", "cpus-1") == 0
    assert session.asked[-1][1] == {"node": "cpus-1"}
