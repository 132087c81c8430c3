"""Interactive runs: they last until code ends them, and send their metrics themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from windlass import Experiment, Run, SnapshotException, UserErrorException, Workspace
from windlass.core.errors import Conflict


def test_from_start_to_completion(exp: Experiment) -> None:
    Path("notebook.ipynb").write_text("{}")
    run = exp.start_logging(name="trial")
    assert (run.get_status(), run.type, run.name) == ("Running", None, "trial")
    for i in range(5):
        run.log("loss", i / 10, step=i)
    run.log_row("row", x=1)
    run.log_list("list", [1, 2])
    assert run.get_metrics() == {"loss": [0.0, 0.1, 0.2, 0.3, 0.4], "row": {"x": 1}, "list": [1, 2]}
    assert run.get_details()["target"] == "sdk"
    assert run.get_snapshot_id() is not None
    run.complete()
    assert run.get_status() == "Completed"
    assert run.wait_for_completion()["status"] == "Completed"
    assert repr(run).endswith("Type: None,\nStatus: Completed)")


def test_a_with_block_ends_it(exp: Experiment) -> None:
    with exp.start_logging(snapshot_directory=None) as run:
        run.log("a", 1)
    assert run.get_status() == "Completed"
    with pytest.raises(ZeroDivisionError), exp.start_logging(snapshot_directory=None) as failed:
        failed.log("b", 1 / 0)
    assert failed.get_status() == "Failed"
    error = failed.get_details()["error"]["error"]
    assert error == {"code": "ZeroDivisionError", "message": "ZeroDivisionError: division by zero"}
    with pytest.raises(SystemExit), exp.start_logging(snapshot_directory=None) as left:
        raise SystemExit(0)
    assert left.get_status() == "Completed"


def test_an_end_is_an_end(exp: Experiment) -> None:
    run = exp.start_logging(snapshot_directory=None)
    run.fail("why", "E7")
    run.complete()
    assert run.get_status() == "Failed"
    canceled = exp.start_logging(snapshot_directory=None)
    canceled.cancel()
    assert canceled.get_status() == "Canceled"


def test_new_outputs_are_kept_and_old_ones_are_not(exp: Experiment) -> None:
    Path("outputs").mkdir()
    Path("outputs/old.txt").write_text("old")
    Path("outputs/changed.txt").write_text("before")
    run = exp.start_logging(snapshot_directory=None)
    Path("outputs/changed.txt").write_text("after it")
    Path("outputs/sub").mkdir()
    Path("outputs/sub/new.txt").write_text("new")
    run.complete()
    assert run.get_file_names() == ["outputs/changed.txt", "outputs/sub/new.txt"]
    none = exp.start_logging(snapshot_directory=None, outputs=False)
    Path("outputs/more.txt").write_text("more")
    none.complete()
    assert none.get_file_names() == []


def test_files_are_used_once(exp: Experiment, tmp_path: Path) -> None:
    run = exp.start_logging(snapshot_directory=None)
    (tmp_path / "a b.txt").write_text("x")
    run.upload_file("dir/a b \u00e9.txt", str(tmp_path / "a b.txt"))
    run.upload_file("dir/a b \u00e9.txt", str(tmp_path / "a b.txt"))
    (tmp_path / "a b.txt").write_text("y")
    with pytest.raises(Conflict):
        run.upload_file("dir/a b \u00e9.txt", str(tmp_path / "a b.txt"))
    with open(tmp_path / "a b.txt", "rb") as stream:
        run.upload_file("stream", stream)
    run.download_file("dir/a b \u00e9.txt", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "x"
    with pytest.raises(UserErrorException, match="Prefix with path nothing was not found"):
        run.download_files("nothing")
    run.complete()


def test_the_source_of_a_notebook(exp: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lib.py").write_text("x = 1")
    explicit = exp.start_logging(snapshot_directory=".")
    assert explicit.get_snapshot_id() == exp.start_logging().get_snapshot_id()
    bare = exp.start_logging(snapshot_directory=None)
    assert bare.get_snapshot_id() is None
    (tmp_path / "one.py").write_text("1")
    digest = bare.take_snapshot(str(tmp_path / "one.py"))
    assert bare.get_snapshot_id() == digest


def test_a_folder_that_is_too_large_is_no_reason_to_fail(
    exp: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("big.bin").write_bytes(bytes(100))
    monkeypatch.setenv("SNAPSHOT_MAX_SIZE_BYTES", "10")
    run = exp.start_logging()
    assert run.get_snapshot_id() is None
    assert "no snapshot of its source" in capsys.readouterr().err
    run.complete()
    with pytest.raises(SnapshotException, match="exceeds the limit"):
        exp.start_logging(snapshot_directory=".")


def test_children(exp: Experiment) -> None:
    with exp.start_logging(snapshot_directory=None) as run:
        with run.child_run("part") as child:
            child.log("a", 1)
        few = run.create_children(count=3)
        assert [c.get_tags() for c in few] == [{"azureml.batch_child_number": str(i)} for i in range(3)]
        for one in few:
            one.complete()
        assert run.create_children(tag_key="k", tag_values=[]) == []
        for wrong in ({}, {"count": 1, "tag_key": "k"}, {"tag_key": "k"}, {"count": 101}):
            with pytest.raises(UserErrorException):
                run.create_children(**wrong)
    assert child.parent == run
    assert len(list(run.get_children(status="Completed"))) == 4


def test_a_program_that_ends_without_a_word_has_sent_its_metrics(ws: Workspace, exp: Experiment) -> None:
    program = f"""
from windlass import Experiment, Workspace
run = Experiment(Workspace.from_config(), {exp.name!r}).start_logging(snapshot_directory=None)
for i in range(1000):
    run.log("x", i)
print(run.id)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], stdout=subprocess.PIPE, check=True, text=True)
    run = Run.get(ws, done.stdout.strip())
    assert run.get_metrics()["x"] == list(range(1000))
    assert run.get_status() == "Running"
    run.fail("left alone")
