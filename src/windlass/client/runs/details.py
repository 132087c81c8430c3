"""Conversion of a run's view to the dict of Azure's get_details()."""

from __future__ import annotations

from typing import Any

from windlass.client.runs.log_names import LogFiles
from windlass.client.runs.record import FINAL


def details(view: dict[str, Any], address: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "runId": view["id"],
        "target": view["target"] or "sdk",
        "status": view["status"],
        "startTimeUtc": view["started_at"] or view["created_at"],
    }
    if view["status"] in FINAL:
        found["endTimeUtc"] = view["ended_at"]
    if view["error"]:
        found["error"] = {"error": view["error"]}
    found["properties"] = properties(view)
    if view.get("target_kind"):
        found["properties"]["_azureml.ComputeTargetType"] = view["target_kind"]
    found["inputDatasets"] = []
    found["outputDatasets"] = []
    definition = (view.get("spec") or {}).get("definition")
    if definition:
        found["runDefinition"] = definition
    found["logFiles"] = LogFiles({name: f"{address}/files/{name}" for name in view.get("log_files") or ()})
    found["submittedBy"] = view["submitted_by"]
    return found


def properties(view: dict[str, Any]) -> dict[str, Any]:
    """The run's properties, and the snapshot under Azure's name."""
    found = dict(view["properties"])
    if view["snapshot"]:
        found["ContentSnapshotId"] = view["snapshot"]
    return found
