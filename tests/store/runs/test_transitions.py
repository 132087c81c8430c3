"""State transitions: compare-and-set, an event with each, and final states never change."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.store.makers import (
    LEASE,
    OWNER,
    ended,
    finish,
    interactive,
    make_workspace,
    replayed,
    requeue,
    running,
    submit,
    with_slots,
)
from windlass.core.entities import Artifact
from windlass.core.errors import Conflict, InvalidRequest, NotFound
from windlass.core.states import Intent, Reason, RunState, Step
from windlass.store import Ending, Store

PREPARING = Step(RunState.PREPARING, Reason.BUILDING_ENVIRONMENT, "building the environment")


def test_a_run_goes_through_its_states_with_events(store: Store) -> None:
    submit(store, "r1")
    store.runs.advance("r1", expect=RunState.STARTING, step=PREPARING, fence=1, data={"environment": "abc"})
    go = Step(RunState.RUNNING, Reason.STARTED, "go")
    run = store.runs.advance("r1", expect=RunState.PREPARING, step=go, fence=1)
    assert (run.state, run.reason, run.message) == (RunState.RUNNING, Reason.STARTED, "go")
    assert run.started_at is not None and run.state_at >= run.created_at
    events = store.runs.events("r1")
    assert [event.state for event in events] == [RunState.STARTING, RunState.PREPARING, RunState.RUNNING]
    assert events[1].data == {"environment": "abc"}
    assert store.runs.events("r1", after=2) == events[2:]
    assert store.runs.events("r1", limit=1) == events[:1]
    assert run.version > 1


def test_the_message_of_a_waiting_run_is_updated(store: Store) -> None:
    submit(store, "r1")
    before = store.runs.advance("r1", expect=RunState.STARTING, step=PREPARING, fence=1)
    run = store.runs.update_message("r1", step=replace(PREPARING, message="pulling the image"), fence=1)
    assert (run.state, run.message, run.state_at) == (RunState.PREPARING, "pulling the image", before.state_at)
    assert run.version > before.version
    assert [event.message for event in store.runs.events("r1")][1:] == [PREPARING.message, "pulling the image"]
    assert replayed(store, "r1") == (run.state, run.reason, run.message)
    for step, fence in ((PREPARING, 2), (replace(PREPARING, state=RunState.QUEUED), 1)):
        with pytest.raises(Conflict):
            store.runs.update_message("r1", step=step, fence=fence)
    assert store.runs.get("default", "r1") == run


def test_only_the_expected_state_moves(store: Store) -> None:
    submit(store, "r1")
    running(store, "r1")
    with pytest.raises(Conflict, match="is Running by now, not Starting"):
        running(store, "r1")
    with pytest.raises(NotFound):
        running(store, "nobody")
    assert len(store.runs.events("r1")) == 2


def test_only_forward_moves(store: Store) -> None:
    submit(store, "r1")
    running(store, "r1")
    for state in (RunState.STARTING, RunState.QUEUED, RunState.RUNNING, RunState.NOT_STARTED):
        with pytest.raises(Conflict, match="cannot become"):
            store.runs.advance("r1", expect=RunState.RUNNING, step=Step(state, Reason.ACCEPTED, ""), fence=1)


def test_only_the_fence_that_holds_moves(store: Store) -> None:
    submit(store, "r1", lease=-1)
    assert [leased.fence for leased in store.runs.lease("server-2", LEASE, 10)] == [2]
    with pytest.raises(Conflict, match="new owner; fence 1"):
        running(store, "r1", fence=1)
    with pytest.raises(Conflict):
        store.runs.save_handle("r1", 1, {"native_id": "old"}, fence=1)
    with pytest.raises(Conflict):
        requeue(store, "r1", fence=1)
    store.runs.save_handle("r1", 1, {"native_id": "new"}, fence=2)
    assert running(store, "r1", fence=2).state is RunState.RUNNING


def test_the_first_instance_that_claims_an_attempt_owns_it(store: Store) -> None:
    submit(store, "r1")
    assert store.runs.claim("r1", 1, "pod-a", fence=1) == "pod-a"
    assert store.runs.claim("r1", 1, "pod-b", fence=1) == "pod-a"
    assert store.runs.claim("r1", 1, "pod-a", fence=1) == "pod-a", "repeated after a crash"


def test_instances_that_claim_at_the_same_time_agree_on_the_owner(store: Store) -> None:
    submit(store, "r1")
    with ThreadPoolExecutor(8) as pool:
        owners = list(pool.map(lambda number: store.runs.claim("r1", 1, f"pod-{number}", fence=1), range(8)))
    assert len(set(owners)) == 1


def test_only_the_owner_of_the_lease_of_an_active_run_claims(store: Store) -> None:
    submit(store, "r1")
    with pytest.raises(Conflict, match="new owner"):
        store.runs.claim("r1", 1, "pod-a", fence=0)
    with pytest.raises(Conflict, match="cannot be claimed"):
        store.runs.claim("r1", 2, "pod-a", fence=1)
    assert store.runs.claim("r1", 1, "pod-b", fence=1) == "pod-b", "nothing was claimed before"


def test_the_end_is_written_whole(store: Store) -> None:
    submit(store, "r1")
    start = store.runs.get("default", "r1").created_at + timedelta(seconds=1)
    log = Artifact("user_logs/std_log.txt", "a" * 64, 5, start, gap_offset=3, gap_length=7)
    ending = Ending(
        {"code": "UserError", "message": "boom"}, {"cpu_seconds": 1.5}, [log], start, start + timedelta(seconds=2)
    )
    step = Step(RunState.FAILED, Reason.SIGNALED, "killed by signal 9", None, 9)
    run = store.runs.advance("r1", expect=RunState.STARTING, step=step, fence=1, ending=ending)
    assert (run.state, run.exit_code, run.signal) == (RunState.FAILED, None, 9)
    assert (run.error, run.usage) == (ending.error, ending.usage)
    assert (run.started_at, run.ended_at) == (start, start + timedelta(seconds=2))
    assert store.artifacts.list("r1") == [log]
    attempt = store.runs.attempts("r1")[0]
    assert (attempt.reason, attempt.signal, attempt.ended_at) == (Reason.SIGNALED, 9, run.ended_at)
    assert store.targets.counts("default") == {}
    assert store.runs.renew(OWNER, LEASE) == set()
    assert replayed(store, "r1") == (run.state, run.reason, run.message)


def test_the_end_has_the_servers_time_if_the_runner_reported_none(store: Store) -> None:
    submit(store, "r1")
    begun = running(store, "r1").started_at
    run, _ = finish(store, "r1", expect=RunState.RUNNING)
    assert run.started_at == begun and run.ended_at == run.state_at


def test_final_never_changes(store: Store) -> None:
    submit(store, "r1")
    final, _ = finish(store, "r1")
    for state in RunState:
        for expect in (RunState.COMPLETED, RunState.STARTING):
            with pytest.raises(Conflict):
                store.runs.advance("r1", expect=expect, step=Step(state, Reason.EXITED, ""), fence=None)
    with pytest.raises(Conflict):
        finish(store, "r1", exit_code=1)
    for expect in (RunState.COMPLETED, RunState.STARTING):
        with pytest.raises(Conflict):
            requeue(store, "r1", expect=expect)
    with pytest.raises(Conflict):
        store.runs.save_handle("r1", 1, {}, fence=1)
    assert store.runs.request_cancel("default", "r1") == final
    assert store.runs.get("default", "r1") == final
    assert [event.state for event in store.runs.events("r1")] == [RunState.STARTING, RunState.COMPLETED]


def test_finish_ends(store: Store) -> None:
    submit(store, "r1")
    with pytest.raises(InvalidRequest):
        store.runs.finish(
            "r1", expect=RunState.STARTING, step=PREPARING, fence=1, ending=None,
            owner=OWNER, capacity_of=with_slots(1), lease_seconds=LEASE,
        )  # fmt: skip


def test_of_many_who_end_a_run_one_does(store: Store) -> None:
    submit(store, "r1")
    start = threading.Barrier(8)

    def end(code: int) -> bool:
        start.wait()
        try:
            finish(store, "r1", exit_code=code)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(end, range(8)))
    assert answers.count(True) == 1
    assert store.runs.get("default", "r1").exit_code == answers.index(True)
    assert len(store.runs.events("r1")) == 2


def test_a_file_that_is_there_keeps_its_bytes(store: Store) -> None:
    """A script uploaded a file and wrote another one of that name: the run ends all the same."""
    run = submit(store, "r1")[0]
    first = Artifact("outputs/model.pkl", "a" * 64, 1, run.created_at)
    store.artifacts.add("r1", first)
    other = Artifact("outputs/model.pkl", "b" * 64, 2, run.created_at)
    log = Artifact("user_logs/std_log.txt", "c" * 64, 3, run.created_at)
    finish(store, "r1", ending=Ending(artifacts=[other, log]))
    assert store.artifacts.list("r1") == [first, log]
    assert store.runs.events("r1")[-1].data == {"kept_before": ["outputs/model.pkl"]}


def test_silence_and_back(store: Store) -> None:
    submit(store, "r1")
    running(store, "r1")
    lost = Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, "the target does not answer")
    assert store.runs.advance("r1", expect=RunState.RUNNING, step=lost, fence=1).state is RunState.NOT_RESPONDING
    back = Step(RunState.RUNNING, Reason.STARTED, "")
    run = store.runs.advance("r1", expect=RunState.NOT_RESPONDING, step=back, fence=1)
    assert run.started_at == store.runs.events("r1")[1].at
    assert store.targets.counts("default") == {"local": (1, 0)}


def test_the_intent_to_cancel_is_stored(store: Store) -> None:
    submit(store, "r1")
    running(store, "r1")
    run = store.runs.request_cancel("default", "r1")
    assert (run.state, run.intent, run.status) == (RunState.RUNNING, Intent.CANCEL, "CancelRequested")
    assert store.runs.request_cancel("default", "r1") == run
    assert [event.kind for event in store.runs.events("r1")] == ["state", "state", "cancel"]
    run, _ = finish(store, "r1", expect=RunState.RUNNING, exit_code=0)
    assert run.status == "Completed"  # it was faster


def test_a_waiting_run_is_canceled_at_once(store: Store) -> None:
    submit(store, "r1", slots=1)
    submit(store, "r2", slots=1)
    run = store.runs.request_cancel("default", "r2")
    assert (run.state, run.reason) == (RunState.CANCELED, Reason.STOPPED)
    assert run.ended_at is not None and run.started_at is None
    assert store.targets.counts("default") == {"local": (1, 0)}
    assert finish(store, "r1", slots=1)[1] == []
    assert replayed(store, "r2") == (RunState.CANCELED, Reason.STOPPED, run.message)


def test_a_cancel_of_anothers_run_finds_nothing(store: Store) -> None:
    make_workspace(store, "team")
    submit(store, "r1")
    for workspace, id in (("team", "r1"), ("default", "nobody")):
        with pytest.raises(NotFound):
            store.runs.request_cancel(workspace, id)
        with pytest.raises(NotFound):
            store.runs.get(workspace, id)
        with pytest.raises(NotFound):
            store.runs.describe(workspace, id, name="x")
        with pytest.raises(NotFound):
            store.runs.heartbeat(workspace, id)
        with pytest.raises(NotFound):
            store.runs.children(workspace, id)


def test_events_of_many_writers_have_no_gap(store: Store) -> None:
    submit(store, "r1")
    with ThreadPoolExecutor(8) as pool:
        appended = list(pool.map(lambda n: store.runs.append_event("r1", "note", f"n{n}", {"n": n}), range(40)))
    assert sorted(event.seq for event in appended) == list(range(2, 42))
    assert sorted(store.runs.events("r1")[1:], key=lambda e: e.seq) == sorted(appended, key=lambda e: e.seq)
    assert replayed(store, "r1")[0] is RunState.STARTING
    with pytest.raises(NotFound):
        store.runs.append_event("nobody", "note")


def test_a_message_of_any_bytes_is_kept(store: Store) -> None:
    submit(store, "r1")
    step = Step(RunState.FAILED, Reason.START_FAILED, "bad \0 byte \ud83d \u202e é")
    run = store.runs.advance("r1", expect=RunState.STARTING, step=step, fence=1)
    assert run.message == "bad \ufffd byte ? \u202e é" == store.runs.events("r1")[-1].message


def test_interactive_runs_have_heartbeats(store: Store) -> None:
    run = store.runs.create([interactive("a"), interactive("b")])[1]
    submit(store, "r1")
    later = run.created_at + timedelta(seconds=60)
    assert [each.id for each in store.runs.silent_interactive(later)] == ["a", "b"]
    assert store.runs.heartbeat("default", "a").id == "a"
    assert [each.id for each in store.runs.silent_interactive(run.created_at + timedelta(microseconds=1))] == ["b"]
    store.runs.advance("b", expect=RunState.RUNNING, step=ended(), fence=None)
    assert [each.id for each in store.runs.silent_interactive(later)] == ["a"]
    silent = Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, "not heard of")
    store.runs.advance("a", expect=RunState.RUNNING, step=silent, fence=None)
    assert store.runs.silent_interactive(later) == [], "it is known by now"


def test_children_by_level_or_all(store: Store) -> None:
    store.runs.create([interactive("a"), interactive("b", parent="a"), interactive("c", parent="b")])
    store.runs.create([interactive("d", parent="a"), interactive("other")])
    assert [run.id for run in store.runs.children("default", "a")] == ["b", "d"]
    assert [run.id for run in store.runs.children("default", "a", recursive=True)] == ["b", "c", "d"]
    assert store.runs.children("default", "c", recursive=True) == []


def test_machines_are_cleaned_once(store: Store) -> None:
    for id in ("ended", "active", "never"):
        submit(store, id)
    store.runs.save_handle("ended", 1, {"native_id": "1"}, fence=1)
    store.runs.save_handle("active", 1, {"native_id": "2"}, fence=1)
    run, _ = finish(store, "ended")
    finish(store, "never")
    assert run.ended_at is not None
    later = run.ended_at + timedelta(seconds=60)
    found = store.runs.uncleaned(later, 10)
    assert [(left.run, left.number, left.handle) for left in found] == [("ended", 1, {"native_id": "1"})]
    assert store.runs.uncleaned(run.ended_at, 10) == []
    store.runs.mark_cleaned([("ended", 1, "another")])
    assert store.runs.uncleaned(later, 10) == found
    store.runs.mark_cleaned([("ended", 1, found[0].nonce)])
    assert store.runs.uncleaned(later, 10) == []
