"""RunDetails in a real Jupyter kernel, in IPython's terminal, and in a plain Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.sdk.conftest import Project, stop
from windlass import Experiment, RunDetails, ScriptRunConfig, UserErrorException, Workspace

SCRIPT = """
import os, sys, time
from windlass import Run
run = Run.get_context()
print("begun <b>")
for value in (1.5, 2.5, float("nan")):
    run.log("loss", value)
run.log_table("curve", {"left": [1, 2], "right": [3, 4]})
run.flush()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
run.child_run(name="a child").complete()
print("\\033[31mdone\\033[0m")
"""


class Recording(NotebookClient):
    """Executes a notebook and keeps each version of the views that are updated."""

    def __init__(self, nb: Any, **options: Any) -> None:
        super().__init__(nb, **options)
        self.updates: list[str] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "update_display_data":
            self.updates.append(msg["content"]["data"]["text/html"])
        return super().process_message(msg, cell, cell_index)


def execute(*sources: str) -> Recording:
    common: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**common, "id": f"cell-{at}", "source": textwrap.dedent(text)} for at, text in enumerate(sources)]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    client = Recording(notebook, timeout=120, kernel_name="python3")
    client.execute()
    return client


def test_the_output_of_a_cell_follows_the_run(exp: Experiment, project: Project, tmp_path: Path) -> None:
    end, folder = tmp_path / "end", project(train=SCRIPT)
    client = execute(
        f"""
        from windlass import Experiment, ScriptRunConfig, Workspace
        from windlass.widgets import RunDetails
        experiment = Experiment(Workspace.from_config(), {exp.name!r})
        run = experiment.submit(ScriptRunConfig({folder!r}, "train.py", [{str(end)!r}]))
        RunDetails(run).show()
        """,
        """
        import time
        from windlass.client.notebook.run_widget import _followers
        (follower,) = _followers.values()
        while "begun" not in follower._shown[0] or "polyline" not in follower._shown[0]:
            time.sleep(0.02)
        RunDetails(run).show()  # a cell that is executed again adds no follower
        assert len(_followers) == 1 and run.status != "Completed"
        """,
        f"open({str(end)!r}, 'w').close(); run.wait_for_completion()['status']",
    )
    first, second = ([output["data"]["text/html"] for output in cell.outputs] for cell in client.nb.cells[:2])
    assert len(first) == 1 and first == second, "one view in two places"
    html = first[0]
    assert "Completed" in html and "begun &lt;b&gt;\ndone" in html and html.count("<svg") == 2
    assert "includes nan" in html and "a child" in html and "updated while" not in html
    running = [shown for shown in client.updates if "Running" in shown]
    assert any("begun" in shown and "polyline" in shown and "done" not in shown for shown in running)


def test_an_ended_run_is_shown_whole_at_once(exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train="print('said')\nraise SystemExit(3)"), "train.py"))
    run.wait_for_completion(raise_on_error=False)
    client = execute(
        f"""
        from windlass import Run, RunDetails, Workspace
        RunDetails(Run.get(Workspace.from_config(), {run.id!r})).show()
        """
    )
    html = client.nb.cells[0].outputs[0]["data"]["text/html"]
    assert "Failed" in html and "said" in html and "exit code 3" in html


def test_a_server_that_goes_is_waited_for_and_not_started(lone_home: Path, tmp_path: Path, project: Project) -> None:
    end, folder = tmp_path / "end", project(train=SCRIPT)
    client = execute(
        f"""
        import os, signal, sys, time
        from windlass import Experiment, RunDetails, ScriptRunConfig, Workspace
        from windlass.client.http import embedded_server
        from windlass.client.notebook import run_widget
        home = {str(lone_home)!r}

        def wait_for(is_so):
            deadline = time.monotonic() + 60
            while not is_so():
                assert time.monotonic() < deadline
                time.sleep(0.02)

        experiment = Experiment(Workspace.from_config(), "demo")
        run = experiment.submit(ScriptRunConfig({folder!r}, "train.py", [{str(end)!r}]))
        RunDetails(run).show()
        (follower,) = run_widget._followers.values()
        wait_for(lambda: "begun" in follower._shown[0])
        server = embedded_server.read(home).pid
        os.kill(server, signal.SIGTERM)
        wait_for(lambda: not embedded_server._is_server_of_user(server))
        wait_for(lambda: "The server does not answer now" in follower._shown[0])
        assert "begun" in follower._shown[0] and not os.path.exists(home + "/server.json")
        """,
        f"""
        open({str(end)!r}, "w").close()
        assert run.wait_for_completion()["status"] == "Completed"  # starts a server
        wait_for(follower._is_complete.is_set)
        assert "Completed" in follower._shown[0] and "does not answer" not in follower._shown[0]
        """,
        """
        run_widget.RETRY_SECONDS = 0.5
        os.kill(embedded_server.read(home).pid, signal.SIGTERM)
        wait_for(lambda: not os.path.exists(home + "/server.json"))
        RunDetails(run).show()
        (follower,) = run_widget._followers.values()
        wait_for(follower._is_complete.is_set)
        assert "This view is not updated any more. The server did not answer" in follower._shown[0]
        assert not os.path.exists(home + "/server.json")
        """,
    )
    assert len(client.nb.cells[2].outputs) == 1, "and nothing else is printed"
    stop(lone_home)


@pytest.mark.parametrize("program", ["python", "ipython"])
def test_elsewhere_it_is_text_and_does_not_wait(
    exp: Experiment, project: Project, tmp_path: Path, shared_home: Path, program: str
) -> None:
    end = tmp_path / "end"
    run = exp.submit(ScriptRunConfig(project(train=SCRIPT), "train.py", [str(end)]))
    file = tmp_path / "show.py"
    file.write_text(
        f"from windlass import Run, RunDetails, Workspace\nrun = Run.get(Workspace.from_config(), {run.id!r})\n"
        f"RunDetails(run).show()\nopen({str(end)!r}, 'w').close()\nrun.wait_for_completion()\nRunDetails(run).show()\n"
    )
    command = [sys.executable, *(["-m", "IPython", "--no-banner"] if program == "ipython" else []), str(file)]
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path / "ipython")}
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120, env=environment).stdout
    blocks = shown.strip().split("RunId: ")[1:]
    assert len(blocks) == 2
    assert all(run.id in block and run.get_portal_url() in block for block in blocks)
    assert "Status: Completed" not in blocks[0] and blocks[1].endswith("Status: Completed")


def test_what_it_shows_is_there_as_data_and_as_html(exp: Experiment, project: Project) -> None:
    script = "from windlass import Run\nrun = Run.get_context()\nrun.log('a', 1)\nrun.log('a', 2)\nprint('hello')"
    run = exp.submit(ScriptRunConfig(project(train=script), "train.py", ["--x", 1]), tags={"k": "v"})
    run.wait_for_completion()
    with run.child_run("below"):
        pass
    data = RunDetails(run).get_widget_data({"debug": True})
    json.dumps(data)
    assert (data["run_id"], data["status"], data["run_logs"]) == (run.id, "Completed", "hello")
    assert data["run_properties"]["script_name"] == "train.py" and data["run_properties"]["tags"] == {"k": "v"}
    assert [child["status"] for child in data["child_runs"]] == ["Completed"]
    assert [(metric["name"], metric["series"]) for metric in data["run_metrics"]] == [("a", [{"data": [1.0, 2.0]}])]
    shown: list[str] = []
    RunDetails(run).show(render_lib=shown.append)
    assert len(shown) == 1 and "hello" in shown[0] and "below" in shown[0]


def test_only_a_run_can_be_shown(ws: Workspace) -> None:
    with pytest.raises(UserErrorException, match="RunDetails shows a run, not a Workspace"):
        RunDetails(ws)  # type: ignore[arg-type]
