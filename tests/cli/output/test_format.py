"""How times, sizes and ids read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from windlass.cli.output import format

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "now"),
        (0.2, "now"),
        (12.9, "12 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (3 * 86400, "3 d ago"),
    ],
)
def test_ago(seconds: float, text: str) -> None:
    assert format.ago((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == text


def test_long_ago_is_a_date_and_no_time_is_nothing() -> None:
    assert format.ago("2025-06-15T12:00:00.000000Z", NOW) == "2025-06-15"
    assert format.ago(None, NOW) == ""
    assert format.ago("yesterday", NOW) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (-1, "0.0s"),
        (0.04, "0.0s"),
        (0.84, "0.8s"),
        (9.96, "10s"),
        (59.6, "1m00s"),
        (200, "3m20s"),
        (3599.7, "1h00m"),
        (3900, "1h05m"),
        (183600, "2d03h"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert format.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, ""),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_999, "1.0 MB"),
        (1_234_567, "1.2 MB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_size(count: float | None, text: str) -> None:
    assert format.size(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (3, "3"),
        (True, "True"),
        (0.1, "0.1"),
        (1 / 3, "0.333333"),
        (1e-12, "1e-12"),
        (float("nan"), "nan"),
        (10**12, "1e+12"),
        (-(10**400), "-1.00000e+400"),
        ("x", "x"),
    ],
)
def test_number(value: object, text: str) -> None:
    assert format.number(value) == text


def test_a_run_is_told_by_the_end_of_its_id() -> None:
    assert format.short_id("demo_1763268000_3f9a1c2b") == "3f9a1c2b"
    assert format.short_id("my_own-id.7") == "my_own-id.7"


def test_a_long_message_in_one_line() -> None:
    assert format.brief("exit code 7") == "exit code 7"
    assert format.brief("not built: step one\nstep two\nerror: no such thing") == "not built: error: no such thing"
    assert format.brief("") == ""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "error: Failed to read `tiny`\ncause: Hash mismatch for `tiny`\nExpected:\nsha256:0\nComputed:\nsha256:8",
            "error: Failed to read `tiny` cause: Hash mismatch for `tiny`",
        ),
        (
            "× No solution found when resolving dependencies:\n╰─▶ Because there is no six==99\nwe give up",
            "× No solution found when resolving dependencies: ╰─▶ Because there is no six==99",
        ),
        (
            "The conda packages do not go together: foo needs bar\n├─ bar 2.0\n└─ foo 1.0, which conflicts",
            "The conda packages do not go together: foo needs bar ├─ bar 2.0",
        ),
        (
            "A channel cannot be read: https://nowhere.invalid/\nCaused by:\n failed to lookup address information",
            "A channel cannot be read: https://nowhere.invalid/ Caused by:",
        ),
        (
            "Using Python 3.11\nResolved 1 package\nerror: Failed to fetch: six\nmore",
            "error: Failed to fetch: six more",
        ),
    ],
)
def test_a_long_message_is_told_from_where_it_says_what_is_wrong(said: str, shown: str) -> None:
    assert format.brief(f"not built: {said}") == f"not built: {shown}"


def test_a_long_message_is_short_at_last() -> None:
    shown = format.brief(f"not built: error: {'x' * 200}\nmore")
    assert len(shown) <= 150 and shown.startswith("not built: error: xxx") and shown.endswith("x…")


def test_how_long_a_run_took() -> None:
    run = {"started_at": "2026-01-31T11:59:30Z", "ended_at": None}
    assert format.took(run, NOW) == 30
    assert format.took({**run, "ended_at": "2026-01-31T11:59:32Z"}, NOW) == 2
    assert format.took({"started_at": None}, NOW) is None
