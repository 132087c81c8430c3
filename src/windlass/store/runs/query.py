"""Parameters of the run list: filters, sort keys, cursors."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windlass.core import codec
from windlass.core.entities import Run
from windlass.core.errors import InvalidRequest
from windlass.core.states import ACTIVE, RunState

TIMES = ("created_at", "started_at", "ended_at")
NUMBERS = ("duration", "number")
TEXTS = ("name", "state", "experiment")
ARCHIVED = ("no", "only", "all")
MOST = 1000
_METRIC = "metric."
_LONGEST = 1000
# The name may contain operators, but not end in one: `loss << 1` is a mistake, not a metric named `loss <`.
_CONDITION = re.compile(r"metric\.(.+?)(?<![<>=!\s])\s*(<=|>=|!=|==|=|<|>)\s*([^<>=!\s]+)\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RunQuery:
    """The parameters of the run list, as text from the HTTP API."""

    workspace: str
    experiment: str | None = None
    states: tuple[str, ...] = ()  # values of RunState, or "active"
    type: str | None = None
    parent: str | None = None  # "none" for roots
    target: str | None = None
    submitted_by: tuple[str, ...] = ()  # members
    archived: str = "no"  # "no", "only" or "all"
    tags: tuple[str, ...] = ()  # "key" or "key:value"
    properties: tuple[str, ...] = ()  # "key" or "key:value"
    where: tuple[str, ...] = ()  # "metric.loss<0.1"
    since: datetime | None = None
    until: datetime | None = None
    search: str = ""  # in id, name, experiment, tags and arguments
    sort: str = "-created_at"
    metrics: tuple[str, ...] = ()  # names whose last values are shown
    arguments: bool = False  # whether script and arguments are shown
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a run executes: a script with arguments, or a command ("" is its script). Interactive runs have neither."""

    script: str = ""
    arguments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Page:
    runs: list[Run]
    next: str | None
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # run id -> name -> last value
    commands: Mapping[str, CommandLine] = field(default_factory=dict)  # by run id


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a metric's last value with a number."""

    metric: str
    operator: str
    value: float


@dataclass(frozen=True, slots=True)
class Sort:
    """The sort key: a column or a metric. Runs without a sort value come last in both directions."""

    key: str
    is_metric: bool
    is_descending: bool

    @property
    def has_gaps(self) -> bool:
        return self.is_metric or self.key in ("started_at", "ended_at", "duration")


@dataclass(frozen=True, slots=True)
class Position:
    """The start of a page: after the run `pk` with this sort value (None: it has none)."""

    value: int | float | str | None
    pk: int


def parse_states(texts: tuple[str, ...]) -> frozenset[RunState]:
    states: set[RunState] = set()
    for text in texts:
        states |= ACTIVE if text == "active" else {codec.from_wire(RunState, text, where="state")}
    return frozenset(states)


def parse_condition(text: str) -> Condition:
    found = _CONDITION.match(text) if len(text) <= _LONGEST else None
    try:
        value = float(found[3]) if found else math.nan
    except ValueError:
        value = math.nan
    if found is None or math.isnan(value):
        raise InvalidRequest(
            f"Not a condition on a metric: {text[:60]!a}", hint="Write it like metric.loss<0.1, with < <= > >= = or !=."
        )
    return Condition(found[1], "=" if found[2] == "==" else found[2], value)


def parse_label(text: str) -> tuple[str, str | None]:
    """ "key:value" -> both; "key" -> any value."""
    key, colon, value = text.partition(":")
    return key, value if colon else None


def parse_sort(text: str) -> Sort:
    is_descending = text.startswith("-")
    key = text[1:] if is_descending else text
    if key.startswith(_METRIC) and len(key) > len(_METRIC):
        return Sort(key[len(_METRIC) :], True, is_descending)
    if key not in (*TIMES, *NUMBERS, *TEXTS):
        raise InvalidRequest(
            f"Runs cannot be sorted by {key[:60]!a}.",
            hint=f"Use {', '.join((*TIMES, *NUMBERS, *TEXTS))} or metric.NAME, with - before it for descending.",
        )
    return Sort(key, False, is_descending)


def check_archived(text: str) -> str:
    if text not in ARCHIVED:
        raise InvalidRequest(f"archived is no, only or all, not {text[:60]!a}.")
    return text


def check_limit(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise InvalidRequest(f"A page has 1 to {MOST} runs; {limit} were asked for.")
    return limit


def write_cursor(query: RunQuery, position: Position) -> str:
    body = json.dumps([position.value, position.pk], separators=(",", ":"))
    return base64.urlsafe_b64encode(f"{_checksum(query, body)}{body}".encode()).decode().rstrip("=")


def read_cursor(query: RunQuery, sort: Sort) -> Position | None:
    """The position of the query's cursor. Its checksum detects cursors that were cut, changed, or made for another
    list. It is no protection: a forged position gives no more access than the list itself.
    """
    if query.cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(query.cursor.encode("ascii") + b"=" * (-len(query.cursor) % 4)).decode("ascii")
        checksum, body = text[:_CHECKSUM_LENGTH], text[_CHECKSUM_LENGTH:]
        value, pk = json.loads(body) if checksum == _checksum(query, body) else (None, None)
    except (ValueError, TypeError, binascii.Error, RecursionError):
        value, pk = None, None
    if pk is None or not _is_whole(pk) or not _fits(value, sort):
        raise InvalidRequest("The cursor does not belong to this list.", hint="Ask for the first page, without cursor.")
    return Position(value, pk)


_CHECKSUM_LENGTH = 16


def _checksum(query: RunQuery, body: str) -> str:
    same = dataclasses.replace(query, cursor=None, limit=1, metrics=(), arguments=False)
    parameters = json.dumps(codec.to_wire(same), sort_keys=True)
    return hashlib.sha256(f"{parameters}\n{body}".encode()).hexdigest()[:_CHECKSUM_LENGTH]


def _fits(value: Any, sort: Sort) -> bool:
    if value is None:
        return sort.has_gaps
    if sort.is_metric:
        return isinstance(value, float) or _is_whole(value)
    if sort.key in TEXTS:
        return isinstance(value, str) and codec.is_storable(value)
    return _is_whole(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
