"""The laws of the driver contract, as tests for pytest. A package with a kind of its own runs them like this:

class ShedHarness(Harness): ...            # windlass.testing.harness

@pytest.fixture
def harness(tmp_path): ...                 # makes a ShedHarness, and closes it

class TestShed(Laws): ...
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from windlass.core import codec
from windlass.core.entities import Container, EnvironmentSpec, Resources
from windlass.core.errors import Conflict, SpecNotSupported, TargetRejected, TargetUnreachable
from windlass.core.states import Phase, Reason
from windlass.drivers.base import ChannelEnd, ChannelRequest, Handle, Interactive
from windlass.testing.auditing import audited
from windlass.testing.harness import Harness, wait_until
from windlass.testing.programs import (
    ARGUMENTS,
    SCRIPT,
    SLEEPS,
    STUBBORN,
    MemoryBundle,
    exits,
    printed_arguments,
)

SECRET = "c4n4ry-of-the-run"
NASTY = (
    "a b", "it's", '"', "$(touch pwned)", "`touch pwned`", "$HOME", "line\nbreak", "tab\t", "grüße 🎈", "", "-c", "--",
    "*", "~", "\\", "a;b|c&d>e", "{python}", "%s", "x" * 10_000,
)  # fmt: skip


def through_json(handle: Handle) -> Handle:
    text = json.dumps(codec.to_wire(handle))
    assert len(text) <= 4096
    return Handle(**json.loads(text))


class Laws:
    """Tests of the driver contract. A subclass whose name begins with Test runs them on the fixture `harness`."""

    def test_01_constructor_and_plan_do_no_io(self, harness: Harness) -> None:
        job = harness.job(ARGUMENTS, "x", secrets={"KEY": SecretStr(SECRET)})
        expected = harness.driver().plan(job)  # does the lazy imports before the recording
        with audited() as touched:
            driver = harness.driver()
            plan = driver.plan(job)
        assert touched == []
        assert plan == expected
        assert harness.leftovers() == []

    def test_01_a_plan_is_deterministic_and_shows_no_secret(self, harness: Harness) -> None:
        job = harness.job(ARGUMENTS, env={"B": "2", "A": "1"}, secrets={"KEY": SecretStr(SECRET)})
        turned = replace(job, env=dict(reversed(list(job.env.items()))))
        plan = harness.driver().plan(job)
        assert plan.text == harness.driver().plan(turned).text
        assert SECRET not in repr(plan) + plan.text
        assert "KEY" in plan.text and "A=1" in plan.text
        handle = harness.driver().start(plan)
        assert SECRET not in repr(handle)

    def test_02_exit_0_is_ended_ok(self, harness: Harness) -> None:
        seen = harness.wait(harness.start(exits(0)))
        assert (seen.phase, seen.reason, seen.exit_code, seen.signal) == (Phase.ENDED, Reason.EXITED, 0, None)

    @pytest.mark.parametrize("code", [1, 7, 128, 255])
    def test_03_exit_code_seven_stays_seven(self, harness: Harness, code: int) -> None:
        seen = harness.wait(harness.start(exits(code)))
        assert (seen.phase, seen.reason, seen.exit_code) == (Phase.ENDED, Reason.EXITED, code)

    @pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "./main.py/x"])
    def test_04_a_missing_executable_ends(self, harness: Harness, program: str) -> None:
        seen = harness.wait(harness.start(ARGUMENTS, command=(program, "x")))
        assert seen.phase is Phase.ENDED
        assert seen.reason is Reason.START_FAILED
        assert seen.message

    def test_05_arguments_arrive_verbatim(self, harness: Harness) -> None:
        handle = harness.start(ARGUMENTS, *NASTY)
        assert harness.wait(handle).exit_code == 0
        assert printed_arguments(harness.driver().read(handle, "user_logs/std_log.txt")) == list(NASTY)

    def test_06_start_twice_gives_one_job(self, harness: Harness) -> None:
        plan = harness.driver().plan(harness.job(ARGUMENTS, "once"))
        with ThreadPoolExecutor(4) as threads:
            handles = list(threads.map(lambda _: harness.driver().start(plan), range(8)))
        assert all(handle == handles[0] for handle in handles)
        harness.wait(handles[0])
        before = harness.log(handles[0])
        assert harness.driver().start(plan) == handles[0]
        harness.wait(handles[0])
        assert harness.log(handles[0]) == before == b'["once"]\n'

    def test_06_a_job_of_another_server_is_not_there(self, harness: Harness) -> None:
        """Servers that use the same account may have a run of the same id: clients choose run ids."""
        job = harness.job(SLEEPS)
        handle = harness.driver().start(harness.driver().plan(job))
        harness.wait_for_line(handle)
        other = replace(harness.job(exits(0)), id=job.id, run=job.run, attempt=job.attempt, nonce="of another server")
        theirs = replace(handle, nonce=other.nonce)
        harness.restart()  # after which the first request adopts running jobs
        driver = harness.driver()
        log = "user_logs/std_log.txt"
        for phase in (Phase.RUNNING, Phase.ENDED, Phase.LOST):
            assert driver.find(job.id, other.nonce) is None
            with pytest.raises(TargetRejected, match="[Aa]nother server") as refused:
                driver.start(driver.plan(other))
            assert "another run id" in refused.value.hint
            assert harness.observe(theirs).phase is Phase.LOST
            assert (driver.read(theirs, log), list(driver.files(theirs))) == (b"", [])
            driver.stop(theirs, timedelta(0))
            driver.clean(theirs)
            assert harness.observe(handle).phase is phase
            if phase is Phase.RUNNING:
                assert b"up\n" in harness.log(handle)
                driver.stop(handle, timedelta(seconds=20))
                assert harness.wait(handle).reason is Reason.STOPPED
            elif phase is Phase.ENDED:
                driver.clean(handle)

    def test_07_a_start_that_failed_halfway_can_be_repeated(self, harness: Harness) -> None:
        files = {SCRIPT: ARGUMENTS.code.encode(), "a": b"1", "b": b"2", "z": b"3"}
        job = harness.job(ARGUMENTS, "again", bundle=MemoryBundle(files, flaws=["b"]))
        plan = harness.driver().plan(job)
        with pytest.raises(OSError, match="cannot be read"):
            harness.driver().start(plan)
        assert harness.living() == []
        handle = harness.driver().start(plan)
        assert harness.wait(handle).exit_code == 0
        assert harness.log(handle) == b'["again"]\n'

    def test_07_a_job_whose_receipt_was_lost_is_found_by_its_name(self, harness: Harness) -> None:
        job = harness.job(ARGUMENTS, "found")
        assert harness.driver().find(job.id, job.nonce) is None
        with harness.lose_receipt(), pytest.raises((TargetUnreachable, OSError)):
            harness.driver().start(harness.driver().plan(job))
        harness.restart()
        found = harness.driver().find(job.id, job.nonce)
        assert found is not None
        assert harness.wait(found).exit_code == 0
        again = harness.driver().start(harness.driver().plan(job))
        assert again.native_id == found.native_id
        assert harness.wait(again).exit_code == 0
        assert harness.log(again) == b'["found"]\n'

    def test_08_stop_ends_a_run_with_reason_stopped(self, harness: Harness) -> None:
        handle = harness.start(SLEEPS)
        harness.wait_for_line(handle)
        assert harness.observe(handle).phase is Phase.RUNNING
        harness.driver().stop(handle, timedelta(seconds=20))
        assert harness.wait(handle).reason is Reason.STOPPED

    def test_09_stop_of_an_ended_or_unknown_job_is_silent(self, harness: Harness) -> None:
        handle = harness.start(exits(7))
        before = harness.wait(handle)
        harness.driver().stop(handle, timedelta(0))
        assert harness.wait(handle) == before
        unknown = replace(handle, native_id="never_was.1")
        harness.driver().stop(unknown, timedelta(0))
        assert harness.observe(unknown).phase is Phase.LOST

    def test_10_stop_kills_one_that_ignores_sigterm_and_its_children(self, harness: Harness) -> None:
        handle = harness.start(STUBBORN)
        harness.wait_for_line(handle, count=2)
        assert len(harness.living()) == (3 if harness.is_real else 1)
        harness.driver().stop(handle, timedelta(seconds=0.2))
        assert harness.wait(handle).reason is Reason.STOPPED
        wait_until(lambda: not harness.living(), "the whole tree is gone")

    def test_11_a_handle_that_went_through_json_works_after_a_restart(self, harness: Harness) -> None:
        handle = harness.start(SLEEPS)
        harness.wait_for_line(handle)
        harness.restart()
        stored = through_json(handle)
        assert harness.observe(stored).phase is Phase.RUNNING
        assert b"up\n" in harness.log(stored)
        harness.driver().stop(stored, timedelta(seconds=20))
        assert harness.wait(stored).reason is Reason.STOPPED
        harness.driver().clean(stored)
        assert harness.observe(stored).phase is Phase.LOST

    def test_12_vanished_is_lost_never_success(self, harness: Harness) -> None:
        handle = harness.start(exits(0))
        harness.wait(handle)
        harness.vanish(handle)
        seen = harness.observe(handle)
        assert seen.phase is Phase.LOST
        assert (seen.exit_code, seen.reason) == (None, None)

    def test_13_unreachable_raises(self, harness: Harness) -> None:
        handle = harness.start(SLEEPS)
        harness.wait_for_line(handle)
        plan = harness.driver().plan(harness.job(ARGUMENTS, "later"))
        harness.cut()
        driver = harness.driver()
        for ask in (
            driver.check,
            lambda: driver.start(plan),
            lambda: driver.find(handle.native_id, handle.nonce),
            lambda: driver.observe([handle]),
            lambda: driver.stop(handle, timedelta(0)),
            lambda: driver.read(handle, "user_logs/std_log.txt"),
            lambda: list(driver.files(handle)),
            lambda: driver.clean(handle),
        ):
            with pytest.raises(TargetUnreachable):
                ask()
        harness.heal()
        assert harness.observe(handle).phase is Phase.RUNNING
        assert harness.wait(harness.driver().start(plan)).exit_code == 0

    def test_14_the_time_limit_holds(self, harness: Harness) -> None:
        handle = harness.start(SLEEPS, time_limit=timedelta(seconds=0.3), grace=timedelta(seconds=0.2))
        assert harness.wait(handle).reason is Reason.TIME_LIMIT
        wait_until(lambda: not harness.living(), "nothing is left of it")

    @pytest.mark.parametrize(
        ("feature", "fields"),
        [
            ("containers", {"container": Container(), "environment": EnvironmentSpec(image="python:3.12")}),
            ("gpus", {"resources": Resources(gpus=1)}),
            ("multi_node", {"resources": Resources(nodes=2)}),
            ("built_environments", {"environment": EnvironmentSpec(pip=("six",))}),
        ],
    )
    def test_15_what_features_do_not_declare_is_refused(
        self, harness: Harness, feature: str, fields: dict[str, Any]
    ) -> None:
        driver, job = harness.driver(), harness.job(ARGUMENTS, **fields)
        if getattr(driver.features, feature):
            assert driver.plan(job).job is job
        else:
            with pytest.raises(SpecNotSupported, match=driver.kind) as caught:
                driver.plan(job)
            assert caught.value.hint

    def test_16_read_honours_offsets(self, harness: Harness) -> None:
        handle = harness.start(ARGUMENTS, "abc")
        harness.wait(handle)
        driver, log = harness.driver(), "user_logs/std_log.txt"
        assert driver.read(handle, log) == b'["abc"]\n'
        assert driver.read(handle, log, offset=2) == b'abc"]\n'
        assert driver.read(handle, log, offset=2, limit=3) == b"abc"
        assert driver.read(handle, log, offset=8) == driver.read(handle, log, offset=1 << 40) == b""
        assert driver.read(handle, "user_logs/absent.txt") == b""
        assert driver.read(replace(handle, native_id="never_was.1"), log) == b""
        assert log in {file.path for file in driver.files(handle)}

    def test_17_clean_twice_is_silent_and_leaves_nothing(self, harness: Harness) -> None:
        handle = harness.start(ARGUMENTS)
        harness.wait(handle)
        assert harness.leftovers() != [], "what is to be cleaned up is seen"
        harness.driver().clean(handle)
        harness.driver().clean(handle)
        assert harness.leftovers() == []
        assert harness.observe(handle).phase is Phase.LOST

    def test_17_what_was_cleaned_is_never_started_again(self, harness: Harness) -> None:
        plan = harness.driver().plan(harness.job(exits(0)))
        handle = harness.driver().start(plan)
        harness.wait(handle)
        harness.driver().clean(handle)
        with pytest.raises(Conflict):
            harness.driver().start(plan)
        assert harness.leftovers() == []

    def test_17_clean_serves_a_start_that_failed_too(self, harness: Harness) -> None:
        files = {SCRIPT: b"", "a": b"1", "z": b"2"}
        job = harness.job(ARGUMENTS, bundle=MemoryBundle(files, flaws=["z"]))
        with pytest.raises(OSError):
            harness.driver().start(harness.driver().plan(job))
        harness.driver().clean(Handle(harness.kind, job.id, job.nonce))
        assert harness.leftovers() == []

    def test_18_unknown_config_keys_are_refused(self, harness: Harness) -> None:
        model = harness.driver().config_model
        model(**harness.config())
        with pytest.raises(ValidationError, match="colour"):
            model(**{**harness.config(), "colour": "blue"})

    def test_19_many_runs_at_once_are_isolated(self, harness: Harness) -> None:
        driver = harness.driver()
        plans = [driver.plan(harness.job(exits(number), str(number))) for number in range(10)]
        logged = [driver.plan(harness.job(ARGUMENTS, str(number))) for number in range(10)]
        with ThreadPoolExecutor(5) as threads:
            handles = list(threads.map(lambda plan: harness.driver().start(plan), plans + logged))
        assert [harness.wait(handle).exit_code for handle in handles] == [*range(10), *[0] * 10]
        assert [printed_arguments(harness.log(handle)) for handle in handles[10:]] == [[str(n)] for n in range(10)]
        harness.driver().clean(handles[0])
        assert [seen.phase for seen in harness.driver().observe(handles)] == [Phase.LOST, *[Phase.ENDED] * 19]

    def test_20_observe_of_100_handles_makes_one_call(self, harness: Harness) -> None:
        known = [harness.start(exits(number)) for number in range(3)]
        for handle in known:
            harness.wait(handle)
        unknown = [replace(known[0], native_id=f"never_{number}.1") for number in range(97)]
        before = harness.calls()
        seen = harness.driver().observe(unknown[:50] + known + unknown[50:])
        assert harness.calls() - before == 1
        assert [each.exit_code for each in seen[50:53]] == [0, 1, 2]
        assert {each.phase for each in seen[:50] + seen[53:]} == {Phase.LOST}
        assert harness.driver().observe([]) == []

    def test_21_a_channel_leads_to_where_the_job_runs(self, harness: Harness) -> None:
        driver = _interactive(harness)
        handle = harness.start(SLEEPS, env={"COLOUR": "blue"})
        harness.wait_for_line(handle)
        heard = Heard()
        channel = driver.open_channel(handle, ChannelRequest(("sh", "-c", "echo $COLOUR; cat; exit 7")), heard)
        channel.send(b"\0\xff")
        channel.end_input()
        assert heard.wait() == ChannelEnd(7)
        assert heard.data == b"blue\n\0\xff"
        assert harness.observe(handle).phase is Phase.RUNNING

    def test_21_a_channel_ends_with_its_job_and_neither_keeps_it_alive_nor_counts_for_it(
        self, harness: Harness
    ) -> None:
        driver = _interactive(harness)
        handle = harness.start(SLEEPS)
        harness.wait_for_line(handle)
        heard = Heard()
        driver.open_channel(handle, ChannelRequest(("sleep", "600")), heard)
        driver.stop(handle, timedelta(0))
        assert harness.wait(handle).reason is Reason.STOPPED
        assert heard.wait().exit_code != 0
        with pytest.raises(Conflict):
            driver.open_channel(handle, ChannelRequest(("true",)), Heard())


class Heard:
    """Sink of a channel that keeps everything."""

    def __init__(self) -> None:
        self.data = b""
        self.errors = b""
        self._end: ChannelEnd | None = None

    def receive(self, data: bytes, is_error: bool) -> None:
        if is_error:
            self.errors += data
        else:
            self.data += data

    def accept(self, count: int) -> None:
        pass

    def end(self, end: ChannelEnd) -> None:
        self._end = end

    def wait(self) -> ChannelEnd:
        """How the channel ended, once it has."""
        wait_until(lambda: self._end is not None, "the end of the channel")
        assert self._end is not None
        return self._end


def _interactive(harness: Harness) -> Any:
    """A driver of the harness; skips the law for kinds without channels."""
    driver = harness.driver()
    if not isinstance(driver, Interactive):
        pytest.skip(f"targets of kind {driver.kind} have no channels")
    return driver
