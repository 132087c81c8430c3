"""A script uses its run from inside; the results are read outside."""

from __future__ import annotations

import math
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.client.runs.test_submitted_run import PNG, SOURCES, oldest_python
from tests.sdk.conftest import Project, own_files
from windlass import Environment, Experiment, Run, ScriptRunConfig


def submitted(exp: Experiment, folder: str, arguments: list[str] | None = None) -> Run:
    run = exp.submit(ScriptRunConfig(folder, "train.py", arguments))
    details = run.wait_for_completion(raise_on_error=False)
    assert details["status"] == "Completed", run.get_details_with_logs()["logFiles"]
    return run


METRICS = """
from windlass import Run
run = Run.get_context()
for i in range(3):
    run.log("loss", 1 / (i + 1), step=i)
run.log("once", 7)
run.log("word", "text")
run.log("nan", float("nan"))
run.log("inf", float("-inf"))
run.log("flag", True)
run.log_list("list", [1, 2.5, 3])
for angle in (0, 1):
    run.log_row("row", angle=angle, label=str(angle))
run.log_row("row", angle=2, extra=9)
run.log_row("one row", x=1)
run.log_table("table", {"x": [1, 2], "y": ["a", "b"]})
run.log_confusion_matrix("matrix", {"schema_type": "confusion_matrix", "data": {"matrix": [[1, 0], [0, 1]]}})
run.log_accuracy_table("accuracy", '{"data": {}}')
run.log_residuals("residuals", {"data": {"bin_counts": [1]}})
run.log_predictions("predictions", {"data": {"bin_counts": [2]}})
"""


def test_metrics_of_every_kind(exp: Experiment, project: Project) -> None:
    run = submitted(exp, project(train=METRICS))
    metrics = run.get_metrics()
    assert math.isnan(metrics.pop("nan"))
    assert metrics == {
        "loss": [1.0, 0.5, 1 / 3],
        "once": 7,
        "word": "text",
        "inf": -math.inf,
        "flag": True,
        "list": [1, 2.5, 3],
        "row": {"angle": [0, 1, 2], "label": ["0", "1", None], "extra": [None, None, 9]},
        "one row": {"x": 1},
        "table": {"x": [1, 2], "y": ["a", "b"]},
        "matrix": {"schema_type": "confusion_matrix", "data": {"matrix": [[1, 0], [0, 1]]}},
        "accuracy": {"data": {}},
        "residuals": {"data": {"bin_counts": [1]}},
        "predictions": {"data": {"bin_counts": [2]}},
    }
    assert run.get_metrics("once") == {"once": 7}
    assert run.get_metrics("nothing") == {}


FILES = f"""
from windlass import Run
import os
import re
import subprocess
run = Run.get_context()
open("x.txt", "w").write("first")
run.upload_file("files/x.txt", "x.txt")
open("x.txt", "w").write("second")
run.upload_file("files/y.txt", "x.txt")
os.makedirs("plots"); open("plots/p.png", "wb").write({PNG!r})
run.upload_folder("kept", "plots")
run.log_image("curve", path="plots/p.png")
run.tag("phase", "one"); run.tag("phase", "two"); run.tag("gone"); run.remove_tags(["gone"])
run.add_properties({{"dataset": 5}})
run.display_name = "named by its script"
os.makedirs("logs", exist_ok=True); open("logs/own.txt", "w").write("own")
"""


def test_files_images_tags_and_names(exp: Experiment, project: Project, tmp_path: Path) -> None:
    run = submitted(exp, project(train=FILES))
    image = run.get_metrics()["curve"].rpartition("/")[2]
    assert own_files(run) == [
        image,
        "files/x.txt",
        "files/y.txt",
        "kept/p.png",
        "logs/own.txt",
        "user_logs/std_log.txt",
    ]
    assert image.startswith("curve_")
    run.download_file(image, str(tmp_path / "image.png"))
    assert (tmp_path / "image.png").read_bytes() == PNG
    run.download_file("files/x.txt", str(tmp_path / "x.txt"))
    assert (tmp_path / "x.txt").read_text() == "first"
    assert run.get_tags() == {"phase": "two"}
    assert run.get_properties()["dataset"] == "5"
    assert run.get_details()["runId"] == run.id
    assert run.display_name == "named by its script"


READS = """
from windlass import Run, Workspace
run = Run.get_context()
run.log("a", 1.0)
run.tag("k", "v")
assert run.get_metrics() == {"a": 1.0}, run.get_metrics()
assert run.get_tags() == {"k": "v"}
while run.get_status() == "Starting":
    pass  # it may be quicker than the word that it has begun
assert run.get_status() == "Running", run.get_status()
assert run.get_details()["status"] == "Running"
assert run.parent is None
assert run.number >= 1
ws = run.experiment.workspace
assert (ws.name, run.experiment.name) == ("default", run.id.rsplit("_", 2)[0]), ws.name
assert ws.location == "local"
assert Workspace.from_config() == ws
run.upload_file("x/me.py", __file__)
assert "x/me.py" in run.get_file_names()
with run:
    run.complete()
assert run is Run.get_context()
"""


def test_a_script_reads_back_what_it_wrote(exp: Experiment, project: Project) -> None:
    submitted(exp, project(train=READS))


CHILDREN = """
from windlass import Run
run = Run.get_context()
run.log("a", 0)
for i in range(2):
    with run.child_run(f"part {i}") as child:
        child.log("a", i + 1.0)
        child.tag("i", str(i))
        assert child.parent.id == run.id
try:
    with run.child_run("bad") as child:
        raise ValueError("no luck")
except ValueError:
    pass
first, second = run.create_children(tag_key="n", tag_values=["x", "y"])
second.log("b", 5)
first.complete()
second.fail("gave up", "E1")
assert len(list(run.get_children())) == 5
"""


def test_children_made_in_a_script(exp: Experiment, project: Project) -> None:
    run = submitted(exp, project(train=CHILDREN))
    children = {child.display_name if child.name else child.get_tags()["n"]: child for child in run.get_children()}
    assert set(children) == {"part 0", "part 1", "bad", "x", "y"}
    assert {name: child.get_status() for name, child in children.items()} == {
        "part 0": "Completed",
        "part 1": "Completed",
        "bad": "Failed",
        "x": "Completed",
        "y": "Failed",
    }
    assert children["bad"].get_details()["error"]["error"] == {"code": "ValueError", "message": "ValueError: no luck"}
    assert run.get_metrics(recursive=True) == {
        run.id: {"a": 0},
        children["part 0"].id: {"a": 1.0},
        children["part 1"].id: {"a": 2.0},
        children["bad"].id: {},
        children["x"].id: {},
        children["y"].id: {"b": 5},
    }
    assert list(run.get_children(tags={"i": "1"})) == [children["part 1"]]
    assert children["part 0"].type is None


NESTED = """
from windlass import Run
run = Run.get_context()
with run.child_run("outer") as outer:
    with outer.child_run("inner") as inner:
        inner.log("depth", 2)
"""


def test_children_of_children(exp: Experiment, project: Project) -> None:
    run = submitted(exp, project(train=NESTED))
    assert [child.name for child in run.get_children()] == ["outer"]
    assert [child.name for child in run.get_children(recursive=True)] == ["outer", "inner"]


PROCESSES = """
import multiprocessing, os, threading
from windlass import Run

def work(i):
    Run.get_context().log("done", float(i))

if __name__ == "__main__":
    run = Run.get_context()
    run.log("done", -1.0)
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=work, args=(len(method),))
        process.start()
        process.join()
    threads = [threading.Thread(target=work, args=(100 + i,)) for i in range(5)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def test_every_process_and_thread_may_log(exp: Experiment, project: Project) -> None:
    run = submitted(exp, project(train=PROCESSES))
    assert sorted(run.get_metrics()["done"]) == [-1.0, 4.0, 5.0, 100.0, 101.0, 102.0, 103.0, 104.0]


def test_an_old_python_runs_the_script(exp: Experiment, project: Project) -> None:
    script = "import sys; from windlass import Run; Run.get_context().log('minor', sys.version_info[1])"
    environment = Environment("old")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = oldest_python()
    run = exp.submit(ScriptRunConfig(project(train=script), "train.py", environment=environment))
    run.wait_for_completion()
    assert run.get_metrics()["minor"] >= 8


def test_many_points_arrive_once_and_in_order(exp: Experiment, project: Project) -> None:
    script = "from windlass import Run\nr = Run.get_context()\nfor i in range(20000): r.log('x', float(i))\n"
    assert submitted(exp, project(train=script)).get_metrics()["x"] == [float(i) for i in range(20000)]


WARNS = """
import io
from windlass import Run
run = Run.get_context()
run.upload_file("x.txt", io.BytesIO(b"first"))
run.upload_file("x.txt", io.BytesIO(b"second"))
run.add_properties({"p": "1"})
run.add_properties({"p": "2"})
open("outputs/a\\nb", "w").close()
"""


def test_what_could_not_be_done_is_told_at_the_end(
    exp: Experiment, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run = exp.submit(ScriptRunConfig(project(train=WARNS), "train.py"))
    run.wait_for_completion(show_output=True)
    warnings = capsys.readouterr().out.partition("\nWarnings:\n")[2]
    assert "x.txt was uploaded again with other content; the first one is kept" in warnings
    assert "1 file is not kept, because of the name" in warnings
    assert len(warnings.strip().splitlines()) == 3
    assert run.get_properties()["p"] == "1"


FAILS = """
from windlass import Run
run = Run.get_context()
run.log("before", 1)
run.fail("the data is wrong")
raise SystemExit(3)
"""


def test_a_script_that_says_that_it_failed(exp: Experiment, project: Project) -> None:
    run = exp.submit(ScriptRunConfig(project(train=FAILS), "train.py"))
    assert run.wait_for_completion(raise_on_error=False)["status"] == "Failed"
    assert run.get_metrics() == {"before": 1}


def test_metrics_can_be_added_from_outside(exp: Experiment, project: Project) -> None:
    run = submitted(exp, project(train="from windlass import Run; Run.get_context().log('x', 1)"))
    run.log("x", 2)
    run.upload_file("report.txt", __file__)
    assert run.get_metrics() == {"x": [1, 2]}
    assert "report.txt" in run.get_file_names()


@pytest.mark.parametrize("size", [0, 3_000_000])
def test_outputs_of_any_size(exp: Experiment, project: Project, tmp_path: Path, size: int) -> None:
    script = f"import os; os.makedirs('outputs', exist_ok=True); open('outputs/x', 'wb').write(os.urandom({size}))"
    run = submitted(exp, project(train=script))
    run.download_file("outputs/x", str(tmp_path))
    assert os.path.getsize(tmp_path / "x") == size


OUTSIDE = """
import sys
from windlass import Environment, Experiment, RunConfiguration, ScriptRunConfig, Workspace
from windlass.client.exceptions import UserErrorException
exp = Experiment(Workspace.from_config(), sys.argv[1])
run = exp.submit(ScriptRunConfig(sys.argv[2], "train.py", ["--x", 1], environment=Environment("old")))
run.wait_for_completion(show_output=True)
with exp.start_logging(snapshot_directory=None) as other:
    other.log("x", 1.5)
    other.upload_file("me", __file__)
assert other.get_metrics() == {"x": 1.5}
try:
    RunConfiguration().save(sys.argv[2], "x")
except UserErrorException as e:
    assert "pip install ruamel.yaml" in str(e)
print(run.get_metrics(), next(exp.get_runs()).id == other.id)
"""


def test_an_old_python_submits(exp: Experiment, project: Project, tmp_path: Path) -> None:
    """Only the server needs a new one, and only YAML files a package."""
    folder = project(train="import sys; from windlass import Run; Run.get_context().log('minor', sys.version_info[1])")
    (tmp_path / "outside.py").write_text(OUTSIDE)
    done = subprocess.run(
        [oldest_python(), "-W", "error", str(tmp_path / "outside.py"), exp.name, folder],
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert re.search(r"\n\{'minor': \d+\} True\n\Z", done.stdout), done.stdout
