"""Conversion of the server's metric series to the result of get_metrics()."""

from __future__ import annotations

import sys
from typing import Any


def warn_skipped(series: dict[str, Any]) -> None:
    """Print a warning for each metric with values that the server cannot read."""
    for name, found in series.items():
        if found.get("skipped"):
            print(f"Warning: {found['skipped']} values of the metric {name} cannot be read.", file=sys.stderr)


def fold(series: dict[str, Any]) -> dict[str, Any]:
    """{name: value}: a scalar logged once is a value, logged often a list; rows and tables are dicts of columns."""
    return {name: _one(found["kind"], [point["v"] for point in found["values"]]) for name, found in series.items()}


def _one(kind: str, logged: list[Any]) -> Any:
    if kind in ("row", "table"):
        return _columns(logged)
    if kind == "list" or any(isinstance(value, list) for value in logged):
        return [item for value in logged for item in (value if isinstance(value, list) else [value])]
    return logged[0] if len(logged) == 1 else logged


def _columns(logged: list[Any]) -> dict[str, Any]:
    """Concatenate rows and tables. Missing columns are None; a single row gives single values."""
    columns: dict[str, list[Any]] = {}
    height = 0
    for part in logged:
        added = {name: value if isinstance(value, list) else [value] for name, value in part.items()}
        rows = max((len(values) for values in added.values()), default=0)
        for name in added:
            columns.setdefault(name, [None] * height)
        height += rows
        for name, values in columns.items():
            values.extend(added.get(name, []))
            values.extend([None] * (height - len(values)))
    if height == 1:
        return {name: values[0] for name, values in columns.items()}
    return dict(columns)
