"""Runs whose attempt is taken away from them, or fails, and that are queued again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from tests.store.makers import evicted, with_slots
from windlass.core.entities import RetryPolicy, Run
from windlass.core.states import Phase, Reason, RunState
from windlass.drivers.base import RunFile
from windlass.drivers.kinds._dummy_backend import Backend
from windlass.server.streaming.log_reader import find_file
from windlass.store import Ending

LOG = "user_logs/std_log.txt"
FOR_EVER = "100000"


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


def until_running(stage: Stage, run: Run, attempt: int) -> Run:
    return stage.until(run, lambda found: found.state is RunState.RUNNING and found.attempt == attempt)


def write_output(stage: Stage, run: Run, attempt: int, text: str) -> None:
    Backend(stage.folder).write(f"{run.id}.{attempt}", "source/outputs/model.txt", text.encode())


def read(stage: Stage, run: Run, path: str) -> bytes:
    file = find_file(stage.store, stage.run(run), path)
    assert file is not None, path
    return file.read(0, file.size)


def test_an_evicted_run_goes_on_with_its_outputs_and_ends(stage: Stage) -> None:
    run = until_running(stage, stage.submit(sleep="1000", log="hello"), 1)
    write_output(stage, run, 1, "after one attempt")
    stage.evict(run)
    run = until_running(stage, run, 2)
    assert (stage.folder / "jobs" / f"{run.id}.2/source/outputs/model.txt").read_text() == "after one attempt"
    assert read(stage, run, "attempts/1/outputs/model.txt") == b"after one attempt", "while the run goes on"
    write_output(stage, run, 2, "after two attempts")
    stage.set_clock(time.time() + 2000)
    run = stage.until_final(run)
    assert (run.state, run.attempt, run.eviction) == (RunState.COMPLETED, 2, None)
    files = {artifact.path for artifact in stage.store.artifacts.list(run.id)}
    assert files == {LOG, "outputs/model.txt", f"attempts/1/{LOG}"}
    assert read(stage, run, "outputs/model.txt") == b"after two attempts"
    assert b"hello" in read(stage, run, f"attempts/1/{LOG}")
    assert [attempt.reason for attempt in stage.store.runs.attempts(run.id)] == [Reason.EVICTED, Reason.EXITED]
    events = stage.store.runs.events(run.id)
    assert [event.message for event in events if event.kind in ("eviction", "attempt")] == [
        "an eviction was requested: the node leaves",
        "evicted: the node leaves; attempt 2 of at most 4 waits",
    ]
    assert any(event.message == "evicting: the node leaves" for event in events)


def test_the_folder_of_an_evicted_attempt_is_removed_while_the_run_goes_on(stage: Stage) -> None:
    run = until_running(stage, stage.submit(sleep=FOR_EVER), 1)
    stage.evict(run)
    run = until_running(stage, run, 2)
    stage.until(run, lambda _: not (stage.folder / "jobs" / f"{run.id}.1").exists())
    assert (stage.folder / "jobs" / f"{run.id}.2").exists()
    assert not stage.run(run).is_final


def test_evictions_end(stage: Stage) -> None:
    run = stage.submit(sleep=FOR_EVER)
    for attempt in range(1, 5):
        until_running(stage, run, attempt)
        stage.evict(run)
    run = stage.until_final(run)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, Reason.EVICTED, 4)
    assert run.message == "evicted: the node leaves; it is not queued again after 3 of at most 3 further attempts"
    assert run.error is not None and "evicted" in run.error["message"]
    assert stage.store.targets.counts(WORKSPACE).get(TARGET, (0, 0)) == (0, 0)


def test_an_eviction_that_came_through_another_server_is_found(stage: Stage) -> None:
    run = until_running(stage, stage.submit(sleep=FOR_EVER), 1)
    stage.store.runs.request_eviction(WORKSPACE, run.id, "the node leaves")
    until_running(stage, run, 2)


@pytest.mark.parametrize("target", [TARGET, "nowhere"])
def test_a_run_that_waits_for_its_target_is_evicted_before_it_starts(stage: Stage, target: str) -> None:
    stage.store.targets.ensure(WORKSPACE, "nowhere", "local", {"root": "/dev/null/machine"}, 1, True)
    submitted = stage.submit(target, start="full")
    run = stage.until(submitted, lambda found: found.reason is Reason.WAITING_FOR_TARGET)
    stage.evict(run)
    run = stage.until(run, lambda found: found.attempt == 2 and found.reason is Reason.WAITING_FOR_TARGET)
    [first, _] = stage.store.runs.attempts(run.id)
    assert (first.reason, first.handle) == (Reason.EVICTED, None)
    stage.cancel(run)
    assert stage.until_final(run).state is RunState.CANCELED


def test_a_start_whose_receipt_was_lost_is_stopped_by_an_eviction(stage: Stage) -> None:
    run = stage.submit(start="unanswered", sleep=FOR_EVER)
    stage.evict(run)
    stage.until(run, lambda found: found.attempt == 2)
    stage.until(run, lambda _: not (stage.folder / "jobs" / f"{run.id}.1").exists())


def test_a_cancel_wins_over_an_eviction(stage: Stage) -> None:
    run = until_running(stage, stage.submit(sleep=FOR_EVER), 1)
    stage.store.runs.request_eviction(WORKSPACE, run.id, "the node leaves")
    stage.cancel(run)
    run = stage.until_final(run)
    assert (run.state, run.attempt) == (RunState.CANCELED, 1)


def test_a_script_that_ends_in_its_own_way_is_not_started_again(stage: Stage) -> None:
    run = until_running(stage, stage.submit(sleep="1000"), 1)
    stage.set_clock(time.time() + 2000)
    stage.evict(run)
    run = stage.until_final(run)
    assert (run.state, run.attempt) == (RunState.COMPLETED, 1)


def test_a_run_that_is_canceled_while_it_waits_has_the_files_of_its_last_attempt(stage: Stage) -> None:
    stage.store.targets.update(WORKSPACE, TARGET, slots=1)
    run = until_running(stage, stage.submit(sleep=FOR_EVER, log="hello"), 1)
    write_output(stage, run, 1, "a checkpoint")
    stage.store.targets.update(WORKSPACE, TARGET, slots=0)
    stage.dispatcher.drivers.invalidate(WORKSPACE, TARGET)
    stage.evict(run)
    run = stage.until(run, lambda found: found.attempt == 2)
    assert run.state is RunState.QUEUED
    stage.cancel(run)
    run = stage.until_final(run)
    assert run.state is RunState.CANCELED
    assert read(stage, run, "outputs/model.txt") == b"a checkpoint"
    assert b"hello" in read(stage, run, LOG)


@pytest.mark.parametrize(("exit", "attempts"), [("75", 3), ("1", 1)])
def test_retries_follow_the_exit_codes_that_are_named(stage: Stage, exit: str, attempts: int) -> None:
    stage.retries = RetryPolicy(2, ("exit:75",))
    run = stage.until_final(stage.submit(exit=exit))
    assert (run.state, run.reason, run.exit_code) == (RunState.FAILED, Reason.EXITED, int(exit))
    assert run.attempt == attempts
    assert ("2 of 2 retries are used" in run.message) is (attempts == 3)
    names = [f"attempts/{number}/{LOG}" for number in range(1, attempts)]
    assert [a.path for a in stage.store.artifacts.list(run.id)] == [*names, LOG]


def test_other_runs_have_the_slot_meanwhile_and_the_older_run_is_first_again(stage: Stage) -> None:
    stage.store.targets.update(WORKSPACE, TARGET, slots=1)
    first = until_running(stage, stage.submit(sleep=FOR_EVER), 1)
    second = stage.submit(sleep="1000")
    assert stage.run(second).state is RunState.QUEUED
    stage.evict(first)
    stage.until(first, lambda found: found.attempt == 2)
    stage.set_clock(time.time() + 2000)
    assert stage.until_final(second).state is RunState.COMPLETED
    until_running(stage, first, 2)


def test_an_eviction_survives_its_server(store_url: str, tmp_path: Path) -> None:
    """At every moment of it: requested, stopped, collected; only what is in the store counts."""
    with staged(store_url, tmp_path) as stage:
        run = until_running(stage, stage.submit(sleep="1000"), 1)
        write_output(stage, run, 1, "a checkpoint")
        stage.store.runs.request_eviction(WORKSPACE, run.id, "the node leaves")
    with staged(store_url, tmp_path) as stage:
        stage.reconciler.start()
        until_running(stage, run, 2)
        stage.set_clock(time.time() + 2000)
        run = stage.until_final(run)
        assert (run.state, run.attempt) == (RunState.COMPLETED, 2)
        assert read(stage, run, "outputs/model.txt") == b"a checkpoint"


class Logging(Backend):
    """Its jobs log steps of a metric to a file of the same name in each attempt; the second begins at step 2."""

    def files(self, job_id: str) -> list[RunFile]:
        attempt = int(job_id.rpartition(".")[2])
        steps = range(4) if attempt == 1 else range(2, 6)
        lines = [json.dumps({"n": "loss", "v": attempt * 100 + step, "t": 1.0, "s": step}) for step in steps]
        data = "".join(f"{text}\n" for text in lines).encode()
        calls = b'{"do": "tag", "key": "attempt", "value": "%d"}\n' % attempt
        self.write(job_id, "metrics/main.jsonl", data)
        self.write(job_id, "calls/main.jsonl", calls)
        ours = [RunFile("metrics/main.jsonl", len(data)), RunFile("calls/main.jsonl", len(calls))]
        return [*super().files(job_id), *ours]


def test_metrics_and_calls_of_all_attempts_are_one_story(stage: Stage) -> None:
    stage.connections.get(f"dummy {stage.folder}", lambda: Logging(stage.folder))
    run = until_running(stage, stage.submit(sleep="1000"), 1)
    stage.evict(run)
    until_running(stage, run, 2)
    assert stage.run(run).tags == {"attempt": "1"}
    stage.set_clock(time.time() + 2000)
    run = stage.until_final(run)
    values = [value for value, _, _ in stage.store.metrics.read(run.id)["loss"].values]
    assert values == [100, 101, 202, 203, 204, 205]
    assert run.tags == {"attempt": "2"}


def test_a_server_that_lost_the_run_leaves_its_next_attempt_alone(stage: Stage) -> None:
    """Another server has queued it again, and started the next attempt, of which this one knows nothing."""
    run = until_running(stage, stage.submit(sleep=FOR_EVER), 1)
    tracked = stage.dispatcher.tracked.get(run.id)
    assert tracked is not None
    stage.store.runs.requeue(
        run.id,
        expect=RunState.RUNNING,
        step=evicted(),
        fence=tracked.fence,
        nonce="second",
        ending=Ending(),
        owner="another",
        capacity_of=with_slots(4),
        lease_seconds=3600,
    )
    stage.reconciler.wake(run.id)
    stage.until(run, lambda _: stage.dispatcher.tracked.get(run.id) is None)
    found = stage.run(run)
    assert (found.state, found.attempt) == (RunState.STARTING, 2)
    assert Backend(stage.folder).any_record(f"{run.id}.2") is None
    record = Backend(stage.folder).any_record(f"{run.id}.1")
    assert record is None or record.seen(time.time()).phase is Phase.RUNNING
