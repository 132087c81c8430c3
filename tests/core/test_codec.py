"""Entities survive JSON; strangers are refused with a sentence, our own old records are read leniently."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.values import instances, json_values, times
from windlass.core import codec, entities
from windlass.core.codec import format_time, from_wire, parse_time, to_wire
from windlass.core.entities import Resources, RunSpec, SnapshotFile
from windlass.core.errors import InvalidRequest
from windlass.core.states import Observation, Patience, RunState, Step

KINDS = [
    entities.Resources, entities.EnvironmentSpec, entities.RunSpec, entities.Workspace, entities.Experiment,
    entities.Distribution, entities.RetryPolicy, entities.NodeShare, entities.Allocation,
    entities.Container, entities.Target, entities.Connection, entities.Run, entities.Event, entities.Artifact,
    entities.SnapshotFile, entities.Snapshot, entities.Distribution, entities.RetryPolicy, entities.NodeShare,
    entities.Allocation, Observation, Step, Patience,
]  # fmt: skip


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(to_wire(value)))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_goes_out_comes_back(kind: type, data: st.DataObject) -> None:
    value = data.draw(instances(kind))
    assert from_wire(kind, through_json(value), strict=True) == value


def test_every_entity_is_tested() -> None:
    made_here = {v for v in vars(entities).values() if isinstance(v, type) and v.__module__ == entities.__name__}
    assert made_here <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@given(body=json_values)
def test_any_body_is_a_value_or_a_sentence(kind: type, body: Any) -> None:
    try:
        assert isinstance(from_wire(kind, body, strict=True), kind)
    except InvalidRequest as refusal:
        assert_sentence(refusal)


@given(body=st.dictionaries(st.sampled_from(list(RunSpec.__dataclass_fields__)), json_values))
def test_any_run_specification_is_a_value_or_a_sentence(body: dict[str, Any]) -> None:
    try:
        assert isinstance(from_wire(RunSpec, body, strict=True), RunSpec)
    except InvalidRequest as refusal:
        assert_sentence(refusal)


def assert_sentence(refusal: InvalidRequest) -> None:
    """One short printable line: it goes to terminals and into JSON as it is."""
    assert refusal.message.isascii() and refusal.message.isprintable()
    assert len(refusal.message) < 600


SPEC = {"script": "train.py", "arguments": ["--alpha", "0.1"]}


def test_a_stranger_may_not_send_what_we_do_not_know() -> None:
    with pytest.raises(InvalidRequest, match=r"RunSpec has no field 'scirpt'; it has script, "):
        from_wire(RunSpec, {"scirpt": "train.py"}, strict=True)


def test_strictness_reaches_inner_values() -> None:
    with pytest.raises(InvalidRequest, match=r"RunSpec\.resources has no field 'gpu'"):
        from_wire(RunSpec, {**SPEC, "resources": {"gpu": 1}}, strict=True)


def test_a_newer_release_may_have_stored_more() -> None:
    spec = from_wire(RunSpec, {**SPEC, "colour": "red", "resources": {"nodes": 2, "racks": 1}})
    assert spec == RunSpec(script="train.py", arguments=("--alpha", "0.1"), resources=Resources(nodes=2))


def test_what_an_older_release_did_not_store_has_its_default() -> None:
    assert from_wire(SnapshotFile, {"path": "a", "digest": "d", "size": 1}).executable is False


def test_what_is_needed_is_named() -> None:
    with pytest.raises(InvalidRequest, match="SnapshotFile needs digest"):
        from_wire(SnapshotFile, {"path": "a", "size": 1})


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (None, r"RunSpec must be an object, not None\."),
        ([], r"RunSpec must be an object, not \[\]\."),
        ({"script": 1}, r"RunSpec\.script must be a text, not 1\."),
        ({"arguments": "--alpha 1"}, r"RunSpec\.arguments must be a list, not '--alpha 1'\."),
        ({"arguments": ["a", 1]}, r"RunSpec\.arguments\[1\] must be a text, not 1\."),
        ({"environment_variables": {"A": 1}}, r"RunSpec\.environment_variables\.A must be a text, not 1\."),
        ({"environment_variables": []}, r"RunSpec\.environment_variables must be an object"),
        ({"grace_seconds": True}, r"RunSpec\.grace_seconds must be a whole number of 64 bits, not True\."),
        ({"grace_seconds": 1.5}, r"must be a whole number"),
        ({"grace_seconds": 2**63}, r"must be a whole number of 64 bits"),
        ({"grace_seconds": "4"}, r"must be a whole number"),
        ({"output_collection": 1}, r"RunSpec\.output_collection must be true or false, not 1\."),
        ({"resources": {"cpus": "2"}}, r"RunSpec\.resources\.cpus must be a number, not '2'\."),
        ({"resources": {"cpus": True}}, r"RunSpec\.resources\.cpus must be a number, not True\."),
        ({"resources": {"cpus": 10**400}}, r"RunSpec\.resources\.cpus must be a number"),
        ({"script": "a\0b"}, r"RunSpec\.script must be a text without NUL and lone surrogates, not 'a\\x00b'\."),
        ({"arguments": ["\ud800"]}, r"without NUL and lone surrogates"),
        ({"environment_variables": {"\ud800": "x"}}, r"RunSpec\.environment_variables's key must be a text without"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_place(body: Any, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence) as refusal:
        from_wire(RunSpec, body, strict=True)
    assert_sentence(refusal.value)


def test_a_wrong_word_is_answered_with_the_right_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"RunState is one of NotStarted, Queued, .*Canceled, not 'Done'\."):
        from_wire(RunState, "Done")


def test_what_is_stored_is_read_even_if_strangers_could_not_send_it() -> None:
    assert from_wire(RunSpec, {"script": "a\0b"}).script == "a\0b"


def test_endless_input_makes_a_short_message() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        from_wire(RunSpec, {"script": [list(range(100_000))] * 100, "x" * 100_000: 1}, strict=True)
    assert_sentence(refusal.value)


@pytest.mark.parametrize(
    ("text", "most", "is_crowded"),
    [
        (b"[[],[],[]]", 6, False),
        (b"[[],[],[]]", 5, True),
        (b'{"a":1,"b":{}}', 3, False),
        (b'{"a":1,"b":{}}', 2, True),
        (b"123456789", 1, False),
        (b"[" + b"[]," * 400_000 + b"0]", 1_000_000, False),
        (b"[" + b"[]," * 600_000 + b"0]", 1_000_000, True),
    ],
)
def test_texts_of_too_many_values_are_known_before_they_are_read(text: bytes, most: int, is_crowded: bool) -> None:
    assert codec.is_crowded(text, most) is is_crowded


def test_not_a_number_and_infinity_survive() -> None:
    assert math.isnan(from_wire(Resources, {"cpus": math.nan}).cpus or 0)
    assert from_wire(Resources, {"cpus": -math.inf}).cpus == -math.inf


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e300, "1", None, True])
def test_a_duration_is_a_finite_number(seconds: object) -> None:
    with pytest.raises(InvalidRequest, match="must be a number of seconds"):
        from_wire(timedelta, seconds)


@given(moment=times)
def test_a_time_is_text_in_utc_to_the_microsecond(moment: datetime) -> None:
    text = format_time(moment)
    assert len(text) == len("2026-01-31T12:00:00.000000Z") and text.endswith("Z")
    assert parse_time(text) == moment


def test_times_of_other_zones_are_the_same_moment() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_time("2026-01-31T13:00:00+01:00") == noon
    assert parse_time("2026-01-31T12:00:00") == noon
    assert format_time(noon.astimezone(timezone(timedelta(hours=-8)))) == "2026-01-31T12:00:00.000000Z"


@pytest.mark.parametrize(
    "text",
    ["", "Z", "now", "2026-02-30T00:00:00Z", "2026-01-31T00:00:00+99:99", "0001-01-01T00:00:00+23:59",
     "9999-12-31T23:59:59-23:59", "\ud800", "1" * 100_000],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="Not a time like") as refusal:
        parse_time(text)
    assert_sentence(refusal.value)


@dataclass(frozen=True)
class Modern:
    """Spelled as drivers do, on the Pythons of the server."""

    digest: str | None = None
    pair: tuple[str, int] = ("", 0)
    data: Mapping[str, Any] = field(default_factory=dict)
    parts: list[int] = field(default_factory=list)
    either: int | str = 0
    plain: dict = field(default_factory=dict)  # type: ignore[type-arg]


@given(
    value=st.builds(Modern, digest=st.none() | st.just("d"), pair=st.just(("a", 1)), either=st.sampled_from([1, "x"]))
)
def test_newer_spellings_of_types_are_understood(value: Modern) -> None:
    assert from_wire(Modern, through_json(value), strict=True) == value


@pytest.mark.parametrize("pair", [["a"], ["a", 1, 2], [1, "a"], "a1", {}])
def test_a_pair_is_two_things(pair: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"Modern\.pair"):
        from_wire(Modern, {"pair": pair})


def test_neither_of_two_is_refused_by_the_last() -> None:
    with pytest.raises(InvalidRequest, match=r"Modern\.either must be a text"):
        from_wire(Modern, {"either": []})


def test_a_plain_object_is_taken_as_it_is() -> None:
    assert from_wire(Modern, {"plain": {"a": [1]}}).plain == {"a": [1]}
    with pytest.raises(InvalidRequest, match=r"Modern\.plain must be an object"):
        from_wire(Modern, {"plain": []})


def test_a_type_that_no_json_can_carry_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="codec cannot read"):
        from_wire(frozenset[int], [])


def test_what_may_be_anything_is_taken_as_it_is() -> None:
    assert from_wire(list[Any], [1, {"a": None}]) == [1, {"a": None}]


def test_what_json_will_refuse_is_left_to_it() -> None:
    assert to_wire(b"raw") == b"raw"


def test_sets_become_lists() -> None:
    assert to_wire({"a": {1}, "b": frozenset({2}), "c": (3,)}) == {"a": [1], "b": [2], "c": [3]}
