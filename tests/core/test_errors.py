"""One tree of errors. A class crosses the wire by its code and is itself again on the other side."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.values import json_values, texts
from windlass.core import errors
from windlass.core.errors import BY_CODE, InvalidRequest, NotFound, TargetUnreachable, WindlassError, from_wire

KINDS = sorted(BY_CODE.values(), key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", KINDS)
@given(message=texts, hint=texts, details=st.dictionaries(texts, json_values, max_size=2))
def test_an_error_is_itself_after_the_wire(
    kind: type[WindlassError], message: str, hint: str, details: dict[str, object]
) -> None:
    error = kind(message, hint, details)
    rebuilt = from_wire(json.loads(json.dumps(error.to_wire())))
    assert type(rebuilt) is kind
    assert rebuilt.to_wire() == error.to_wire()


def test_every_class_has_a_code_of_its_own() -> None:
    classes = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, WindlassError)]
    assert len({kind.code for kind in classes}) == len(classes) == len(BY_CODE)
    assert all(re.fullmatch("[a-z_]+", kind.code) for kind in classes)


def test_the_tree_is_drawn_in_full() -> None:
    drawn = set(re.findall(r"[A-Z]\w+", "\n".join(re.findall(r"[│├└─ ]*(\w+)", errors.__doc__ or ""))))
    assert {kind.__name__ for kind in KINDS} <= drawn


def test_an_error_of_a_newer_server_is_still_an_error_of_ours() -> None:
    error = from_wire({"code": "moon_phase", "message": "not tonight", "hint": "wait", "details": ["odd"]})
    assert type(error) is WindlassError
    assert (error.message, error.hint, error.details) == ("not tonight", "wait", {})


def test_an_empty_answer_is_an_error_without_words() -> None:
    assert str(from_wire({})) == ""


@pytest.mark.parametrize(("kind", "transient"), [(InvalidRequest, False), (NotFound, False), (TargetUnreachable, True)])
def test_whether_to_try_again_is_part_of_the_type(kind: type[WindlassError], transient: bool) -> None:
    assert kind("x").transient is transient
    assert kind("x").to_wire()["transient"] is transient


def test_people_read_what_happened_and_then_what_to_do() -> None:
    assert str(NotFound("There is no run demo_1.", "windlass runs")) == "There is no run demo_1.\nwindlass runs"
    assert str(NotFound("There is no run demo_1.")) == "There is no run demo_1."
