"""Implemented functions have Azure's signatures: names, order, defaults. Further parameters come last, by keyword."""

from __future__ import annotations

import pytest

from tests.azureml import api

# Differences that stay, each with its reason.
REVIEWED = {
    "Experiment.start_logging": "Azure takes any arguments; here they are named, so that help() and editors show them.",
    "ImageBuildDetails.__init__": "Environment.build() makes it. It has the run that builds, not a client of Azure's.",
    "CondaDependencies.create": "Without a python_version any Python that is there will do; Azure installs its own.",
}


def test_signatures_are_azures() -> None:
    found = {
        f"{row.module}: {row.name}: {line}"
        for row, thing in api.implemented()
        if row.name not in REVIEWED
        for line in api.differences(row, thing)
    }
    assert not found, "\n".join(sorted(found))


@pytest.mark.parametrize("name", REVIEWED)
def test_reviewed_differences_are_differences(name: str) -> None:
    assert [line for row, thing in api.implemented() if row.name == name for line in api.differences(row, thing)]


def test_much_is_compared() -> None:
    assert len({row.name for row, _ in api.implemented()}) > 300


@pytest.mark.parametrize(
    ("azures", "ours", "line"),
    [
        ("a, b=None", lambda a, b=None: 0, None),
        ("a, b=None", lambda a, b=None, *, c=1: 0, None),
        ("a, **kwargs", lambda a, *, c=1: 0, None),
        ("a=1, b=None", lambda b=None, a=1: 0, "order"),
        ("a, b=22", lambda a, b="22": 0, "b: is"),
        ("a, b=True", lambda a, b=1: 0, "b: is"),
        ("a", lambda a=None: 0, "a: is"),
        ("a", lambda a, c=1: 0, "c: is ours"),
        ("a, b=None", lambda a: 0, "b: is missing"),
        ("a, **kwargs", lambda a: 0, "no keywords"),
    ],
)
def test_differences_are_found(azures: str, ours: object, line: str | None) -> None:
    found = api.differences(api.Row("azureml.core", "", "function", "function", azures), ours)
    assert [line in each for each in found] == [True] if line else not found
