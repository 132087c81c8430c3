"""Times as users write them: 2d for two days ago, a date, or a date and time."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Union

from windlass.client.exceptions import UserErrorException

Moment = Union[str, date, datetime]
_AGO = re.compile(r"(\d{1,6})\s*(s|min|m|h|d|w)\Z")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_FORMS = "2d, 3h, 2026-01-31 or 2026-01-31T12:00:00Z"


def as_text(moment: Moment, now: datetime | None = None) -> str:
    """A time for the server. "2d" and its like count back from now; a time without a zone is one of this machine's."""
    try:
        found = _read(moment, now or datetime.now(timezone.utc))
        return found.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        raise UserErrorException(f"{moment!r:.60} is not a time like {_FORMS}.") from None


def _read(moment: Moment, now: datetime) -> datetime:
    if isinstance(moment, datetime):
        return moment
    if isinstance(moment, date):
        return datetime(moment.year, moment.month, moment.day)
    clean = str(moment).strip()
    found = _AGO.match(clean.lower())
    if found is not None:
        return now - timedelta(seconds=int(found.group(1)) * _SECONDS[found.group(2)])
    return datetime.fromisoformat(clean[:-1] + "+00:00" if clean[-1:] in ("Z", "z") else clean)
