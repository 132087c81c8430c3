"""Times as users write them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from windlass.client.exceptions import UserErrorException
from windlass.client.runs.moments import as_text

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30s", "2026-03-01T11:59:30Z"),
        ("30m", "2026-03-01T11:30:00Z"),
        ("90 min", "2026-03-01T10:30:00Z"),
        ("3h", "2026-03-01T09:00:00Z"),
        ("2D", "2026-02-27T12:00:00Z"),
        ("1w", "2026-02-22T12:00:00Z"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"),
    ],
)
def test_a_time_for_the_server(text: str, moment: str) -> None:
    assert as_text(text, NOW) == moment


def test_a_date_begins_at_midnight_here() -> None:
    midnight = datetime(2026, 1, 31).astimezone(UTC).isoformat().replace("+00:00", "Z")
    assert as_text("2026-01-31") == as_text(date(2026, 1, 31)) == as_text(datetime(2026, 1, 31)) == midnight


@pytest.mark.parametrize("text", ["", "5x", "yesterday", "2026-13-01", "999999w", "-2d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UserErrorException, match="is not a time like 2d"):
        as_text(text, NOW)
