"""Times, durations, sizes, numbers and ids as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from windlass.client.http.progress import duration, size
from windlass.core.sanitize import one_line

__all__ = [
    "ago", "at", "brief", "clock", "clock_of", "count", "duration", "moment", "number", "short_id", "size", "took",
]  # fmt: skip
_SHORT_ID = re.compile(r".+_\d+_([0-9a-f]{8})\Z")
_TROUBLE = re.compile(r"\s*(error\b|ERROR\b|×|\w*Error:)")  # as installers begin to say it
_LONGEST_BRIEF = 150  # with what stands before it, two lines of a terminal
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def moment(text: str | None) -> datetime | None:
    """A time of the API, or None for one that is absent or that no clock ever showed."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def ago(text: str | None, now: datetime) -> str:
    """'12 s ago', '3 h ago', then the date."""
    then = moment(text)
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
    then = moment(text)
    if then is None:
        return ""
    local = then.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    past = ago(text, now)
    return f"{local} ({past})" if past.endswith(("ago", "now")) else local


def clock(text: str | None) -> str:
    then = moment(text)
    return then.astimezone().strftime("%H:%M:%S") if then else ""


def took(run: dict[str, Any], now: datetime) -> float | None:
    """How long a run has been going on, or went on."""
    start = moment(run.get("started_at"))
    if start is None:
        return None
    return ((moment(run.get("ended_at")) or now) - start).total_seconds()


def number(value: Any) -> str:
    """A metric's value in at most six digits; what is not a number as it is."""
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
    """The part of a run's id that tells it from others: the eight digits at its end."""
    found = _SHORT_ID.match(run)
    return found.group(1) if found else run


def brief(message: str) -> str:
    """Of a message of many lines, what it is about, and where it begins to say what is wrong."""
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


def clock_of(unix_seconds: float | None) -> str:
    """The time of day of a metric's point."""
    if unix_seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(unix_seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return ""
