"""A child that speaks frames: many ask at once, and whatever it does, nobody hangs or hears a wrong answer."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from windlass.core.errors import TargetUnreachable, TooLarge
from windlass.drivers.connection_pool import BackoffPool
from windlass.drivers.machine import framing
from windlass.drivers.machine.pipe import Pipe

FAR_SIDE = Path(__file__).with_name("far_side.py")

Open = Callable[..., Pipe]


@pytest.fixture
def open_pipe() -> Iterator[Open]:
    opened: list[Pipe] = []

    def open_one(*manners: str, **options: Any) -> Pipe:
        pipe = Pipe([sys.executable, "-I", "-S", str(FAR_SIDE), *manners], "box", **options)
        opened.append(pipe)
        return pipe

    yield open_one
    for pipe in opened:
        pipe.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_answer_brings_its_json_and_its_bytes(open_pipe: Open) -> None:
    body, data = open_pipe().call("echo", b"\x00\xff" * 1000, say="grüße\n")
    assert body["said"] == "grüße\n"
    assert data == b"\x00\xff" * 1000


def test_what_a_login_shell_prints_first_is_skipped(open_pipe: Open) -> None:
    pipe = open_pipe("noise")
    assert pipe.hello == {"boot_id": None, "now": None}
    assert pipe.call("echo", say=1)[0]["said"] == 1


def test_eight_threads_hear_their_own_answers(open_pipe: Open) -> None:
    pipe = open_pipe()

    def ask(number: int) -> bool:
        payload = os.urandom(number * 97 % 5000)
        body, data = pipe.call("echo", payload, say=number)
        return body["said"] == number and data == payload

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(400)))


def test_several_requests_may_be_under_way(open_pipe: Open) -> None:
    pipe = open_pipe()
    asked = [pipe.ask("echo", say=number) for number in range(50)]
    assert [pipe.wait(answer)[0]["said"] for answer in asked] == list(range(50))


def test_frames_larger_than_the_kernels_buffer_go_both_ways(open_pipe: Open) -> None:
    payload = os.urandom(3 << 20)
    assert open_pipe().call("echo", payload)[1] == payload


def test_unasked_frames_reach_the_listener(open_pipe: Open) -> None:
    heard: list[dict[str, Any]] = []
    open_pipe(on_event=heard.append).call("news")
    assert heard == [{"event": "grew", "job": "a.1", "path": "x", "size": 5}]


@pytest.mark.parametrize(
    ("badly", "why"),
    [
        ("die", "it ended"),
        ("half", "it ended"),
        ("giant", "too large"),
        ("garbage", "not JSON"),
    ],
)
def test_a_far_side_that_breaks_down_is_unreachable(open_pipe: Open, badly: str, why: str) -> None:
    pipe = open_pipe()
    with pytest.raises(TargetUnreachable, match=why):
        pipe.call(badly)
    assert not pipe.is_open
    with pytest.raises(TargetUnreachable, match=why):
        pipe.call("echo")


def test_its_last_words_are_in_the_error(open_pipe: Open) -> None:
    with pytest.raises(TargetUnreachable, match=r"box cannot be reached: .*Permission denied \(publickey\)"):
        open_pipe("refuses")
    pipe = open_pipe()
    with pytest.raises(TargetUnreachable):
        pipe.call("die")
    pipe.close()
    with pytest.raises(TargetUnreachable, match="the disk caught fire"):
        pipe.call("echo")


def test_a_killed_child_fails_everybody_who_waits(open_pipe: Open) -> None:
    broke = threading.Event()
    pipe = open_pipe(on_break=broke.set)
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(pipe.call, "deaf") for _ in range(4)]
        while pipe.sent < 4:
            threading.Event().wait(0.005)
        os.kill(pipe.pid, signal.SIGKILL)
        for call in waiting:
            with pytest.raises(TargetUnreachable):
                call.result(timeout=20)
    assert broke.wait(20)  # told after those who wait


def test_a_killed_child_is_replaced_by_the_links(open_pipe: Open) -> None:
    connections = BackoffPool()
    first: Pipe = connections.get("box", open_pipe)
    os.kill(first.pid, signal.SIGKILL)
    with pytest.raises(TargetUnreachable):
        first.call("echo")
    second: Pipe = connections.get("box", open_pipe)
    assert second is not first
    assert second.call("echo", say="again")[0]["said"] == "again"
    connections.close()
    assert not second.is_open


def test_silence_ends_at_the_time_out(open_pipe: Open) -> None:
    pipe = open_pipe()
    with pytest.raises(TargetUnreachable, match="did not answer 'deaf' in time"):
        pipe.call("deaf", seconds=0.05)
    assert not pipe.is_open


def test_silence_ends_although_others_go_on_asking(open_pipe: Open) -> None:
    """What we send says nothing about who does not answer."""
    pipe = open_pipe()
    first = pipe.ask("deaf", seconds=2)

    def go_on() -> None:
        try:
            for _ in range(600):
                pipe.ask("echo", seconds=2)
                time.sleep(0.05)
        except TargetUnreachable:
            return

    others = threading.Thread(target=go_on, daemon=True)
    others.start()
    assert first.came.wait(0.2) is False
    with pytest.raises(TargetUnreachable, match="did not answer 'deaf' in time"):
        pipe.wait(first)
    others.join()
    assert pipe.sent < 600, "it took all of them"


def test_nobody_is_late_while_those_ahead_are_not(open_pipe: Open) -> None:
    pipe = open_pipe()
    ahead = pipe.ask("slowly", seconds=20, pause=0.3)
    behind = pipe.ask("echo", seconds=0.01, say="here")
    assert pipe.wait(behind)[0]["said"] == "here"
    assert pipe.wait(ahead)[0]["ok"]


def test_a_slow_line_is_not_a_dead_one(open_pipe: Open) -> None:
    pipe = open_pipe()
    asked = [pipe.ask("slowly", seconds=3, pause=0.2) for _ in range(17)]
    assert all(pipe.wait(answer)[0]["ok"] for answer in asked)  # together longer than anybody's patience


def test_a_child_that_stops_reading_blocks_nobody_for_ever(open_pipe: Open) -> None:
    pipe = open_pipe()
    pipe.ask("deaf", seconds=0.2)
    with pytest.raises(TargetUnreachable):
        for _ in range(5):
            pipe.ask("echo", bytes(1 << 20), seconds=0.2)


def test_a_mute_child_does_not_hold_the_opener(open_pipe: Open) -> None:
    with pytest.raises(TargetUnreachable, match="did not greet within 0.1 s"):
        open_pipe("mute", open_seconds=0.1)


def test_a_megabyte_of_chatter_is_no_greeting(open_pipe: Open) -> None:
    with pytest.raises(TargetUnreachable, match="did not greet"):
        open_pipe("chatters")


def test_a_program_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(TargetUnreachable, match="no-such-program does not start: No such file"):
        Pipe(["no-such-program"], "box")


def test_a_frame_of_ours_that_is_too_large_is_refused_and_breaks_nothing(open_pipe: Open) -> None:
    pipe = open_pipe()
    with pytest.raises(TooLarge):
        pipe.call("echo", bytes(framing.MAX_BYTES + 1))
    assert pipe.call("echo", say="fine")[0]["said"] == "fine"


def test_close_ends_the_child_and_says_so(open_pipe: Open) -> None:
    pipe = open_pipe()
    pipe.close()
    pipe.close()
    assert not is_running(pipe.pid)
    with pytest.raises(TargetUnreachable, match="closed"):
        pipe.call("echo")


def test_an_answer_that_is_longer_than_its_question_allows_breaks_the_pipe(open_pipe: Open) -> None:
    pipe = open_pipe()
    assert len(pipe.call("echo", say="x" * 1_000_000)[0]["said"]) == 1_000_000
    with pytest.raises(TargetUnreachable, match="its answer to 'long' is too large"):
        pipe.call("long", size=2_000_000)


def test_an_event_that_is_too_large_breaks_the_pipe(open_pipe: Open) -> None:
    pipe = open_pipe()
    with pytest.raises(TargetUnreachable, match="an event that is too large"):
        pipe.call("boast", size=2_000_000)
