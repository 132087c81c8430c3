"""Column types: conversion between values of entities and what both databases store in the same way."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Integer, Text, func
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.type_api import TypeEngine
from sqlalchemy.types import TypeDecorator

from windlass.core import codec
from windlass.core.entities import RunSpec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_write = json.JSONEncoder(separators=(",", ":")).encode
V = TypeVar("V")

# SQLite numbers its rows only in a column that is spelled INTEGER.
RowId: TypeEngine[int] = BigInteger().with_variant(Integer, "sqlite")


def clean(text: str) -> str:
    """Replace characters that cannot be stored: NUL on PostgreSQL, lone surrogates on both. Drivers may send
    anything.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def starts_with(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """Whether a text starts with `prefix`, case-sensitive: SQLite's LIKE is not."""
    return func.substr(column, 1, len(prefix)) == prefix


class _Column(TypeDecorator[V]):
    """A type with one function that converts values for the database, and one that converts them back. None stays None.

    These replace process_bind_param() and process_result_value(): SQLAlchemy wraps those in functions of its own, a
    large part of the time of inserting or reading a row. The types underneath, Text and BigInteger, convert nothing.
    """

    __abstract__ = True

    def bind_processor(self, dialect: Dialect) -> Callable[[V | None], Any]:
        return self._to_database()

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], V | None] | None:
        return self._from_database()

    def _to_database(self) -> Callable[[V | None], Any]:
        raise NotImplementedError

    def _from_database(self) -> Callable[[Any], V | None] | None:
        """None if the value needs no conversion."""
        raise NotImplementedError


class SortedText(_Column[str]):
    """Text that sorts by code point on both databases."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text(collation="C") if dialect.name == "postgresql" else Text())

    def _to_database(self) -> Callable[[str | None], str | None]:
        return lambda value: None if value is None else clean(value)

    def _from_database(self) -> None:
        return None


class EnumText(_Column[Any]):
    """A member of an enumeration."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__()
        self.kind = kind

    def _to_database(self) -> Callable[[Any], str | None]:
        return lambda value: None if value is None else str(value.value)

    def _from_database(self) -> Callable[[str | None], Any]:
        kind, members = self.kind, {member.value: member for member in self.kind}
        return lambda value: None if value is None else members.get(value) or kind(value)


class Time(_Column[datetime]):
    """A datetime as microseconds since 1970, UTC: exact and sortable."""

    impl = BigInteger
    cache_ok = True

    def _to_database(self) -> Callable[[datetime | None], int | None]:
        return lambda value: None if value is None else (value - _EPOCH) // _MICROSECOND

    def _from_database(self) -> Callable[[int | None], datetime | None]:
        return lambda value: None if value is None else _EPOCH + timedelta(microseconds=value)


class Json(_Column[Any]):
    """JSON in ASCII, so that every character can be stored. NaN and infinities are written as such."""

    impl = Text
    cache_ok = True

    def _to_database(self) -> Callable[[Any], str | None]:
        return lambda value: None if value is None else _write(value)

    def _from_database(self) -> Callable[[str | None], Any]:
        return lambda value: None if value is None else {} if value == "{}" else json.loads(value)


class Names(_Column[tuple[str, ...]]):
    """A tuple of names, as JSON."""

    impl = Text
    cache_ok = True

    def _to_database(self) -> Callable[[tuple[str, ...] | None], str | None]:
        return lambda value: None if value is None else _write(list(value))

    def _from_database(self) -> Callable[[str | None], tuple[str, ...] | None]:
        return lambda value: None if value is None else tuple(json.loads(value))


class Spec(_Column[RunSpec]):
    """The RunSpec of a run, as JSON. Parsed values are cached: many runs have the same one, and each is read several
    times.
    """

    impl = Text
    cache_ok = True

    def _to_database(self) -> Callable[[RunSpec | None], str | None]:
        return lambda value: None if value is None else _write(codec.to_wire(value))

    def _from_database(self) -> Callable[[str | None], RunSpec | None]:
        return lambda value: None if value is None else _parse_spec(value)


@lru_cache(maxsize=100)
def _parse_spec(text: str) -> RunSpec:
    return codec.from_wire(RunSpec, json.loads(text))


def now() -> datetime:
    """The wall-clock time, for people to read; nothing is decided by it."""
    return datetime.now(UTC)
