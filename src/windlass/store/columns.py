"""Column types: entities' values in Python, what both databases keep alike below."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Integer, Text, func
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.type_api import TypeEngine
from sqlalchemy.types import TypeDecorator

from windlass.core import codec
from windlass.core.entities import RunSpec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# SQLite numbers its rows only in a column that is spelled INTEGER.
RowId: TypeEngine[int] = BigInteger().with_variant(Integer, "sqlite")


def clean(text: str) -> str:
    """What both databases can keep: PostgreSQL has no NUL, neither has lone surrogates. A driver may send anything."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def begins(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """Whether a text begins like that, to the letter: SQLite's LIKE takes `gpu` for `GPU`."""
    return func.substr(column, 1, len(prefix)) == prefix


class Words(TypeDecorator[str]):
    """Text, in order of its code points on both databases."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text(collation="C") if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


class Word(TypeDecorator[Any]):
    """A member of an enumeration."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value.value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any | None:
        return None if value is None else self.kind(value)


class Time(TypeDecorator[datetime]):
    """Microseconds since 1970, UTC: exact, and in order."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + timedelta(microseconds=value)


class Json(TypeDecorator[Any]):
    """ASCII text, so that no character is beyond any database; NaN and infinities stand as such."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any | None:
        return None if value is None else json.loads(value)


class Names(TypeDecorator[tuple[str, ...]]):
    """A few names, as JSON."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(list(value), separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...] | None:
        return None if value is None else tuple(json.loads(value))


class Spec(TypeDecorator[RunSpec]):
    """What a run was submitted with. Many runs of a queue say the same, and each is read several times."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: RunSpec | None, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(codec.to_wire(value), separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> RunSpec | None:
        return None if value is None else _parse_spec(value)


@lru_cache(maxsize=100)
def _parse_spec(text: str) -> RunSpec:
    return codec.from_wire(RunSpec, json.loads(text))


def now() -> datetime:
    """For people to read; nothing is decided by it."""
    return datetime.now(UTC)
