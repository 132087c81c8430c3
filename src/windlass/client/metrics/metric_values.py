"""Conversion of logged values to JSON: numbers of every library, texts, truth values, lists, rows, tables."""

from __future__ import annotations

import sys
from typing import Any

from windlass.client.exceptions import UserErrorException

_PLAIN = (float, int, str, bool, type(None))
_LARGEST = 2**63
_warned: set[tuple[str, type]] = set()


def scalar(name: str, value: Any) -> Any:
    """One value. Anything but a number, text or truth value is converted to text, with a warning."""
    if type(value) in (float, str, bool, type(None)):
        return value
    if isinstance(value, (list, range)) or _is_generator(value):
        raise UserErrorException("run.log does not support list type. Use run.log_list instead")
    return _converted(name, value)


def values(name: str, given: Any) -> list[Any]:
    """The values of a list, an array or a generator."""
    if isinstance(given, (str, bytes, dict)) or not hasattr(given, "__iter__"):
        raise UserErrorException(f"The metric {name} is logged as a list, and {type(given).__name__} is not one.")
    return [_converted(name, value) for value in given]


def row(name: str, columns: dict[str, Any]) -> dict[str, Any]:
    for column, value in columns.items():
        if isinstance(value, (list, tuple, dict)):
            raise UserErrorException(f"The column {column} of the row {name} has a {type(value).__name__} as value.")
    return {column: _converted(name, value) for column, value in columns.items()}


def table(name: str, columns: Any) -> dict[str, list[Any]]:
    if not isinstance(columns, dict):
        raise UserErrorException(f"The table {name} must be a dict of columns, not a {type(columns).__name__}.")
    found = {}
    for column, given in columns.items():
        is_many = hasattr(given, "__iter__") and not isinstance(given, (str, bytes, dict))
        found[str(column)] = values(name, given if is_many else [given])
    lengths = {column: len(column_values) for column, column_values in found.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{column}: {length}" for column, length in lengths.items())
        raise UserErrorException(f"The columns of the table {name} differ in length ({shown}).")
    return found


def document(name: str, given: Any) -> dict[str, Any]:
    """A chart's data (confusion matrix and the like): a dict, or its JSON."""
    import json

    try:
        text = given if isinstance(given, str) else json.dumps(given, default=_array)
        body = json.loads(text)
    except (TypeError, ValueError):
        raise UserErrorException(f"The metric {name} is not JSON: {str(given)[:60]!r}") from None
    if not isinstance(body, dict):
        raise UserErrorException(f"The metric {name} must be a dict or its JSON, not a {type(given).__name__}.")
    return body


def _converted(name: str, value: Any) -> Any:
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return _fitting(kind(value))
    if value is None:
        return None
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "size", 1) in (1, ()):
        try:
            plain = item()
        except (TypeError, ValueError):
            plain = value
        if isinstance(plain, _PLAIN):
            return _fitting(plain)
    _warn_once(name, type(value))
    return str(value)


def _fitting(value: Any) -> Any:
    """Convert whole numbers beyond 64 bits, which the database cannot store, to floats."""
    if type(value) is int and not -_LARGEST <= value < _LARGEST:
        try:
            return float(value)
        except OverflowError:
            return str(value)
    return value


def _warn_once(name: str, kind: type) -> None:
    if (name, kind) not in _warned:
        _warned.add((name, kind))
        print(f"Warning: the metric {name} has a {kind.__name__} as value; it is kept as text.", file=sys.stderr)


def _is_generator(value: Any) -> bool:
    from types import FunctionType, GeneratorType

    is_function = isinstance(value, FunctionType) and bool(value.__code__.co_flags & 0x20)
    return isinstance(value, GeneratorType) or is_function


def _array(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(type(value).__name__)
