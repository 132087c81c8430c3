"""A script is submitted, followed, and read back: what a newcomer does first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import Project, own_files
from windlass import (
    ActivityFailedException,
    ComputeTarget,
    Environment,
    Experiment,
    Run,
    RunConfiguration,
    ScriptRun,
    ScriptRunConfig,
    UserErrorException,
    Workspace,
)
from windlass.client.submit.submission import Submission
from windlass.core.errors import Conflict, InvalidRequest, NotFound

TRAIN = """
import os, sys
print("arguments", sys.argv[1:])
print("to stderr", file=sys.stderr)
os.makedirs("outputs/sub")
open("outputs/model.pkl", "wb").write(bytes(range(256)))
open("outputs/sub/x.txt", "w").write("x")
"""


def test_the_first_five_minutes(exp: Experiment, project: Project, tmp_path: Path) -> None:
    config = ScriptRunConfig(
        source_directory=project(train=TRAIN), script="train.py", arguments=["--alpha", 0.1, "a b"]
    )
    run = exp.submit(config, tags={"why": "test", "alone": None})
    assert isinstance(run, ScriptRun)
    assert run.id.startswith(f"{exp.name}_")
    details = run.wait_for_completion()
    assert (details["status"], details["runId"], details["target"]) == ("Completed", run.id, "local")
    assert own_files(run) == ["outputs/model.pkl", "outputs/sub/x.txt", "user_logs/std_log.txt"]
    run.download_file("outputs/model.pkl")
    assert Path("model.pkl").read_bytes() == bytes(range(256))
    run.download_file("outputs/model.pkl", str(tmp_path / "there" / "m"))
    assert (tmp_path / "there" / "m").stat().st_size == 256
    run.download_files("outputs", output_directory=str(tmp_path / "all"))
    run.download_files("outputs/", output_directory=str(tmp_path / "bare"), append_prefix=False)
    assert (tmp_path / "all" / "outputs" / "sub" / "x.txt").read_text() == "x"
    assert (tmp_path / "bare" / "sub" / "x.txt").read_text() == "x"
    assert run.get_tags() == {"why": "test", "alone": None}


def test_without_output_collection_a_run_keeps_only_what_it_printed(exp: Experiment, project: Project) -> None:
    folder = Path(project(train=TRAIN + "open('logs/l.txt', 'w').write('l')\n"))
    configuration = RunConfiguration()
    configuration.history.output_collection = False
    configuration.environment.python.user_managed_dependencies = True
    (folder / "aml_config").mkdir()
    (folder / "aml_config" / "old.runconfig").write_text("ArgumentVector: [train.py]\nTrackedRun: false\n")
    for given in (configuration, "old"):
        run = exp.submit(ScriptRunConfig(str(folder), "train.py", run_config=given))
        assert run.wait_for_completion()["status"] == "Completed"
        assert own_files(run) == ["user_logs/std_log.txt"]


def test_what_get_details_tells(exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train=TRAIN), "train.py", ["--alpha", 0.1]))
    run.wait_for_completion()
    details = run.get_details()
    assert {"runId", "target", "status", "startTimeUtc", "endTimeUtc", "properties", "inputDatasets", "outputDatasets",
            "runDefinition", "logFiles", "submittedBy"} <= set(details)  # fmt: skip
    assert details["runDefinition"]["arguments"] == ["--alpha", "0.1"]
    assert details["properties"]["_azureml.ComputeTargetType"] == "local"
    assert details["properties"]["ContentSnapshotId"] == run.get_snapshot_id()
    assert "user_logs/std_log.txt" in details["logFiles"]
    logs = run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
    assert "arguments ['--alpha', '0.1']" in logs
    assert "to stderr" in logs
    assert "logs-here/user_logs/std_log.txt" in run.get_all_logs("logs-here")
    assert Path("logs-here/user_logs/std_log.txt").read_text() == logs
    assert run.get_environment().name == "default-environment"
    assert run.get_detailed_status()["status"] == "Completed"


def test_what_is_shown_while_it_runs(exp: Experiment, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    script = "print('one', flush=True)\nprint('two')\nimport sys; sys.stdout.write('no newline')\n"
    run = exp.submit(ScriptRunConfig(project(train=script), "train.py"))
    run.wait_for_completion(show_output=True)
    head = f"RunId: {run.id}\nWeb View: {run.get_portal_url()}\n"
    assert capsys.readouterr().out == (
        f"{head}\nStreaming user_logs/std_log.txt\n===============================\n\none\ntwo\nno newline\n"
        f"\nExecution Summary\n=================\n{head}\n"
    )


def test_submit_can_show_the_output_itself(
    exp: Experiment, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run = exp.submit(ScriptRunConfig(project(train="print('hello')"), "train.py"), show_output=True)
    assert run.status == "Completed"
    assert "\nhello\n" in capsys.readouterr().out


def test_a_script_that_fails(exp: Experiment, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    run = exp.submit(ScriptRunConfig(project(train="raise SystemExit(7)"), "train.py"))
    with pytest.raises(ActivityFailedException) as caught:
        run.wait_for_completion()
    error = json.loads(caught.value.message.partition("\n")[2])
    assert "7" in error["error"]["message"]
    assert run.status == "Failed"
    with pytest.raises(ActivityFailedException):
        run.wait_for_completion(show_output=True)
    capsys.readouterr()
    details = run.wait_for_completion(show_output=True, raise_on_error=False)
    assert details["status"] == "Failed"
    shown = capsys.readouterr().out
    assert shown.index("Execution Summary") < shown.index('\nError:\n{\n    "error": {')


def test_a_run_that_is_canceled(exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train="import time; print('up', flush=True); time.sleep(60)"), "train.py"))
    run.cancel()
    assert run.status in ("CancelRequested", "Canceled")
    assert run.wait_for_completion()["status"] == "Canceled"
    run.cancel()
    assert run.get_status() == "Canceled"


def test_an_interrupted_wait_leaves_the_run_alone(ws: Workspace, exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train="import time; print('up', flush=True); time.sleep(60)"), "train.py"))
    program = f"from windlass import *; Workspace.from_config().get_run({run.id!r}).wait_for_completion(True)"
    waiting = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert waiting.stdout is not None
    while waiting.stdout.readline() != "up\n":
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    shown = waiting.communicate(timeout=60)[1]
    assert "ExperimentExecutionException:\n\tMessage: The output streaming for the run interrupted.\n" in shown
    assert "But the run is still executing on the compute target." in shown
    while run.get_status() == "Starting":
        pass  # its first words may be here before the word that it has begun
    assert run.get_status() == "Running"
    run.cancel()
    run.wait_for_completion()


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["python", "train.py", "a  b"], "['a  b']"),
        ("echo $((1 + 2)) > outputs.txt && cat outputs.txt", "3"),
        (["echo", "x"], "x"),
    ],
)
def test_commands(exp: Experiment, project: Project, command: Any, printed: str) -> None:
    folder = project(train="import sys; print(sys.argv[1:])")
    run = exp.submit(ScriptRunConfig(folder, command=command))
    run.wait_for_completion()
    assert run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"].strip() == printed


def test_variables_and_the_interpreter_that_submits(exp: Experiment, project: Project) -> None:
    folder = project(train="import os, sys; print(os.environ['A'], os.environ['B'], sys.executable, sep='|')")
    config = ScriptRunConfig(folder, "train.py", environment=Environment("mine"))
    config.run_config.environment.environment_variables = {"A": "one"}
    config.run_config.environment_variables = {"B": "two"}
    run = exp.submit(config)
    run.wait_for_completion()
    log = run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
    assert log.strip().split("|") == ["one", "two", sys.executable]


def test_an_interpreter_that_is_not_there(exp: Experiment, project: Project) -> None:
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = "/nonexistent/python"
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py", environment=environment))
    with pytest.raises(ActivityFailedException, match="/nonexistent/python"):
        run.wait_for_completion()


def test_a_run_configuration_from_a_file(exp: Experiment, project: Project) -> None:
    folder = project(train="import sys; print(sys.argv[1:])")
    configuration = RunConfiguration("train.py", ["--x", 5])
    configuration.environment.python.user_managed_dependencies = True
    configuration.save(folder, "mine")
    run = exp.submit(ScriptRunConfig(folder, run_config=RunConfiguration.load(folder, "mine")))
    run.wait_for_completion()
    assert "['--x', '5']" in run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]


def test_the_snapshot_is_what_the_ignore_file_leaves(exp: Experiment, project: Project, tmp_path: Path) -> None:
    listing = "import os; print(sorted(os.path.join(p, f) for p, _, fs in os.walk('.') for f in fs))"
    files = {".amlignore": "data\n*.tmp\n", "pkg/a.py": "", "x.tmp": "", "data/big.csv": ""}
    folder = project(train=listing, **files)
    Path(folder, "run.sh").write_text("#!/bin/sh\n")
    Path(folder, "run.sh").chmod(0o755)
    run = exp.submit(ScriptRunConfig(folder, "train.py"))
    run.wait_for_completion()
    log = run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
    assert log.strip() == "['./.amlignore', './pkg/a.py', './run.sh', './train.py']"
    path = run.restore_snapshot(path=str(tmp_path / "restored") + os.sep)
    assert Path(path).name == f"{run.get_snapshot_id()}.zip"
    with zipfile.ZipFile(path) as archive:
        assert archive.read("train.py").decode() == listing
        assert {i.filename: bool(i.external_attr >> 16 & 0o100) for i in archive.infolist()} == {
            ".amlignore": False,
            "pkg/a.py": False,
            "run.sh": True,
            "train.py": False,
        }


def test_the_same_folder_is_the_same_snapshot(exp: Experiment, project: Project) -> None:
    folder = project(train="pass")
    first, second = (exp.submit(ScriptRunConfig(folder, "train.py")) for _ in range(2))
    assert first.get_snapshot_id() == second.get_snapshot_id()
    Path(folder, "train.py").write_text("pass #")
    assert exp.submit(ScriptRunConfig(folder, "train.py")).get_snapshot_id() != first.get_snapshot_id()


def test_many_files_are_named_by_their_digest(exp: Experiment, project: Project) -> None:
    folder = project(train="import os; print(len(os.listdir('d')))", **{f"d/{i}.txt": str(i) for i in range(300)})
    shown: list[tuple[int, int]] = []
    for _ in range(2):
        run = exp.submit(ScriptRunConfig(folder, "train.py"), on_progress=lambda *at: shown.append(at))
        run.wait_for_completion()
        assert "300" in run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
    assert len(shown) == 1  # the second time nothing was sent


def test_where_the_source_came_from(exp: Experiment, project: Project) -> None:
    folder = project(train="pass")
    subprocess.run(["git", "init", "-q", "-b", "trunk", folder], check=True)
    run = exp.submit(ScriptRunConfig(folder, "train.py"))
    assert run.get_properties()["azureml.git.branch"] == "trunk"


def test_a_plan_is_shown_and_nothing_is_stored(exp: Experiment, project: Project) -> None:
    submission = Submission(ScriptRunConfig(project(train="pass"), "train.py", ["--x"]), exp)
    plan = submission.plan()
    assert (plan["target"], plan["kind"]) == ("local", "local")
    assert "train.py" in plan["text"]
    assert list(exp.get_runs()) == []


def test_runs_are_found_again(ws: Workspace, exp: Experiment, project: Project) -> None:
    folder = project(train="pass")
    runs = [exp.submit(ScriptRunConfig(folder, "train.py"), tags={"n": str(i)}) for i in range(3)]
    for run in runs:
        run.wait_for_completion()
    runs[1].add_properties({"p": "q"})
    assert list(exp.get_runs()) == runs[::-1]
    assert next(exp.get_runs()) == runs[2]
    assert list(exp.get_runs(tags={"n": "1"})) == [runs[1]]
    assert list(exp.get_runs(tags="n")) == runs[::-1]
    assert list(exp.get_runs(properties={"p": "q"})) == [runs[1]]
    assert list(exp.get_runs(type="other")) == []
    assert list(Run.list(exp, status="Completed")) == runs[::-1]
    assert list(Run.list(exp, status="Failed")) == []
    found = Run.get(ws, runs[0].id)
    assert found == runs[0]
    assert hash(found) == hash(runs[0])
    assert isinstance(found, ScriptRun)
    assert [run.number for run in runs] == [1, 2, 3]
    with pytest.raises(NotFound):
        ws.get_run("nothing_1_2")
    with pytest.raises(InvalidRequest):
        ws.get_run("../x")


def test_how_a_run_looks(exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py"))
    run.wait_for_completion()
    assert repr(run) == f"Run(Experiment: {exp.name},\nId: {run.id},\nType: azureml.scriptrun,\nStatus: Completed)"
    html = run._repr_html_()
    assert f"<td>{run.id}</td>" in html
    assert f'href="{run.get_portal_url()}"' in html
    assert "Reason" not in html


def test_a_notebook_shows_why_a_run_failed(exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train="raise ValueError('no <data> here')"), "train.py"))
    run.wait_for_completion(raise_on_error=False)
    html = run._repr_html_()
    assert "<th>Reason</th>" in html and "<td>Failed</td>" in html
    assert "ValueError: no &lt;data&gt; here" in html and "exit code 1" in html


def test_names_tags_and_properties_of_a_run(exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py"), display_name="before")
    assert run.display_name == "before"
    run.display_name = "after"
    run.description = "what it is for"
    assert (run.name, run.description) == ("after", "what it is for")
    run.tag("a")
    run.set_tags({"b": 1})
    assert run.get_tags() == {"a": None, "b": "1"}
    run.remove_tags(["a"])
    assert run.tags == {"b": "1"}
    run.add_properties({"p": "1"})
    run.add_properties({"p": "1"})
    with pytest.raises(Conflict):
        run.add_properties({"p": "2"})
    assert run.get_properties()["p"] == "1"


def test_a_run_with_an_id_of_its_own(exp: Experiment, project: Project) -> None:
    folder = project(train="pass")
    name = f"mine-{os.urandom(4).hex()}"
    assert exp.submit(ScriptRunConfig(folder, "train.py"), run_id=name).id == name
    with pytest.raises(InvalidRequest):
        exp.submit(ScriptRunConfig(folder, "train.py"), run_id=name)


def test_mistakes_are_told_before_anything_is_sent(exp: Experiment, project: Project) -> None:
    folder = project(train="pass", **{".amlignore": "secret.py\n", "secret.py": "pass"})
    with pytest.raises(UserErrorException, match="does not exist"):
        exp.submit(ScriptRunConfig(folder, "other.py"))
    with pytest.raises(UserErrorException, match="ignore file"):
        exp.submit(ScriptRunConfig(folder, "secret.py"))
    with pytest.raises(UserErrorException, match="There is no source directory"):
        exp.submit(ScriptRunConfig(folder + "-not", command=["ls"]))
    with pytest.raises(UserErrorException, match=r"submit\(\) does not know the option regenerate_outputs\.\n"):
        exp.submit(ScriptRunConfig(folder, "train.py"), regenerate_outputs=True)
    with pytest.raises(UserErrorException, match="A dict cannot be submitted"):
        exp.submit({})
    with pytest.raises(NotFound):
        exp.submit(ScriptRunConfig(folder, "train.py", compute_target="gpu-cluster"))
    assert list(exp.get_runs()) == []


def test_several_nodes_are_refused_by_the_target(exp: Experiment, project: Project) -> None:
    config = ScriptRunConfig(project(train="pass"), "train.py")
    config.run_config.node_count = 2
    with pytest.raises(InvalidRequest):
        exp.submit(config)


def test_many_threads_submit(exp: Experiment, project: Project) -> None:
    folder = project(train="pass")
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda i: exp.submit(ScriptRunConfig(folder, "train.py"), tags={"i": i}), range(8)))
        list(pool.map(lambda run: run.wait_for_completion(), runs))
    assert len({run.id for run in runs}) == 8
    assert sorted(run.number for run in runs) == list(range(1, 9))


def test_runs_of_a_target(ws: Workspace, exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py"), tags={"which": exp.name})
    assert list(Run.list_by_compute(ComputeTarget(ws, "local"), tags={"which": exp.name})) == [run]
    run.wait_for_completion()


def test_a_child_is_submitted(exp: Experiment, project: Project) -> None:
    folder = project(train="pass")
    parent = exp.start_logging(snapshot_directory=None)
    child = parent.submit_child(ScriptRunConfig(folder, "train.py"))
    child.wait_for_completion()
    assert child.parent == parent
    assert list(parent.get_children()) == [child]
    assert child not in list(exp.get_runs())
    assert child in list(exp.get_runs(include_children=True))
    parent.complete()
