"""What Home, the table of runs and the list of experiments show at first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.server.serving import HOME, Server
from tests.store.makers import interactive, running, submit
from windlass import _version
from windlass.core.states import Reason, RunState, Step
from windlass.server.execution.overdue import find_overdue


def test_the_summary_counts_runs_and_targets(server: Server) -> None:
    store = server.store
    submit(store, "active")
    submit(store, "waits", slots=0)
    server.call("POST", f"{HOME}/runs/{server.interactive()['id']}/end", {"state": "Failed"})
    store.targets.update("default", "docker", quarantine="it showed another key")
    summary = server.call("GET", f"{HOME}/summary", token=server.make_token("reader")).json
    assert summary["runs"] == {"Starting": 1, "Queued": 1, "Failed": 1}
    assert (summary["active_runs"], summary["queued_runs"], summary["targets"]) == (1, 1, 2)
    assert summary["target_health"] == {"ready": 1, "changing": 0, "problem": 0, "failed": 0, "quarantined": 1}
    assert (summary["version"], summary["url"]) == (_version.__version__, server.context.url)
    assert summary["overdue"] == []


def test_problems_of_targets_are_counted_unless_they_are_warnings(server: Server) -> None:
    for name, level in (("local", "missing"), ("docker", "warning")):
        problem = {"level": level, "about": "disk", "message": "It is full.", "fix": ""}
        server.store.targets.update("default", name, inventory={"problems": [problem]})
    health = server.call("GET", f"{HOME}/summary").json["target_health"]
    assert (health["problem"], health["ready"]) == (1, 1)


def test_overdue_runs_are_listed(server: Server) -> None:
    """Each state that should pass has a deadline."""
    store = server.store
    submit(store, "lost", lease=-1.0)
    submit(store, "starting")
    submit(store, "running")
    running(store, "running")
    submit(store, "canceled")
    store.runs.request_cancel("default", "canceled")
    submit(store, "silent")
    silent = Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, "no contact")
    store.runs.advance("silent", expect=RunState.STARTING, step=silent, fence=1)
    store.runs.create([interactive("notebook")])

    def overdue(**later: float) -> dict[str, str]:
        found = find_overdue(store, "default", timedelta(hours=24), datetime.now(UTC) + timedelta(**later))
        return {each.unfinished.run.id: each.message for each in found}

    assert overdue() == {}
    assert set(overdue(minutes=12)) == {"lost", "canceled"}
    assert set(overdue(hours=2)) == {"lost", "canceled", "starting"}
    assert set(overdue(hours=25)) == {"lost", "canceled", "starting", "silent"}
    assert "no server" in overdue(hours=2)["lost"] and "cancel" in overdue(hours=2)["canceled"]


def test_the_table_of_runs_knows_its_columns(server: Server) -> None:
    run = server.submit(tags={"team": "x"}, spec={"script": "train.py", "arguments": ["--alpha", "0.5"]})["id"]
    lines = {"writer": "w", "offset": 0, "lines": [{"n": "loss", "v": 1.0, "t": 1.0}]}
    server.call("POST", f"{HOME}/runs/{run}/metrics", lines)
    expected = {
        "metrics": ["loss"], "parameters": ["alpha"], "tags": ["team"], "members": ["owner"], "targets": ["local"],
    }  # fmt: skip
    assert server.call("GET", f"{HOME}/run-columns").json == expected
    assert server.call("GET", f"{HOME}/run-columns?experiment=demo").json == expected
    assert server.call("GET", f"{HOME}/run-columns?experiment=other").json["metrics"] == []
    [row] = server.call("GET", f"{HOME}/runs?arguments=true&metrics=loss&submitted_by=owner").json["runs"]
    assert (row["script"], row["arguments"], row["metrics"]) == ("train.py", ["--alpha", "0.5"], {"loss": 1.0})
    assert "arguments" not in server.call("GET", f"{HOME}/runs").json["runs"][0]
    notebook = server.interactive(token=server.make_token("contributor", principal="ann"))["id"]
    [row] = server.call("GET", f"{HOME}/runs?arguments=true&submitted_by=ann").json["runs"]
    assert (row["id"], row["script"], row["arguments"]) == (notebook, "", [])


def test_experiments_have_counts(server: Server) -> None:
    assert server.call("POST", f"{HOME}/experiments", {"name": "empty"}).json["runs"] == 0
    first, last = server.interactive(), server.interactive()
    server.call("POST", f"{HOME}/runs/{first['id']}/end", {"state": "Failed"})
    demo, empty = server.call("GET", f"{HOME}/experiments").json["experiments"]
    assert [demo[key] for key in ("name", "runs", "active_runs", "failed_runs", "last_run_at")] == [
        "demo", 2, 1, 1, last["created_at"],
    ]  # fmt: skip
    assert (empty["runs"], empty["last_run_at"]) == (0, None)
    assert server.call("GET", f"{HOME}/experiments/demo").json == demo
