"""Logged values and the results of get_metrics()."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from windlass.client.exceptions import UserErrorException
from windlass.client.metrics import metric_values
from windlass.client.metrics.get_metrics import fold


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1.5, 1.5),
        (3, 3),
        (True, True),
        ("text", "text"),
        (None, None),
        (math.inf, math.inf),
        (np.float32(0.5), 0.5),
        (np.float64(0.25), 0.25),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array(2.5), 2.5),
        (np.array([2.5]), 2.5),
        (2**70, float(2**70)),
        (10**400, str(10**400)),
    ],
)
def test_one_value(value: Any, kept: Any) -> None:
    found = metric_values.scalar("a", value)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize("value", [[1, 2], range(3), (x for x in [1]), [0.1]])
def test_a_list_is_not_a_value(value: Any) -> None:
    with pytest.raises(UserErrorException, match="run.log does not support list type. Use run.log_list instead"):
        metric_values.scalar("a", value)


def test_other_things_are_kept_as_text_with_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert metric_values.scalar("odd", {"a": 1}) == "{'a': 1}"
    assert metric_values.scalar("odd", {"b": 1}) == "{'b': 1}"
    assert capsys.readouterr().err.count("odd") == 1


@pytest.mark.parametrize("given", [[1, 2], (1, 2), range(1, 3), (x for x in (1, 2)), np.array([1, 2])])
def test_lists_of_all_kinds(given: Any) -> None:
    assert metric_values.values("a", given) == [1, 2]


@pytest.mark.parametrize("given", [5, "abc", {"a": 1}, None])
def test_what_is_no_list(given: Any) -> None:
    with pytest.raises(UserErrorException, match="is not one"):
        metric_values.values("a", given)


def test_rows_and_tables() -> None:
    assert metric_values.row("r", {"x": np.int32(1), "y": "b"}) == {"x": 1, "y": "b"}
    assert metric_values.table("t", {"x": [1, 2], "y": np.array([3.0, 4.0])}) == {"x": [1, 2], "y": [3.0, 4.0]}
    assert metric_values.table("t", {"x": 1, "y": "a"}) == {"x": [1], "y": ["a"]}
    with pytest.raises(UserErrorException, match="x of the row r has a list"):
        metric_values.row("r", {"x": [1]})
    with pytest.raises(UserErrorException, match="differ in length .x: 2, y: 1."):
        metric_values.table("t", {"x": [1, 2], "y": [1]})
    with pytest.raises(UserErrorException, match="must be a dict of columns"):
        metric_values.table("t", [1])


def test_documents() -> None:
    matrix = {"schema_type": "confusion_matrix", "data": {"matrix": np.array([[1, 0], [0, 2]])}}
    assert metric_values.document("m", matrix)["data"]["matrix"] == [[1, 0], [0, 2]]
    assert metric_values.document("m", '{"a": 1}') == {"a": 1}
    for wrong in ("[1]", "{", object()):
        with pytest.raises(UserErrorException):
            metric_values.document("m", wrong)


def series(kind: str, *values: Any) -> dict[str, Any]:
    return {"m": {"kind": kind, "values": [{"v": value, "t": 0.0} for value in values]}}


@pytest.mark.parametrize(
    ("logged", "shown"),
    [
        (series("scalar", 1.0), 1.0),
        (series("scalar", 1.0, 2.0), [1.0, 2.0]),
        (series("list", [1, 2]), [1, 2]),
        (series("list", [1]), [1]),
        (series("list", [1, 2], [3]), [1, 2, 3]),
        (series("row", {"a": 1, "b": 2}), {"a": 1, "b": 2}),
        (series("row", {"a": 1}, {"a": 2}), {"a": [1, 2]}),
        (series("row", {"a": 1}, {"a": 2, "b": 3}, {"b": 4}), {"a": [1, 2, None], "b": [None, 3, 4]}),
        (series("table", {"a": [1, 2], "b": [3, 4]}), {"a": [1, 2], "b": [3, 4]}),
        (series("table", {"a": [1]}), {"a": 1}),
        (series("table", {"a": [1]}, {"a": [2], "b": [3]}), {"a": [1, 2], "b": [None, 3]}),
        (series("image", "aml://x"), "aml://x"),
        (series("image", "aml://x", "aml://y"), ["aml://x", "aml://y"]),
        (series("residuals", {"data": {}}), {"data": {}}),
    ],
)
def test_what_get_metrics_shows(logged: dict[str, Any], shown: Any) -> None:
    assert fold(logged) == {"m": shown}
