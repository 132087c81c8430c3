from __future__ import annotations

import pytest

from windlass.core import backoff


def test_without_a_failure_there_is_no_wait() -> None:
    assert backoff.delay(0, first=1.0, longest=8.0) == backoff.delay(-1, first=1.0, longest=8.0) == 0.0


@pytest.mark.parametrize(
    ("factor", "expected"), [(2.0, [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]), (4.0, [1.0, 4.0, 10.0, 10.0, 10.0, 10.0])]
)
def test_each_failure_waits_longer_up_to_the_longest(factor: float, expected: list[float]) -> None:
    assert [backoff.delay(n, first=1.0, longest=10.0, factor=factor) for n in range(1, 7)] == expected


def test_any_number_of_failures_waits_the_longest() -> None:
    assert backoff.delay(1_000_000, first=0.1, longest=300.0, factor=4.0) == 300.0


def test_jitter_makes_every_wait_longer() -> None:
    assert backoff.delay(1, first=1.0, longest=10.0, jitter=0.25) == 1.25
    assert backoff.delay(9, first=1.0, longest=10.0, jitter=0.25) == 12.5
