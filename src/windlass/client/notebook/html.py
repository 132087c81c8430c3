"""HTML tables for runs, experiments, workspaces and targets, shown as the result of a notebook's cell."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.compute.target import ComputeTarget
    from windlass.client.experiment import Experiment
    from windlass.client.runs.run import Run
    from windlass.client.workspace.workspace import Workspace


def run_html(run: Run) -> str:
    cells = {
        "Experiment": escape(run.experiment.name),
        "Id": escape(run.id),
        "Type": escape(str(run.type)),
        "Status": escape(run.get_status()),
        "Details Page": link(run.get_portal_url(), "Link to the run"),
    }
    text = reason(run._view)
    if text:
        cells["Reason"] = f'<pre style="white-space:pre-wrap">{escape(text)}</pre>'
    return table(cells)


def reason(view: dict[str, Any]) -> str:
    """The reason why the run waits, or why it did not complete: its message and its error."""
    if view["status"] == "Completed":
        return ""
    error = view.get("error") or {}
    texts = dict.fromkeys(str(text) for text in (view.get("message"), error.get("message")) if text)
    return "\n".join(texts)


def experiment_html(experiment: Experiment) -> str:
    return table(
        {
            "Name": escape(experiment.name),
            "Workspace": escape(experiment.workspace.name),
            "Report Page": link(experiment.get_portal_url(), "Link to the experiment"),
        }
    )


def workspace_html(workspace: Workspace) -> str:
    return table(
        {
            "Name": escape(workspace.name),
            "Studio": link(workspace.get_portal_url(), "Link to the workspace"),
        }
    )


def target_html(target: ComputeTarget) -> str:
    return table(
        {
            "Name": escape(target.name),
            "Workspace": escape(target.workspace.name),
            "Type": escape(str(target.type)),
            "State": escape(str(target.provisioning_state)),
            "Studio": link(target.get_portal_url(), "Link to the target"),
        }
    )


def link(address: str, text: str) -> str:
    if not address.startswith(("http://", "https://")):
        return escape(address)
    return f'<a href="{escape(address)}" target="_blank" rel="noopener">{escape(text)}</a>'


def table(cells: dict[str, str]) -> str:
    """A table of one row; the cells are HTML already."""
    head = "".join(f"<th>{escape(name)}</th>" for name in cells)
    row = "".join(f"<td>{cell}</td>" for cell in cells.values())
    return f'<table style="width:100%"><tr>{head}</tr><tr>{row}</tr></table>'
