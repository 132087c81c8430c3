"""Dataclass <-> JSON. Unknown keys are refused when somebody writes to us, ignored when we read what is stored."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import typing
from typing import Any, Dict, Type, TypeVar

from windlass.core.errors import InvalidRequest

T = TypeVar("T")


def to_wire(value: Any) -> Any:
    """Entities, enums and datetimes to what `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_wire(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime):
        return format_time(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {str(key): to_wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, frozenset, set)):
        return [to_wire(item) for item in value]
    return value


def from_wire(kind: Type[T], body: Any, strict: bool = False, where: str = "") -> T:
    """Build `kind` from JSON. `strict` refuses unknown keys: for what strangers send, not for what we stored."""
    return typing.cast(T, _build(kind, body, strict, where or kind.__name__))


def format_time(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime.datetime:
    try:
        parsed = datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise InvalidRequest(f"Not a time like 2026-01-31T12:00:00Z: {text[:60]!r}") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.timezone.utc)


@functools.lru_cache(maxsize=None)
def _hints(kind: type) -> Dict[str, Any]:
    return typing.get_type_hints(kind)


def _build(kind: Any, body: Any, strict: bool, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any or kind is object:
        return body
    if origin is typing.Union:
        return _build_union(kind, body, strict, where)
    if origin in (tuple, list):
        return _build_sequence(kind, origin, body, strict, where)
    if origin is dict:
        _expect(isinstance(body, dict), where, "an object", body)
        value_kind = typing.get_args(kind)[1]
        return {str(key): _build(value_kind, item, strict, f"{where}.{key}") for key, item in body.items()}
    if isinstance(kind, type):
        return _build_plain(kind, body, strict, where)
    raise TypeError(f"codec cannot read {kind}")


def _build_union(kind: Any, body: Any, strict: bool, where: str) -> Any:
    options = [option for option in typing.get_args(kind) if option is not type(None)]
    if body is None and len(options) < len(typing.get_args(kind)):
        return None
    for option in options[:-1]:
        try:
            return _build(option, body, strict, where)
        except InvalidRequest:
            continue
    return _build(options[-1], body, strict, where)


def _build_sequence(kind: Any, origin: Any, body: Any, strict: bool, where: str) -> Any:
    _expect(isinstance(body, (list, tuple)), where, "a list", body)
    item_kind = typing.get_args(kind)[0]
    return origin(_build(item_kind, item, strict, f"{where}[{i}]") for i, item in enumerate(body))


def _build_plain(kind: type, body: Any, strict: bool, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, body, strict, where)
    if issubclass(kind, enum.Enum):
        try:
            return kind(body)
        except ValueError:
            words = ", ".join(str(member.value) for member in kind)
            raise InvalidRequest(f"{where} is one of {words}, not {_short(body)}.") from None
    if kind is datetime.datetime:
        _expect(isinstance(body, str), where, "a time", body)
        return parse_time(body)
    if kind is datetime.timedelta:
        _expect(_is_number(body), where, "a number of seconds", body)
        return datetime.timedelta(seconds=body)
    if kind is float:
        _expect(_is_number(body), where, "a number", body)
        return float(body)
    if kind is int:
        _expect(isinstance(body, int) and not isinstance(body, bool), where, "a whole number", body)
        return body
    names = {str: "a text", bool: "true or false", dict: "an object", list: "a list"}
    _expect(isinstance(body, kind), where, names.get(kind, kind.__name__), body)
    return body


def _build_dataclass(kind: type, body: Any, strict: bool, where: str) -> Any:
    _expect(isinstance(body, dict), where, "an object", body)
    hints = _hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(body) - set(known))
    if unknown and strict:
        raise InvalidRequest(f"{where} has no field {_short(unknown[0])}; it has {', '.join(known)}.")
    values = {name: _build(hints[name], body[name], strict, f"{where}.{name}") for name in known if name in body}
    for name, field in known.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise InvalidRequest(f"{where} needs {name}.")
    return kind(**values)


def _is_number(body: Any) -> bool:
    return isinstance(body, (int, float)) and not isinstance(body, bool)


def _expect(holds: bool, where: str, what: str, body: Any) -> None:
    if not holds:
        raise InvalidRequest(f"{where} must be {what}, not {_short(body)}.")


def _short(body: Any) -> str:
    text = ascii(body)
    return text if len(text) <= 60 else text[:57] + "..."
