"""From the runner's words to an observation: only proof counts, and nothing it says can name a file of ours."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import Conflict, NoCapacity, TargetRejected, TargetUnreachable, WindlassError
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.machine.protocol import MOST_FILES, error, hello, listed_files, missing_files, observation

DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ({"phase": "queued"}, Observation(Phase.QUEUED)),
        ({"phase": "running", "stage": "Preparing"}, Observation(Phase.RUNNING, stage=RunState.PREPARING)),
        ({"phase": "running", "stage": "Running"}, Observation(Phase.RUNNING, stage=RunState.RUNNING)),
        ({"phase": "running", "stage": "Dancing"}, Observation(Phase.RUNNING)),
        ({"phase": "suspended"}, Observation(Phase.RUNNING)),
        ({"phase": "lost", "message": "no folder"}, Observation(Phase.LOST, message="no folder")),
        ({"phase": "lost", "startable": True}, Observation(Phase.LOST, is_startable=True)),
        ({"phase": "running", "startable": True}, Observation(Phase.RUNNING)),
        ({"phase": "ended", "reason": "exited", "exit_code": 0}, Observation(Phase.ENDED, 0, reason=Reason.EXITED)),
        ({"phase": "ended", "reason": "exited", "exit_code": 7}, Observation(Phase.ENDED, 7, reason=Reason.EXITED)),
        ({"phase": "ended", "reason": "exited"}, Observation(Phase.ENDED, reason=Reason.EXIT_UNKNOWN)),
        (
            {"phase": "ended", "reason": "exited", "exit_code": "0"},
            Observation(Phase.ENDED, reason=Reason.EXIT_UNKNOWN),
        ),
        (
            {"phase": "ended", "reason": "exited", "exit_code": False},
            Observation(Phase.ENDED, reason=Reason.EXIT_UNKNOWN),
        ),
        ({"phase": "ended", "reason": "bored"}, Observation(Phase.ENDED, reason=Reason.EXIT_UNKNOWN)),
        ({"phase": "ended"}, Observation(Phase.ENDED, reason=Reason.EXIT_UNKNOWN)),
        ({"phase": "ended", "reason": "node_lost"}, Observation(Phase.ENDED, reason=Reason.NODE_LOST)),
        (
            {"phase": "ended", "reason": "signaled", "signal": 9},
            Observation(Phase.ENDED, signal=9, reason=Reason.SIGNALED),
        ),
        (
            {
                "phase": "ended",
                "reason": "stopped",
                "files": [["user_logs/std_log.txt", 3, DIGEST]],
                "usage": {"cpu_seconds": 1},
                "started_at": 5,
                "ended_at": 6.5,
            },
            Observation(
                Phase.ENDED,
                reason=Reason.STOPPED,
                files=(("user_logs/std_log.txt", 3, DIGEST),),
                usage={"cpu_seconds": 1},
                started_at=5.0,
                ended_at=6.5,
            ),
        ),
    ],
)
def test_what_follows_from_the_runners_word(said: dict[str, Any], seen: Observation) -> None:
    assert observation(said) == seen


@pytest.mark.parametrize("reason", ["out_of_memory", "time_limit", "start_failed", "environment_failed"])
def test_the_runners_reasons_are_ours(reason: str) -> None:
    assert observation({"phase": "ended", "reason": reason}).reason is Reason(reason)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
words = st.sampled_from(
    ["phase", "reason", "exit_code", "signal", "files", "usage", "message", "stage", "startable", "started_at"]
)


def test_of_endless_words_little_is_kept() -> None:
    usage = {"cpu_seconds": 1.5, "x" * 1000: 2, "nested": [[]] * 9, "no number": math.nan, "huge": 10**400}
    usage |= {str(number): number for number in range(1000)}
    seen = observation({"phase": "ended", "reason": "exited", "message": "x" * 100_000, "usage": usage})
    assert len(seen.message) == 4000 and seen.usage is not None
    assert seen.usage.items() >= {"cpu_seconds": 1.5, "x" * 100: 2, "7": 7}.items()
    assert not seen.usage.keys() & {"nested", "no number", "huge"} and len(seen.usage) < 100


@given(st.dictionaries(words, anything | st.just(10**400) | st.sampled_from(["ended", "exited", "lost"])))
def test_no_word_makes_a_success_without_a_proof(said: dict[str, Any]) -> None:
    seen = observation(said)
    if seen.reason is Reason.EXITED:
        assert said["reason"] == "exited" and said["exit_code"] == seen.exit_code
        assert type(seen.exit_code) is int


@given(anything.filter(lambda said: not isinstance(said, dict)))
def test_a_word_that_is_no_object_says_nothing(said: Any) -> None:
    with pytest.raises(TargetUnreachable):
        observation(said)


@pytest.mark.parametrize(
    "entry",
    [
        ["../../etc/passwd", 1, DIGEST], ["/etc/passwd", 1, DIGEST], ["a\nb", 1, DIGEST], ["a/./b", 1, None],
        ["a", 1, "no digest"], ["a", -1, None], ["a", float("inf"), None],
        ["a", "many", None], ["a", 1], [None, 1, None], "a", None, [["a"], 1, None],
    ],
)  # fmt: skip
def test_a_file_with_a_bad_name_is_left_out(entry: Any) -> None:
    assert listed_files({"files": [["good", 1, DIGEST], entry, ["too", 2, None]]}) == (
        ("good", 1, DIGEST),
        ("too", 2, None),
    )


@pytest.mark.parametrize(
    ("code", "of_a_start", "of_anything_else"),
    [
        ("invalid", TargetRejected, TargetUnreachable),
        ("denied", TargetRejected, TargetUnreachable),
        ("full", NoCapacity, NoCapacity),
        ("stale", Conflict, Conflict),
        ("failed", TargetUnreachable, TargetUnreachable),
        ("unheard-of", TargetUnreachable, TargetUnreachable),
    ],
)
def test_only_a_start_is_refused_for_good(
    code: str, of_a_start: type[WindlassError], of_anything_else: type[WindlassError]
) -> None:
    said = {"error": {"code": code, "message": "it is so"}}
    assert type(error(said, "box", is_start=True)) is of_a_start
    raised = error(said, "box")
    assert type(raised) is of_anything_else
    assert "box: it is so" in str(raised)
    assert error({"ok": True}, "box") is None


def test_an_error_without_words_is_one() -> None:
    assert type(error({"error": None}, "box")) is TargetUnreachable
    assert type(error({"error": {}}, "box")) is TargetUnreachable


def test_an_error_text_is_cut_and_has_no_control_characters() -> None:
    said = {"error": {"code": "failed", "message": "\x1b]52;c;AAAA\x07 no\r space " + "x" * 1_000_000}}
    told = error(said, "box")
    assert told is not None and len(told.message) < 1100
    assert all(c.isprintable() for c in told.message) and " no  space xx" in told.message
    long_code = error({"error": {"code": "y" * 1_000_000, "message": ["no", "text"] * 100_000}}, "box")
    assert long_code is not None and len(long_code.message) < 1100


def test_a_greeting_is_kept_as_far_as_it_is_used() -> None:
    told = hello({"boot_id": "b" * 20_000_000, "root": "r" * 1000, "now": 10**4000, "version": 1})
    assert told == {"boot_id": "b" * 64, "now": None}


def test_a_list_of_too_many_files_is_cut_and_the_rest_is_counted() -> None:
    files = [[f"source/outputs/{number}", 1, DIGEST] for number in range(MOST_FILES + 5)]
    seen = observation({"phase": "ended", "files": files, "unlisted": 7})
    assert (len(seen.files), seen.unlisted) == (MOST_FILES, 12)
    assert observation({"phase": "ended", "files": [], "unlisted": -1}).unlisted == 0
    assert not listed_files({"files": [["source/outputs/a", 1 << 61, DIGEST]]})


def test_names_that_are_refused_are_cut() -> None:
    seen = observation({"phase": "ended", "files": [["../" + "x" * 1_000_000, 1, None], {"a": "b" * 1_000_000}]})
    assert len(seen.left_out) == 2 and all(len(name) <= 100 for name in seen.left_out)


def test_each_missing_file_is_asked_for_once() -> None:
    assert missing_files({"missing": ["a", "b", "a", 7, None, ["c"]]}) == ["a", "b"]
    assert missing_files({"missing": "abc"}) == missing_files({}) == []
