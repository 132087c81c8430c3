"""SVG line charts of metric series. Text and axes have the colour of the page, light or dark."""

from __future__ import annotations

import math
import sys
from html import escape
from typing import Iterator, List, NamedTuple, Sequence, Tuple

from windlass.client.notebook.metric_series import Point, Series

WIDTH, HEIGHT = 300, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 8, 22
# Readable on white and on black, and distinguishable for most colour-blind people.
COLOURS = ("#3b82c4", "#d9792b", "#2f9e6e", "#b45fb0", "#a88a00", "#d04f5b", "#2a9fb5", "#8a7f78")


class _Scale(NamedTuple):
    """Maps values between two numbers to pixels."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        # Halved, since the difference of two large floats may overflow.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.begin + share * (self.end - self.begin)


def draw(title: str, columns: Sequence[Tuple[str, Series]]) -> str:
    """An SVG with a line for each series. NaN and infinities interrupt it; infinities are marked at the edge."""
    points = [point for _, series in columns for point in series.points]
    x = _Scale(*_range([x for x, _ in points]), _LEFT, WIDTH - _RIGHT)
    y = _Scale(*_range([y for _, y in points if math.isfinite(y)]), HEIGHT - _BOTTOM, _TOP)
    lines = "".join(_line(series.points, x, y, COLOURS[at % len(COLOURS)]) for at, (_, series) in enumerate(columns))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        f' role="img" aria-label="{escape(title)}" font-family="system-ui,sans-serif" font-size="11"'
        f' fill="currentColor" style="max-width:100%;height:auto;overflow:visible">{_axes(x, y)}{lines}</svg>'
    )


def shown(value: float) -> str:
    """A number with at most six significant digits."""
    return str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1e6 else f"{value:.6g}"


def _range(values: List[float]) -> Tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if low == high:
        room = abs(low) / 10 or 1.0
        return max(low - room, -sys.float_info.max), min(high + room, sys.float_info.max)
    return low, high


def _axes(x: _Scale, y: _Scale) -> str:
    rows = "".join(
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y.at(value):.1f}" y2="{y.at(value):.1f}"/>'
        for value in _ticks(y.low, y.high)
    )
    left = "".join(
        f'<text x="{_LEFT - 6}" y="{y.at(value) + 4:.1f}" text-anchor="end">{shown(value)}</text>'
        for value in _ticks(y.low, y.high)
    )
    below = "".join(
        f'<text x="{x.at(value):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{shown(value)}</text>'
        for value in _ticks(x.low, x.high)
        if value == int(value)
    )
    return f'<g stroke="currentColor" stroke-opacity=".2">{rows}</g><g fill-opacity=".75">{left}{below}</g>'


def _ticks(low: float, high: float) -> List[float]:
    """Up to six round numbers in a range."""
    span = high - low
    if not math.isfinite(span):
        return [low, 0.0, high]
    power = 10.0 ** math.floor(math.log10(span / 4)) if span > 1e-300 else 0.0
    step = next((factor * power for factor in (1, 2, 5, 10) if factor * power * 5 >= span), 0.0)
    if not step or low + step == low or high - step == high:
        return [low, high]
    first, last = math.ceil(low / step), math.floor(high / step * (1 + 1e-12))
    return [float(f"{at * step:.15g}") for at in range(first, last + 1)]


def _line(points: List[Point], x: _Scale, y: _Scale, colour: str) -> str:
    parts = []
    for piece in _pieces(points):
        if len(piece) == 1:
            parts.append(f'<circle cx="{x.at(piece[0][0]):.1f}" cy="{y.at(piece[0][1]):.1f}" r="2" fill="{colour}"/>')
        else:
            path = " ".join(f"{x.at(at):.1f},{y.at(value):.1f}" for at, value in piece)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-linejoin="round"/>'
            )
    for at, value in points:
        if math.isinf(value):
            tip, base = (_TOP, _TOP + 6) if value > 0 else (HEIGHT - _BOTTOM, HEIGHT - _BOTTOM - 6)
            middle = x.at(at)
            parts.append(
                f'<path d="M{middle:.1f} {tip}l-3.5 {base - tip}h7z" fill="{colour}"><title>{value}</title></path>'
            )
    return "".join(parts)


def _pieces(points: List[Point]) -> Iterator[List[Point]]:
    """The stretches between values that are not finite."""
    piece: List[Point] = []
    for point in points:
        if math.isfinite(point[1]):
            piece.append(point)
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece
