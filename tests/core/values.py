"""Arbitrary values of our types, for property tests."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import typing
from typing import Any

from hypothesis import strategies as st

# Text that strangers may send: anything but NUL and lone surrogates, which no database keeps.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
whole_numbers = st.integers(-(2**63), 2**63 - 1)
# NaN is not equal to itself; it has a test of its own.
numbers = st.floats(allow_nan=False)
times = st.datetimes(timezones=st.just(datetime.UTC))
durations = st.timedeltas(datetime.timedelta(days=-1000), datetime.timedelta(days=1000))
json_values = st.recursive(
    st.none() | st.booleans() | whole_numbers | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: whole_numbers,
    float: numbers,
    bool: st.booleans(),
    datetime.datetime: times,
    datetime.timedelta: durations,
    Any: json_values,
    type(None): st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Every value of a type as our entities spell types."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return instances(kind)
    return _generic(typing.get_origin(kind), typing.get_args(kind))


def instances(kind: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: values(hints[field.name]) for field in dataclasses.fields(kind)})


def _generic(origin: Any, arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is typing.Union:
        return st.one_of([values(argument) for argument in arguments])
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*[values(argument) for argument in arguments])
    raise TypeError(f"no values for {origin}")
