"""Encoding of points in chunks of 1,024: eight bytes per number, or JSON for values that are not all numbers of one
type.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

SIZE = 1024

_DOUBLES, _INTEGERS, _JSON, _NONE = "d", "q", "j", "-"


@dataclass(slots=True)
class Points:
    """Columns of equal length: values as logged, unix times, steps or None."""

    values: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)

    def __add__(self, more: Points) -> Points:
        return Points(self.values + more.values, self.times + more.times, self.steps + more.steps)

    def extend(self, more: Points) -> None:
        self.values += more.values
        self.times += more.times
        self.steps += more.steps

    def pieces(self) -> Iterator[Points]:
        for start in range(0, len(self), SIZE):
            piece = slice(start, start + SIZE)
            yield Points(self.values[piece], self.times[piece], self.steps[piece])

    def rows(self) -> list[tuple[Any, float, int | None]]:
        return list(zip(self.values, self.times, self.steps, strict=True))


@dataclass(frozen=True, slots=True)
class Packed:
    form: str  # one letter for the values, one for the steps
    content: bytes
    times: bytes
    steps: bytes | None


def pack(points: Points) -> Packed:
    value_form, values = _pack(points.values)
    step_form, steps = (_NONE, None) if not any(step is not None for step in points.steps) else _pack(points.steps)
    return Packed(value_form + step_form, values, struct.pack(f"<{len(points)}d", *points.times), steps)


def unpack(packed: Packed) -> Points:
    times = _unpack(_DOUBLES, packed.times)
    steps = [None] * len(times) if packed.steps is None else _unpack(packed.form[1], packed.steps)
    return Points(_unpack(packed.form[0], packed.content), times, steps)


def _pack(column: Sequence[Any]) -> tuple[str, bytes]:
    kinds = set(map(type, column))
    if kinds == {float}:
        return _DOUBLES, struct.pack(f"<{len(column)}d", *column)
    if kinds == {int}:
        try:
            return _INTEGERS, struct.pack(f"<{len(column)}q", *column)
        except struct.error:  # beyond 64 bits
            pass
    return _JSON, json.dumps(column, separators=(",", ":")).encode("ascii")


def _unpack(form: str, data: bytes) -> list[Any]:
    if form == _JSON:
        column: list[Any] = json.loads(data)
        return column
    return list(struct.unpack(f"<{len(data) // 8}{form}", data))


def numbers(packed: Sequence[Packed]) -> array[Any] | None:
    """The values of whole chunks as an array, without a Python object for each; None unless all are numbers."""
    forms = {each.form[0] for each in packed}
    if forms not in ({_DOUBLES}, {_INTEGERS}):
        return _as_doubles(packed)
    values = array(forms.pop())
    for each in packed:
        values.frombytes(each.content)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _as_doubles(packed: Sequence[Packed]) -> array[Any] | None:
    values = array(_DOUBLES)
    for each in packed:
        column = _unpack(each.form[0], each.content)
        if not {*map(type, column)} <= {int, float}:
            return None
        try:
            values.extend(column)
        except OverflowError:  # an integer that is larger than any float
            return None
    return values


def time_and_step(packed: Packed, index: int) -> tuple[float, int | None]:
    """The time and step of one point."""
    at: float = struct.unpack_from("<d", packed.times, 8 * index)[0]
    if packed.steps is None:
        return at, None
    if packed.form[1] == _JSON:
        return at, _unpack(_JSON, packed.steps)[index]
    return at, struct.unpack_from("<q", packed.steps, 8 * index)[0]


def sortable(value: Any) -> float | None:
    """The value as a number to sort by; None for NaN, texts and tables."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(number) else number


def downsample(values: Sequence[Any], most: int) -> list[int]:
    """Downsample: indexes of at most `most` numbers (at least two): the minimum and maximum of each part of the series,
    so that no spike is lost, and both ends. A part with NaN only keeps its first point.
    """
    if len(values) <= max(most, 2):
        return list(range(len(values)))
    kept = {0, len(values) - 1}
    parts = max((most - 2) // 2, 0)
    for part in range(parts):
        start, end = part * len(values) // parts, (part + 1) * len(values) // parts
        kept.update(_extremes(list(values[start:end]), start))
    return sorted(kept)


def _extremes(part: list[Any], start: int) -> tuple[int, ...]:
    """A list, since an array would make new objects of its numbers for each function."""
    if math.isnan(sum(part)):
        numbers = [(value, index) for index, value in enumerate(part) if value == value]
        if not numbers:
            return (start,)
        return start + min(numbers)[1], start + max(numbers)[1]
    return start + part.index(min(part)), start + part.index(max(part))
