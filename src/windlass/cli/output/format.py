"""Formatting of times, durations, sizes, numbers and ids for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from windlass.client.http.progress import duration, size
from windlass.core.sanitize import one_line

__all__ = [
    "ago", "at", "brief", "count", "date_and_time", "duration", "number", "parse_time", "short_id",
    "size", "time_of_day", "took",
]  # fmt: skip
_SHORT_ID = re.compile(r".+_\d+_([0-9a-f]{8})\Z")
_TROUBLE = re.compile(r"\s*(error\b|ERROR\b|×|\w*Error:)")  # how the error lines of installers begin
_LONGEST_BRIEF = 150  # two lines of a terminal, with the label before it
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def parse_time(text: str | None) -> datetime | None:
    """Parse a time of the API. None for one that is absent or not a valid time."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def ago(text: str | None, now: datetime) -> str:
    """'12 s ago', '3 h ago', then the date."""
    then = parse_time(text)
    if then is None:
        return ""
    seconds = (now - then).total_seconds()
    if seconds < 1:
        return "now"
    for unit, length, limit in (("s", 1, _MINUTE), ("min", _MINUTE, _HOUR), ("h", _HOUR, _DAY), ("d", _DAY, 30 * _DAY)):
        if seconds < limit:
            return f"{int(seconds // length)} {unit} ago"
    return then.astimezone().strftime("%Y-%m-%d")


def at(text: str | None, now: datetime) -> str:
    """'2026-01-31 12:00:03 (5 min ago)', in the time zone of this machine."""
    then = parse_time(text)
    if then is None:
        return ""
    local = then.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    past = ago(text, now)
    return f"{local} ({past})" if past.endswith(("ago", "now")) else local


def time_of_day(text: str | None) -> str:
    then = parse_time(text)
    return then.astimezone().strftime("%H:%M:%S") if then else ""


def took(run: dict[str, Any], now: datetime) -> float | None:
    """Seconds from a run's start to its end, or until now; None if it did not start."""
    start = parse_time(run.get("started_at"))
    if start is None:
        return None
    return ((parse_time(run.get("ended_at")) or now) - start).total_seconds()


def number(value: Any) -> str:
    """A metric's value in at most six digits; a value that is not a number is printed as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    if isinstance(value, int) and abs(value) < 10**9:
        return str(value)
    try:
        return f"{value:.6g}"
    except OverflowError:  # a whole number that is larger than any float
        from decimal import Decimal

        return f"{Decimal(value):.6g}"


def short_id(run: str) -> str:
    """The last part of a run's id: eight hexadecimal digits."""
    found = _SHORT_ID.match(run)
    return found.group(1) if found else run


def brief(message: str) -> str:
    """Shorten a message of many lines to its subject and its first line that names an error."""
    first, *rest = message.splitlines() or [""]
    if not rest:
        return first
    about, _, said = first.partition(": ")
    lines = [said, *rest]
    begin = next((at for at, line in enumerate(lines) if _TROUBLE.match(line)), 0)
    text = one_line("\n".join([f"{about}: {lines[begin]}", *lines[begin + 1 : begin + 2]]))
    return text if len(text) <= _LONGEST_BRIEF else f"{text[: _LONGEST_BRIEF - 1]}…"


def count(how_many: int, noun: str, plural: str = "") -> str:
    """'1 run', '2 runs'."""
    return f"{how_many} {noun if how_many == 1 else plural or noun + 's'}"


def date_and_time(unix_seconds: float | None) -> str:
    """The local date and time of a metric's point."""
    if unix_seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(unix_seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return ""
