"""What becomes of runs when targets misbehave."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import create_engine, delete

from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from tests.store.makers import with_slots
from windlass.core.entities import Run, RunSpec
from windlass.core.errors import Denied, InvalidRequest, NotFound, TargetRejected, TargetUnreachable, WindlassError
from windlass.core.states import Phase, Reason, RunState
from windlass.drivers.base import RunFile
from windlass.drivers.kinds._dummy_backend import Backend, Record
from windlass.server.security.key_file import KeyFileError
from windlass.server.security.run_secrets import RunSecrets
from windlass.store import NewRun
from windlass.store.db.schema import targets


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


def test_a_run_ends_with_its_exit_code_and_its_log(stage: Stage) -> None:
    run = stage.until_final(stage.submit(exit="3", log="so long"))
    assert (run.state, run.reason, run.exit_code) == (RunState.FAILED, Reason.EXITED, 3)
    assert run.error is not None and "so long" in run.error["message"]
    [log] = [artifact for artifact in stage.store.artifacts.list(run.id) if artifact.path == "user_logs/std_log.txt"]
    with stage.store.blobs.open(log.digest) as file:
        assert b"so long" in file.read()


def test_a_run_that_can_never_start_fails_at_once_and_says_why(stage: Stage) -> None:
    run = stage.until_final(stage.submit(start="rejected"))
    assert (run.state, run.reason) == (RunState.FAILED, Reason.REJECTED)
    assert "refuses" in run.message


def test_the_next_run_does_not_wait_for_the_record_of_the_last(stage: Stage) -> None:
    stage.store.targets.update(WORKSPACE, TARGET, slots=1)
    first, second = stage.submit(log="first", sleep="0.2"), stage.submit(sleep="600")
    blobs = stage.settings.files / "blobs"
    blobs.rename(stage.settings.files / "away")  # the log of the first cannot be kept for now
    blobs.touch()
    stage.until(second, lambda found: found.state is RunState.RUNNING)
    assert not stage.run(first).is_final
    blobs.unlink()
    blobs.with_name("away").rename(blobs)
    assert stage.until_final(first).state is RunState.COMPLETED


def test_a_target_without_room_makes_it_wait_with_a_reason(stage: Stage) -> None:
    run = stage.until(stage.submit(start="full"), lambda found: found.reason is Reason.WAITING_FOR_TARGET)
    assert run.state is RunState.QUEUED
    assert "no room" in run.message
    stage.cancel(run)
    assert stage.until_final(run).state is RunState.CANCELED


def test_an_unreachable_target_is_waited_for(stage: Stage) -> None:
    stage.cut()
    run = stage.until(stage.submit(), lambda found: found.state is RunState.QUEUED)
    assert run.reason is Reason.WAITING_FOR_TARGET
    stage.heal()
    assert stage.until_final(run).state is RunState.COMPLETED


def try_in_vain(stage: Stage) -> None:
    for seconds in range(31, 400, 31):
        stage.reconciler.step(time.monotonic() + seconds)
        time.sleep(0.02)


def test_who_checks_a_target_lets_runs_go_on_that_wait_for_it(stage: Stage) -> None:
    stage.cut()
    run = stage.until(stage.submit(), lambda found: found.state is RunState.QUEUED)
    try_in_vain(stage)
    stage.heal()
    stage.targets.check(WORKSPACE, TARGET)
    deadline = time.monotonic() + 20  # by itself it would be tried half a minute later
    while Backend(stage.folder).any_record(f"{run.id}.1") is None:
        assert time.monotonic() < deadline
        stage.reconciler.step(time.monotonic())
        time.sleep(0.01)


def test_what_is_waited_for_is_told_as_it_is_now(stage: Stage) -> None:
    run = stage.until(stage.submit(start="full"), lambda found: "no room" in found.message)
    stage.cut()
    run = stage.until(run, lambda found: "no room" not in found.message)
    assert (run.state, run.reason) == (RunState.QUEUED, Reason.WAITING_FOR_TARGET)
    told = len(stage.store.runs.events(run.id))
    try_in_vain(stage)  # the same again is no news
    assert len(stage.store.runs.events(run.id)) == told
    stage.cancel(run)


@pytest.mark.parametrize("trouble", ["halfway", "unanswered"])
def test_a_start_that_was_not_answered_starts_once(stage: Stage, trouble: str) -> None:
    run = stage.until_final(stage.submit(start=trouble))
    assert run.state is RunState.COMPLETED
    assert run.attempt == 1


class Logging(Backend):
    """Its jobs log a metric as soon as they are there."""

    def keep(self, job_id: str, record: Record) -> None:
        self.write(job_id, "metrics/1.jsonl", b'{"n": "loss", "v": 0.5, "t": 1.0}\n')
        super().keep(job_id, record)

    def files(self, job_id: str) -> list[RunFile]:
        return [*super().files(job_id), RunFile("metrics/1.jsonl", 1)]


def test_a_script_that_is_quicker_than_the_receipt_of_its_start_reads_what_it_wrote(stage: Stage) -> None:
    stage.connections.get(f"dummy {stage.folder}", lambda: Logging(stage.folder))
    run = stage.submit(start="unanswered", sleep="1000")
    while not (stage.folder / "jobs" / f"{run.id}.1" / "job.json").exists():
        time.sleep(0.01)
    stage.targets.pull(run.id)
    assert list(stage.store.metrics.counts(run.id)) == ["loss"]


def test_a_run_whose_target_was_never_reached_is_canceled_at_once(stage: Stage) -> None:
    """There was no connection by which it could have been sent."""
    stage.store.targets.ensure(WORKSPACE, "nowhere", "local", {"root": "/dev/null/machine"}, 1, True)
    run = stage.until(stage.submit("nowhere"), lambda found: found.state is RunState.QUEUED)
    assert run.reason is Reason.WAITING_FOR_TARGET
    stage.cancel(run)
    run = stage.until_final(run)
    assert (run.state, run.message) == (RunState.CANCELED, "canceled before it started")
    assert stage.store.targets.counts(WORKSPACE).get("nowhere", (0, 0)) == (0, 0)


@pytest.mark.parametrize("is_canceled", [True, False])
def test_a_run_whose_receipt_never_came_is_given_up_and_stopped_later(
    store_url: str, tmp_path: Path, is_canceled: bool
) -> None:
    with staged(store_url, tmp_path, give_up_hours=0.0002, keep_run_folders_days=None) as stage:
        backend = Locked(stage.folder, TargetUnreachable)
        stage.connections.get(f"dummy {stage.folder}", lambda: backend)
        run = stage.until(stage.submit(start="unanswered", sleep="1000"), lambda _: backend.refused > 0)
        if is_canceled:
            stage.cancel(run)
        run = stage.until_final(run)
        assert (run.state, run.reason) == (RunState.FAILED, Reason.GAVE_UP)
        assert stage.store.targets.counts(WORKSPACE).get(TARGET, (0, 0)) == (0, 0)
        backend.is_locked = False
        stage.until(run, lambda _: stage.phase_there(run) is Phase.ENDED)
        assert stage.run(run) == run


def test_a_run_that_waits_for_its_target_to_have_room_is_not_given_up(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path, give_up_hours=0.0001) as stage:
        run = stage.until(stage.submit(start="full"), lambda found: found.reason is Reason.WAITING_FOR_TARGET)
        deadline = time.monotonic() + 1
        assert not stage.until(run, lambda found: found.is_final or time.monotonic() > deadline).is_final


class Locked(Backend):
    """A folder that somebody forbids us to use as soon as there is a job in it, until he lets us."""

    def __init__(self, folder: Path, trouble: type[WindlassError]) -> None:
        super().__init__(folder)
        self.trouble = trouble
        self.is_locked = False
        self.refused = 0

    def keep(self, job_id: str, record: Record) -> None:
        super().keep(job_id, record)
        self.is_locked = not self.refused

    @contextmanager
    def call(self) -> Iterator[None]:
        if self.is_locked:
            self.refused += 1
            raise self.trouble("The folder cannot be written.", "Mend that.")
        with super().call():
            yield


@pytest.mark.parametrize("trouble", [TargetRejected, InvalidRequest, NotFound, Denied, KeyFileError])
def test_a_run_that_may_be_running_is_not_refused_because_its_target_cannot_be_asked(
    stage: Stage, trouble: type[WindlassError]
) -> None:
    backend = Locked(stage.folder, trouble)
    stage.connections.get(f"dummy {stage.folder}", lambda: backend)
    run = stage.until(stage.submit(start="unanswered"), lambda found: found.is_final or backend.refused > 2)
    assert not run.is_final
    backend.is_locked = False
    assert stage.until_final(run).state is RunState.COMPLETED


def test_a_vanished_job_is_not_an_end(stage: Stage) -> None:
    run = stage.until(stage.submit(sleep="1000", vanish="0"), lambda found: found.state is RunState.NOT_RESPONDING)
    assert run.reason is Reason.NO_CONTACT
    stage.cancel(run)
    assert stage.until_final(run).state is RunState.CANCELED


def test_cancel_reaches_a_run_whoever_accepted_it(stage: Stage) -> None:
    run = stage.until(stage.submit(sleep="1000"), lambda found: found.state is RunState.RUNNING)
    stage.store.runs.request_cancel(WORKSPACE, run.id)  # and nobody tells the reconciler
    assert stage.until_final(run).reason is Reason.STOPPED


def test_more_runs_than_slots_wait_for_their_turn(stage: Stage) -> None:
    stage.store.targets.update(WORKSPACE, TARGET, slots=1)
    first, second = stage.submit(sleep="0.2"), stage.submit()
    assert second.state is RunState.QUEUED
    assert "1" in second.message
    assert stage.until_final(second).state is RunState.COMPLETED
    # The slot is free once the script has ended; the outputs may still be on their way.
    assert stage.run(first).state in {RunState.FINALIZING, RunState.COMPLETED}


def test_another_server_takes_up_what_the_first_one_left(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path) as stage:
        stage.set_clock(1000)
        run = stage.until(stage.submit(sleep="100", exit="5"), lambda found: found.state is RunState.RUNNING)
    with staged(store_url, tmp_path) as stage:
        stage.set_clock(2000)
        stage.reconciler.start()
        assert stage.until_final(run).exit_code == 5


def test_what_another_server_gave_a_run_is_masked_by_who_gets_it_back(stage: Stage) -> None:
    run = stage.until(stage.submit(sleep="1000"), lambda found: found.state is RunState.RUNNING)
    assert stage.run_secrets.redactor(run) is None
    stage.store.runs.release(stage.reconciler.owner)
    [leased] = stage.store.runs.lease("another", 30, 10)
    stage.secret_store.put(WORKSPACE, "key", SecretStr("the-canary-sings"), None, "ann")
    RunSecrets(stage.store, stage.secret_store).open(leased)
    stage.reconciler.step(time.monotonic() + 1000)
    assert stage.run_secrets.redactor(run) is not None


def test_a_run_is_given_up_and_what_it_does_later_is_told(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path, give_up_hours=0.0001) as stage:
        stage.set_clock(1000)
        run = stage.until(stage.submit(sleep="100"), lambda found: found.state is RunState.RUNNING)
        stage.cut()
        given_up = stage.until_final(run)
        assert (given_up.state, given_up.reason) == (RunState.FAILED, Reason.GAVE_UP)
        stage.set_clock(2000)
        stage.heal()
        stage.until(run, lambda _: "late_report" in stage.stories(run))
        assert stage.run(run).state is RunState.FAILED


class Burning(Backend):
    """Says how a job ended and that it left a model; from then on it cannot be reached."""

    model_size = 1

    def files(self, job_id: str) -> list[RunFile]:
        (self.folder / "unreachable").touch()
        return [*super().files(job_id), RunFile("source/outputs/model", self.model_size)]


@pytest.mark.parametrize("size", [1, 9 << 20], ids=["small", "large"])
@pytest.mark.parametrize(("code", "reason"), [(0, Reason.GAVE_UP), (3, Reason.EXITED)])
def test_how_it_ended_stays_known_though_what_it_left_is_lost(
    store_url: str, tmp_path: Path, code: int, reason: Reason, size: int
) -> None:
    """Without its outputs nothing is completed."""
    with staged(store_url, tmp_path, give_up_hours=0.0006) as stage:
        backend = Burning(stage.folder)
        backend.model_size = size
        stage.connections.get(f"dummy {stage.folder}", lambda: backend)
        run = stage.submit(exit=str(code))
        waiting = stage.until(run, lambda found: found.state is RunState.FINALIZING)
        assert waiting.reason is Reason.COLLECTING_OUTPUTS
        given_up = stage.until_final(run)
        assert (given_up.state, given_up.reason, given_up.exit_code) == (RunState.FAILED, reason, code)
        assert given_up.message.startswith(f"exit code {code}, but what it left is lost: gave up after")
        told = [event.message for event in stage.store.runs.events(run.id) if "could not be kept yet" in event.message]
        assert len(told) == 1 and "its connection is cut" in told[0]


def test_what_it_left_is_kept_if_its_target_comes_back(stage: Stage) -> None:
    backend = Burning(stage.folder)
    backend.model_size = 9 << 20
    stage.connections.get(f"dummy {stage.folder}", lambda: backend)
    run = stage.until(stage.submit(log="fine"), lambda found: found.state is RunState.FINALIZING)
    backend.files = partial(Backend.files, backend)  # type: ignore[method-assign]
    stage.heal()
    assert stage.until_final(run).state is RunState.COMPLETED
    assert "user_logs/std_log.txt" in [artifact.path for artifact in stage.store.artifacts.list(run.id)]


@pytest.mark.parametrize("keep_days", [None, 7])
def test_what_was_given_up_does_not_run_on_where_folders_are_kept(
    store_url: str, tmp_path: Path, keep_days: float | None
) -> None:
    with staged(store_url, tmp_path, give_up_hours=0.0001, keep_run_folders_days=keep_days) as stage:
        run = stage.until(stage.submit(sleep="1000"), lambda found: found.state is RunState.RUNNING)
        stage.cut()
        assert stage.until_final(run).reason is Reason.GAVE_UP
        stage.heal()
        stage.until(run, lambda _: stage.phase_there(run) is Phase.ENDED)


def test_a_run_whose_commit_was_not_answered_is_taken_up(store_url: str, tmp_path: Path) -> None:
    """The database took it, with our lease on it, and we never heard of that: nobody else would start it."""
    with staged(store_url, tmp_path, lease_seconds=1) as stage:
        spec = RunSpec(command=("{python}", "act.py"), target=TARGET)
        new = NewRun("unheard", WORKSPACE, "scenes", "azureml.scriptrun", spec=spec, nonce="n")
        run, _, leased = stage.store.runs.submit(new, stage.reconciler.owner, with_slots(4), 1)
        assert leased is not None
        assert stage.until_final(run).state is RunState.COMPLETED


def test_a_surprise_while_giving_up_does_not_leave_the_run_to_itself(
    store_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with staged(store_url, tmp_path, give_up_hours=0.0001) as stage:
        run = stage.until(stage.submit(sleep="1000"), lambda found: found.state is RunState.RUNNING)
        trouble = stage.store.logs.folder / run.id / "1" / "loop"
        trouble.parent.mkdir(parents=True, exist_ok=True)
        trouble.symlink_to(trouble)
        stage.cut()
        stage.until(run, lambda _: any("reconcile failed" in record.message for record in caplog.records))
        assert not stage.run(run).is_final
        trouble.unlink()
        assert stage.until_final(run).reason is Reason.GAVE_UP


def test_the_loop_does_not_wait_for_a_machine_that_hangs(store_url: str, tmp_path: Path) -> None:
    """It renews the leases of runs on all the others."""
    with staged(store_url, tmp_path, keep_run_folders_days=None) as stage:
        run = stage.until_final(stage.submit())
    with staged(store_url, tmp_path) as stage:
        with open(stage.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # from now on the dummy takes calls and does not answer
            round_ = threading.Thread(target=stage.reconciler.step, args=(time.monotonic(),))
            round_.start()
            round_.join(60)
            assert not round_.is_alive()
        stage.until(run, lambda _: not stage.store.runs.uncleaned(datetime.now(UTC), 1))


def test_the_folder_of_a_deleted_run_is_removed_from_its_machine(store_url: str, tmp_path: Path) -> None:
    """At once where folders stay otherwise; and when the machine is back, if it was away."""
    with staged(store_url, tmp_path, keep_run_folders_days=None) as stage:
        gone, away, kept = (stage.until_final(stage.submit()) for _ in range(3))

        def folder(run: Run) -> Path:
            return stage.folder / "jobs" / f"{run.id}.1"

        def delete(run: Run) -> None:
            stage.store.runs.delete(WORKSPACE, run.id, False, "ann")
            stage.reconciler.on_deleted()

        assert folder(gone).is_dir() and folder(away).is_dir()
        delete(gone)
        stage.until(kept, lambda _: not folder(gone).exists())
        stage.cut()
        delete(away)
        stage.reconciler.step(time.monotonic())
        stage.heal()
        stage.until(kept, lambda _: not stage.store.runs.uncleaned_of_deleted(1))
        assert not folder(away).exists() and folder(kept).is_dir()


def test_who_waits_for_a_target_that_is_gone_is_refused_and_others_go_on(stage: Stage, store_url: str) -> None:
    """A server of before let runs in while their target was being detached."""
    spec = RunSpec(command=("true",), target="gone")
    stage.store.targets.ensure(WORKSPACE, "gone", "dummy", {}, 1, True)
    new = NewRun("for_ever", WORKSPACE, "scenes", "azureml.scriptrun", spec=spec, nonce="n")
    stage.store.runs.submit(new, stage.reconciler.owner, with_slots(0), 30)
    stage.store.targets.update(WORKSPACE, TARGET, slots=0)
    waiting = stage.submit()
    stage.store.targets.update(WORKSPACE, TARGET, slots=1)
    engine = create_engine(store_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(delete(targets).where(targets.c.name == "gone"))
    engine.dispose()
    assert stage.until_final(waiting).state is RunState.COMPLETED
    refused = stage.until_final(stage.store.runs.get(WORKSPACE, "for_ever"))
    assert (refused.state, refused.reason) == (RunState.FAILED, Reason.REJECTED)
    assert "its target gone was detached" in refused.message


def test_what_waits_for_another_machines_target_is_left_to_its_server(stage: Stage) -> None:
    stage.store.targets.ensure(WORKSPACE, "far", "local", {"machine": "another", "root": "/nowhere"}, 1, True)
    spec = RunSpec(command=("true",), target="far")
    new = NewRun("far_away", WORKSPACE, "scenes", "azureml.scriptrun", spec=spec, nonce="n")
    run, _, leased = stage.store.runs.submit(new, "the other server", with_slots(0), 30)
    assert leased is None
    near = stage.submit()
    assert stage.until_final(near).state is RunState.COMPLETED
    assert stage.run(run).reason is Reason.WAITING_FOR_SLOT
    assert [
        leased.run.id for leased in stage.store.runs.admit(WORKSPACE, "far", "the other server", with_slots(1), 30)
    ] == [run.id]
