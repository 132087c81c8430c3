"""Validation of metrics: lines of metric files, and values. Whatever is stored must be readable by every client."""

from __future__ import annotations

import functools
import sys
from typing import Any, FrozenSet, List, Literal, Mapping, Optional, get_args

from windlass.core.codec import is_storable
from windlass.core.errors import InvalidRequest
from windlass.core.names import MAX_METRIC_NAME, metric_name

MetricKind = Literal[
    "scalar", "list", "row", "table", "image", "confusion_matrix", "accuracy_table", "residuals", "predictions"
]
KINDS: FrozenSet[str] = frozenset(get_args(MetricKind))
EARLIEST, LATEST = -62135596800, 253402300800  # seconds since 1970: the years 1 to 9999
DEEPEST = 32
LONGEST_DESCRIPTION = 10_000

_LARGEST = int(sys.float_info.max)
_STEPS = range(-(1 << 63), 1 << 63)
_WITH_COLUMNS = ("row", "table")


def value_problem(kind: str, value: Any) -> Optional[str]:
    """Why a value is not valid for a series of this kind; None if it is valid."""
    if kind in _WITH_COLUMNS and not isinstance(value, dict):
        return f"a {kind} must be an object of columns"
    level = [value]
    for _ in range(DEEPEST + 1):
        deeper: List[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.keys())
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
            elif isinstance(item, str):
                if not is_storable(item):
                    return "a text has a NUL character or half of a surrogate pair"
            elif isinstance(item, int) and not -_LARGEST <= item <= _LARGEST:
                return "a whole number is larger than any float"
        if not deeper:
            return None
        level = deeper
    return f"a value is nested deeper than {DEEPEST} levels"


def line_problem(line: Any) -> Optional[str]:
    """Why a line of a metric file is not a valid metric; None if it is one."""
    if not isinstance(line, dict):
        return "a line is no object"
    name, at, kind = line.get("n"), line.get("t"), line.get("k") or "scalar"
    if not isinstance(name, str) or "v" not in line:
        return "a line has no name or no value"
    problem = _name_problem(name[: MAX_METRIC_NAME + 1])
    if problem is not None:
        return problem
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not EARLIEST <= at <= LATEST:
        return "a line has no time"
    if not isinstance(kind, str) or kind not in KINDS:
        return "a line has an unknown kind"
    return None if type(line["v"]) is float and kind not in _WITH_COLUMNS else value_problem(kind, line["v"])


def step_of(line: Mapping[str, Any]) -> Optional[int]:
    """The step of a line, or None if it has none that is a 64-bit integer."""
    step = line.get("s")
    return step if type(step) is int and step in _STEPS else None


@functools.lru_cache(maxsize=1024)
def _name_problem(name: str) -> Optional[str]:
    try:
        metric_name(name)
    except InvalidRequest as e:
        return e.message
    return None
