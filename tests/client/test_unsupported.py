"""Methods of Azure's pipeline, sweep and AutoML runs raise NotProvided with a hint what to use instead."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from windlass import NotProvided, Run
from windlass.client.unsupported import AzureRuns

DEMAND = Path(__file__).parents[1] / "azureml" / "data" / "azureml-demand.csv"
OFTEN = 3  # files in which public code calls it
NAMES = [name for name in vars(AzureRuns) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_other_runs_says_what_to_use_instead(name: str) -> None:
    run: Any = Run.__new__(Run)
    with pytest.raises(NotProvided) as caught:
        getattr(run, name)("anything")
    assert "is not provided in this version" in str(caught.value) and caught.value.hint.endswith(".")


def test_what_public_code_often_calls_on_a_run_is_there() -> None:
    with DEMAND.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "member" and int(row["files"]) >= OFTEN]
    owners = ("Run", "ScriptRun", "PipelineRun", "StepRun", "HyperDriveRun", "AutoMLRun")
    members = {name for owner, _, name in (row["symbol"].partition(".") for row in rows) if owner in owners}
    assert "get_output" in members
    assert sorted(name for name in members if not hasattr(Run, name)) == []
