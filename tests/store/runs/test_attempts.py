"""Runs that are queued again: position in the queue, files and metrics of their attempts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, delete, insert

from tests.store.makers import LEASE, OWNER, evicted, finish, line, replayed, requeue, running, submit
from windlass.core.entities import Artifact
from windlass.core.errors import Conflict, InvalidRequest, NotFound
from windlass.core.states import Intent, Reason, RunState, Step
from windlass.store import Ending, Policy, Store
from windlass.store.db.schema import allocations, runs

WHY = "the node leaves"
LOG = "user_logs/std_log.txt"


def file(path: str, digest: str = "a", at: datetime | None = None) -> Artifact:
    return Artifact(path, digest * 64, 5, at or datetime.now(UTC))


def paths(store: Store, id: str) -> dict[str, str]:
    return {artifact.path: artifact.digest[0] for artifact in store.artifacts.list(id)}


def test_a_run_that_is_queued_again_waits_as_a_new_one(store: Store) -> None:
    submit(store, "r1")
    begun = running(store, "r1").started_at
    store.runs.request_eviction("default", "r1", WHY)
    run, admitted = requeue(store, "r1", expect=RunState.RUNNING, handle={"native_id": "1"})
    assert (run.state, run.reason, run.attempt, run.eviction) == (RunState.QUEUED, Reason.EVICTED, 2, None)
    assert (run.started_at, run.ended_at, run.exit_code) == (begun, None, None)
    assert admitted == [] and store.targets.counts("default") == {"local": (0, 1)}
    assert store.runs.renew(OWNER, LEASE) == set() == set(store.runs.stop_requests(OWNER))
    first, second = store.runs.attempts("r1")
    assert (first.reason, first.handle) == (Reason.EVICTED, {"native_id": "1"}) and first.ended_at is not None
    assert (second.number, second.nonce, second.handle, second.ended_at) == (2, "second", None, None)
    assert replayed(store, "r1") == (RunState.QUEUED, Reason.EVICTED, evicted().message)
    event = store.runs.events("r1")[-1]
    assert (event.kind, event.data) == ("attempt", {"attempt": 2})
    assert store.runs.get("default", "r1") == run


def test_its_age_gives_a_run_its_place_in_the_queue(store: Store) -> None:
    submit(store, "old", slots=1)
    submit(store, "young", slots=1)
    run, [leased] = requeue(store, "old", slots=1)
    assert (leased.run.id, leased.run.attempt, leased.nonce, leased.fence) == ("old", 2, "second", 2)
    assert run.state is RunState.QUEUED and leased.run.state is RunState.STARTING
    store.runs.save_handle("old", 2, {"native_id": "2"}, fence=2)
    with pytest.raises(Conflict):
        store.runs.save_handle("old", 2, {"native_id": "3"}, fence=1)


def test_a_run_is_queued_again_once(store: Store) -> None:
    submit(store, "r1")
    requeue(store, "r1")
    with pytest.raises(Conflict, match="is Queued by now"):
        requeue(store, "r1")
    with pytest.raises(Conflict):
        requeue(store, "r1", fence=0, expect=RunState.QUEUED)
    with pytest.raises(InvalidRequest, match="not queued again"):
        requeue(store, "r1", step=Step(RunState.FAILED, Reason.EVICTED, ""))
    assert store.runs.get("default", "r1").attempt == 2


def test_an_eviction_is_kept_and_requested_once(store: Store) -> None:
    submit(store, "r1", slots=1)
    run = store.runs.request_eviction("default", "r1", WHY)
    assert (run.eviction, run.state, run.intent) == (WHY, RunState.STARTING, Intent.RUN)
    assert store.runs.request_eviction("default", "r1", "another cause") == run
    events = store.runs.events("r1")
    assert [event.kind for event in events] == ["state", "eviction"]
    assert events[-1].message == f"an eviction was requested: {WHY}"
    waiting, _, _ = submit(store, "r2", slots=1)
    assert store.runs.request_eviction("default", "r2", WHY) == waiting, "it has nothing to be taken away"
    ended, _ = finish(store, "r1")
    assert store.runs.request_eviction("default", "r1", WHY) == ended
    with pytest.raises(NotFound):
        store.runs.request_eviction("default", "nobody", WHY)


def test_what_it_had_of_its_target_is_given_back_and_its_nodes_are_counted(store: Store, store_url: str) -> None:
    submit(store, "r1")
    since = datetime.now(UTC) - timedelta(seconds=100)
    url = store_url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url if "://" in url else f"sqlite:///{url}")
    with engine.begin() as connection:
        pk = connection.execute(runs.select().with_only_columns(runs.c.pk)).scalar_one()
        row: dict[str, Any] = {"run": pk, "workspace": "default", "target": "local", "machine": "m", "gpus": []}
        row |= {"millicores": 1000, "memory_mb": 0, "since": since}
        connection.execute(delete(allocations))
        connection.execute(insert(allocations), [{**row, "ordinal": n, "node": f"n{n}"} for n in range(2)])
    requeue(store, "r1")
    with engine.begin() as connection:
        assert connection.execute(allocations.select()).all() == []
        [first, second] = connection.exec_driver_sql("SELECT node_seconds FROM attempts ORDER BY number").scalars()
    engine.dispose()
    assert 200 <= first < 260 and second is None


def test_the_files_of_the_last_attempt_are_the_runs(store: Store) -> None:
    submit(store, "r1")
    ending = Ending(artifacts=[file(LOG), file("outputs/old.pt"), file("outputs/model.pt")])
    requeue(store, "r1", ending=ending, slots=1)
    assert paths(store, "r1") == {}
    assert [each.path for each in store.artifacts.earlier("r1")] == [
        f"attempts/1/{path}" for path in ("outputs/model.pt", "outputs/old.pt", LOG)
    ]
    assert [each.path for each in store.artifacts.outputs_to_resume("r1")] == ["outputs/model.pt", "outputs/old.pt"]
    last = Ending(artifacts=[file(LOG, "b"), file("outputs/model.pt", "b")])
    finish(store, "r1", fence=2, ending=last)
    assert paths(store, "r1") == {f"attempts/1/{LOG}": "a", "outputs/model.pt": "b", LOG: "b"}
    assert store.artifacts.earlier("r1") == []


@pytest.mark.parametrize("is_canceled", [True, False])
def test_a_run_that_ends_while_it_waits_has_the_files_of_its_last_attempt(store: Store, is_canceled: bool) -> None:
    submit(store, "r1")
    requeue(store, "r1", slots=1, ending=Ending(artifacts=[file(LOG), file("outputs/model.pt")]))
    requeue(store, "r1", fence=2, ending=Ending(artifacts=[file(LOG, "b"), file("outputs/model.pt", "b")]))
    if is_canceled:
        assert store.runs.request_cancel("default", "r1").state is RunState.CANCELED
    else:
        step = Step(RunState.FAILED, Reason.REJECTED, "its target was detached")
        store.runs.advance("r1", expect=RunState.QUEUED, step=step, fence=None)
    assert paths(store, "r1") == {f"attempts/1/{LOG}": "a", "outputs/model.pt": "b", LOG: "b"}


def test_an_attempt_that_did_not_get_to_its_script_does_not_hide_the_outputs(store: Store) -> None:
    submit(store, "r1")
    requeue(store, "r1", slots=1, ending=Ending(artifacts=[file(LOG), file("outputs/model.pt")]))
    requeue(store, "r1", fence=2, slots=1)
    assert [each.path for each in store.artifacts.outputs_to_resume("r1")] == ["outputs/model.pt"]
    build_log = "azureml-logs/20_image_build_log.txt"
    finish(store, "r1", fence=3, exit_code=1, ending=Ending(artifacts=[file(build_log, "b")]))
    assert paths(store, "r1") == {f"attempts/1/{LOG}": "a", build_log: "b", "outputs/model.pt": "a"}


def test_a_later_attempt_replaces_what_an_earlier_one_has_uploaded(store: Store) -> None:
    submit(store, "r1")
    store.runs.apply_calls("r1", "calls/1", 0, 1, [], [file("plots/a.png"), file("outputs/model.pt")])
    requeue(store, "r1", slots=1)
    assert paths(store, "r1") == {"plots/a.png": "a", "outputs/model.pt": "a"}
    assert [each.path for each in store.artifacts.outputs_to_resume("r1")] == ["outputs/model.pt"]
    assert store.artifacts.list_current("r1") == []
    assert store.runs.apply_calls("r1", "2/calls/1", 0, 1, [], [file("plots/a.png", "b")])
    assert store.runs.apply_calls("r1", "2/calls/1", 1, 2, [], [file("plots/a.png", "c")])
    assert [event.message for event in store.runs.events("r1") if event.kind == "warning"] == [
        "plots/a.png was uploaded again with other content; the first one is kept"
    ]
    store.artifacts.add("r1", file("outputs/model.pt", "d"))
    with pytest.raises(Conflict):
        store.artifacts.add("r1", file("outputs/model.pt", "e"))
    assert [each.path for each in store.artifacts.list_current("r1")] == ["outputs/model.pt", "plots/a.png"]
    finish(store, "r1", fence=2, ending=Ending(artifacts=[file("outputs/late.pt")]))
    assert paths(store, "r1") == {"outputs/late.pt": "a", "outputs/model.pt": "d", "plots/a.png": "b"}


def test_files_of_earlier_attempts_are_not_garbage(store: Store) -> None:
    submit(store, "r1")
    digest, size = store.blobs.put([b"checkpoint"], None)
    requeue(store, "r1", ending=Ending(artifacts=[Artifact("outputs/model.pt", digest, size, datetime.now(UTC))]))
    later = datetime.now(UTC) + timedelta(days=30)
    assert [item.id for item in store.retention.candidates(Policy(), later) if item.kind == "blob"] == []


def test_logs_of_earlier_attempts_go_with_the_others(store: Store) -> None:
    submit(store, "r1")
    requeue(store, "r1", slots=1, ending=Ending(artifacts=[file(LOG)]))
    finish(store, "r1", fence=2, ending=Ending(artifacts=[file(LOG, "b"), file("attempts/notes.txt", "c")]))
    later = datetime.now(UTC) + timedelta(days=30)
    store.retention.apply(store.retention.candidates(Policy(logs=timedelta(days=1)), later))
    assert paths(store, "r1") == {"attempts/notes.txt": "c"}


def test_the_machine_of_an_attempt_is_cleaned_although_its_run_goes_on(store: Store) -> None:
    submit(store, "r1")
    store.runs.save_handle("r1", 1, {"native_id": "1"}, fence=1)
    requeue(store, "r1", slots=1)
    store.runs.save_handle("r1", 2, {"native_id": "2"}, fence=2)
    later = datetime.now(UTC) + timedelta(seconds=60)
    assert [(left.run, left.number) for left in store.runs.uncleaned(later, 10)] == [("r1", 1)]
    [left] = store.runs.uncleaned(later, 10)
    store.runs.mark_cleaned([("r1", 1, left.nonce)])
    assert store.runs.uncleaned(later, 10) == []


def log(store: Store, writer: str, steps: range, attempt: int, factor: float = 1.0, name: str = "loss") -> None:
    lines = [line(name, factor * step, float(step), s=step) for step in steps]
    offset = store.metrics.writer_offset("r1", writer)
    assert store.metrics.append("r1", writer, offset, offset + len(lines), lines, attempt=attempt)


@pytest.mark.parametrize("length", [10, 1024, 2000, 3000])
@pytest.mark.parametrize("again", [0, 5, 1024, 1500])
def test_steps_that_are_logged_again_are_shown_once(store: Store, length: int, again: int) -> None:
    submit(store, "r1")
    log(store, "m", range(length), 1)
    log(store, "2/m", range(again, again + 3), 2, factor=-1.0)
    log(store, "2/m", range(again + 3, again + 6), 2, factor=-1.0)
    expected = [(float(step), step) for step in range(min(length, again))]
    expected += [(-1.0 * step, step) for step in range(again, again + 6)]
    series = store.metrics.read("r1")["loss"]
    assert [(value, step) for value, _, step in series.values] == expected
    assert series.count == len(expected) == store.metrics.counts("r1")["loss"]
    summary = store.metrics.summaries("r1")["loss"]
    numbers = [value for value, _ in expected]
    assert (summary.least, summary.most, summary.values[0][0]) == (min(numbers), max(numbers), numbers[-1])
    [thinned] = store.metrics.downsample("r1", ["loss"], 10_000)
    assert [value for _, _, _, value in thinned.points] == numbers
    assert store.metrics.attempts("r1") == {"loss": 2}


def test_a_series_without_steps_keeps_all_points(store: Store) -> None:
    submit(store, "r1")
    store.metrics.append("r1", "m", 0, 2, [line("loss", 1.0), line("loss", 2.0)])
    store.metrics.append("r1", "2/m", 0, 1, [line("loss", 3.0)], attempt=2)
    assert [value for value, _, _ in store.metrics.read("r1")["loss"].values] == [1.0, 2.0, 3.0]


def test_only_the_beginning_of_an_attempt_cuts_a_series(store: Store) -> None:
    """Several processes of one attempt may log the same steps."""
    submit(store, "r1")
    log(store, "m", range(6), 1)
    log(store, "2/rank0", range(3, 6), 2)
    log(store, "2/rank1", range(3, 6), 2)
    log(store, "3/rank0", range(5, 7), 3)
    steps = [step for _, _, step in store.metrics.read("r1")["loss"].values]
    assert steps == [0, 1, 2, 3, 4, 3, 4, 5, 6]
    log(store, "3/rank0", range(0, 2), 3, name="other")
    assert store.metrics.attempts("r1") == {"loss": 3, "other": 3}
