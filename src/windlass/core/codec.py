"""JSON codec for dataclasses. Unknown keys are refused in requests, and ignored in stored data."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import re
import reprlib
import types
import typing
from collections.abc import Mapping
from typing import Any, Dict, Type, TypeVar

from windlass.core.errors import InvalidRequest

T = TypeVar("T")

# `X | None` is a type of its own on the Pythons that have it.
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
# Range of an integer column in the database.
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
# Types that need no conversion.
_PLAIN = frozenset((str, int, float, bool, type(None)))
_UNSTORABLE = re.compile("[\\0\ud800-\udfff]")
# A value takes about 100 bytes in memory, and as few as three in the text.
_MOST_VALUES = 1_000_000


def is_crowded(text: bytes, most: int = _MOST_VALUES) -> bool:
    """Whether a JSON text may have more than `most` values: each but the first follows a bracket or a comma."""
    return len(text) > most and sum(map(text.count, (b",", b"[", b"{"))) > most


def is_storable(text: str) -> bool:
    """Whether both databases and UTF-8 can store a text: it has no NUL and no lone surrogate."""
    return _UNSTORABLE.search(text) is None


def to_wire(value: Any) -> Any:
    """Convert entities, enums and datetimes to values for `json.dumps`."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, dict):
        return {str(key): item if type(item) in _PLAIN else to_wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, frozenset, set)):
        return [to_wire(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((name, getattr(value, name)) for name in value.__dataclass_fields__)
        return {name: item if type(item) in _PLAIN else to_wire(item) for name, item in fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime):
        return format_time(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return value


def from_wire(kind: Type[T], body: Any, strict: bool = False, where: str = "") -> T:
    """Build `kind` from JSON. `strict` refuses unknown keys: for requests, not for stored data."""
    return typing.cast(T, _build(kind, body, strict, where or kind.__name__))


def format_time(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"


def parse_time(text: str) -> datetime.datetime:
    """Parse a time, and convert it to UTC. A time without a zone is taken as UTC."""
    try:
        if len(text) > 40:  # newer Pythons read any number of digits as a time
            raise ValueError
        parsed = datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
        zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.timezone.utc)
        return zoned.astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"Not a time like 2026-01-31T12:00:00Z: {_short(text)}") from None


# Location in a document, for error messages; formatted only if there is an error.
Where = typing.Union[str, typing.Tuple[Any, str, Any]]


def _location(where: Where) -> str:
    if isinstance(where, str):
        return where
    before, form, part = where
    return form.format(_location(before), part if isinstance(part, int) else _short(part)[1:-1])


@functools.lru_cache(maxsize=None)
def _shape(kind: Any) -> typing.Tuple[Any, typing.Tuple[Any, ...]]:
    return typing.get_origin(kind), typing.get_args(kind)


@functools.lru_cache(maxsize=None)
def _fields(kind: type) -> Dict[str, typing.Tuple[Any, bool]]:
    """Fields of a dataclass by name: the type, and whether it is required."""
    hints, missing = typing.get_type_hints(kind), dataclasses.MISSING
    return {
        field.name: (hints[field.name], field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    }


def _build(kind: Any, body: Any, strict: bool, where: Where) -> Any:
    if kind is Any or kind is object:
        return body
    if isinstance(kind, type) and not _shape(kind)[0]:  # list[str] is a type too
        return _build_plain(kind, body, strict, where)
    origin, arguments = _shape(kind)
    if origin in _UNIONS:
        return _build_union(arguments, body, strict, where)
    if origin in (tuple, list):
        return _build_sequence(arguments, origin, body, strict, where)
    if origin in (dict, Mapping):
        return _build_mapping(arguments, body, strict, where)
    raise TypeError(f"codec cannot read {kind}")


def _build_union(kinds: typing.Tuple[Any, ...], body: Any, strict: bool, where: Where) -> Any:
    options = [option for option in kinds if option is not type(None)]
    if body is None and len(options) < len(kinds):
        return None
    for option in options[:-1]:
        try:
            return _build(option, body, strict, where)
        except InvalidRequest:
            continue
    return _build(options[-1], body, strict, where)


def _build_mapping(kinds: typing.Tuple[Any, ...], body: Any, strict: bool, where: Where) -> Any:
    _expect(isinstance(body, dict), where, "an object", body)
    key_kind, value_kind = kinds
    keys = (_build(key_kind, key, strict, (where, "{}'s key", 0)) for key in body)
    if value_kind is Any:
        return dict(zip(keys, body.values()))
    return {key: _build(value_kind, body[key], strict, (where, "{}.{}", key)) for key in keys}


def _build_sequence(kinds: typing.Tuple[Any, ...], origin: Any, body: Any, strict: bool, where: Where) -> Any:
    _expect(isinstance(body, (list, tuple)), where, "a list", body)
    if origin is list or kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(body)
    _expect(len(kinds) == len(body), where, f"a list of {len(kinds)}", body)
    return origin(_build(kinds[i], item, strict, (where, "{}[{}]", i)) for i, item in enumerate(body))


def _build_plain(kind: type, body: Any, strict: bool, where: Where) -> Any:
    if kind is str:
        _expect(isinstance(body, str), where, "a text", body)
        _expect(not strict or is_storable(body), where, "a text without NUL and lone surrogates", body)
        return body
    if kind is int:
        _expect(_is_number(body) and isinstance(body, int), where, "a whole number of 64 bits", body)
        return body
    if kind is float:
        _expect(_is_number(body), where, "a number", body)
        return float(body)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, body, strict, where)
    if issubclass(kind, enum.Enum):
        try:
            return kind(body)
        except ValueError:
            words = ", ".join(str(member.value) for member in kind)
            raise InvalidRequest(f"{_location(where)} is one of {words}, not {_short(body)}.") from None
    if kind is datetime.datetime:
        _expect(isinstance(body, str), where, "a time", body)
        return parse_time(body)
    if kind is datetime.timedelta:
        return _build_duration(body, where)
    names = {bool: "true or false", dict: "an object", list: "a list"}
    _expect(isinstance(body, kind), where, names.get(kind, kind.__name__), body)
    return body


def _build_dataclass(kind: type, body: Any, strict: bool, where: Where) -> Any:
    _expect(isinstance(body, dict), where, "an object", body)
    known = _fields(kind)
    unknown = sorted(set(body) - set(known))
    if unknown and strict:
        raise InvalidRequest(f"{_location(where)} has no field {_short(unknown[0])}; it has {', '.join(known)}.")
    values = {}
    for name, (value_kind, is_required) in known.items():
        if name in body:
            values[name] = _build(value_kind, body[name], strict, (where, "{}.{}", name))
        elif is_required:
            raise InvalidRequest(f"{_location(where)} needs {name}.")
    return kind(**values)


def _build_duration(body: Any, where: Where) -> datetime.timedelta:
    _expect(_is_number(body), where, "a number of seconds", body)
    try:
        return datetime.timedelta(seconds=body)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{_location(where)} must be a number of seconds, not {_short(body)}.") from None


def _is_number(body: Any) -> bool:
    if isinstance(body, int):
        return not isinstance(body, bool) and _SMALLEST <= body <= _LARGEST
    return isinstance(body, float)


def _expect(holds: bool, where: Where, what: str, body: Any) -> None:
    if not holds:
        raise InvalidRequest(f"{_location(where)} must be {what}, not {_short(body)}.")


def _short(body: Any) -> str:
    text = reprlib.repr(body).encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= 60 else text[:57] + "..."
