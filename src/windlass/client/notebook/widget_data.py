"""Data of the run widget, with the keys of Azure's widget."""

from __future__ import annotations

from typing import Any

from windlass.client.notebook.live_run import LiveRun


def widget_data(live: LiveRun, widget_settings: dict[str, Any] | None) -> dict[str, Any]:
    view = live.view
    return {
        "status": view["status"],
        "workbench_run_details_uri": view["url"],
        "run_id": view["id"],
        "run_properties": _properties(view),
        "child_runs": [_properties(child) for child in live.children],
        "children_metrics": {},
        "run_metrics": [
            {
                "name": f"{name}.{column}" if column else name,
                "run_id": view["id"],
                "categories": [x for x, _ in series.points],
                "series": [{"data": [y for _, y in series.points]}],
            }
            for name, metric in live.metrics.items()
            for column, series in metric.columns.items()
        ],
        "run_logs": live.log.text(),
        "graph": {},
        "widget_settings": dict(widget_settings or {}),
        "loading": False,
    }


def _properties(view: dict[str, Any]) -> dict[str, Any]:
    spec = view.get("spec") or {}
    return {
        "run_id": view["id"],
        "run_number": view["number"],
        "status": view["status"],
        "created_utc": view["created_at"],
        "start_time_utc": view["started_at"],
        "end_time_utc": view["ended_at"],
        "script_name": spec.get("script"),
        "arguments": spec.get("arguments"),
        "tags": view["tags"],
        "properties": view["properties"],
    }
