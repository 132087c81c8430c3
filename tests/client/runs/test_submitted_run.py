"""The run inside its script: lines in files, whole and in order, from any thread or process."""

from __future__ import annotations

import io
import json
import math
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windlass import Run, UserErrorException
from windlass.client.metrics.line_writer import LineWriter
from windlass.core.errors import InvalidRequest

SOURCES = str(Path(__file__).resolve().parents[3] / "src")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINDLASS_RUN_FOLDER", str(tmp_path))
    monkeypatch.setenv("WINDLASS_RUN_ID", f"demo_1_{os.urandom(4).hex()}")
    monkeypatch.setenv("WINDLASS_WORKSPACE", "ws")
    monkeypatch.setenv("WINDLASS_EXPERIMENT", "demo")
    return tmp_path


def lines(folder: Path, kind: str = "metrics") -> list[dict[str, Any]]:
    """All lines of all writers; the times are checked and left out."""
    found = []
    for path in sorted((folder / kind).glob("*.jsonl")):
        assert path.name.split("-")[0].isdigit()
        for line in path.read_text("utf-8").splitlines():
            body = json.loads(line)
            if kind == "metrics":
                assert body.pop("t") > 1.5e9
            found.append(body)
    return found


def test_it_is_one_object_for_the_process(folder: Path) -> None:
    run = Run.get_context()
    assert run is Run.get_context()
    assert isinstance(run, Run)
    assert run.id == os.environ["WINDLASS_RUN_ID"]
    assert run.experiment.name == "demo"
    assert run.experiment.workspace.name == "ws"


def test_metrics_of_every_kind(folder: Path) -> None:
    run = Run.get_context()
    run.log("loss", 0.5)
    run.log('n\u00e4me "x"', 3, step=4, description="why")
    run.log("nan", math.nan)
    run.log("inf", -math.inf)
    run.log("word", "w")
    run.log_list("l", (i for i in range(2)))
    run.log_row("r", a=1, b=True)
    run.log_table("t", {"a": [1, 2]}, "a table")
    run.log_confusion_matrix("m", {"data": {}})
    run.log_accuracy_table("at", "{}")
    run.log_residuals("res", {})
    run.log_predictions("pre", {})
    nan, *rest = [line for line in lines(folder) if line["n"] == "nan"] + [
        line for line in lines(folder) if line["n"] != "nan"
    ]
    assert math.isnan(nan["v"])
    assert rest == [
        {"n": "loss", "v": 0.5},
        {"n": 'n\u00e4me "x"', "v": 3, "s": 4, "d": "why"},
        {"n": "inf", "v": -math.inf},
        {"n": "word", "v": "w"},
        {"n": "l", "v": [0, 1], "k": "list"},
        {"n": "r", "v": {"a": 1, "b": True}, "k": "row"},
        {"n": "t", "v": {"a": [1, 2]}, "k": "table", "d": "a table"},
        {"n": "m", "v": {"data": {}}, "k": "confusion_matrix"},
        {"n": "at", "v": {}, "k": "accuracy_table"},
        {"n": "res", "v": {}, "k": "residuals"},
        {"n": "pre", "v": {}, "k": "predictions"},
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (np.float64(0.1), "0.1"),
        (np.float64("nan"), "NaN"),
        (np.float32(0.5), "0.5"),
        (7, "7"),
        (np.int64(7), "7"),
        (True, "true"),
        (None, "null"),
        (2**63, "9.223372036854776e+18"),
    ],
)
def test_numbers_as_they_are_written(folder: Path, value: Any, text: str) -> None:
    Run.get_context().log("x", value, step=3)
    (path,) = (folder / "metrics").iterdir()
    assert re.fullmatch(rf'{{"n":"x","v":{re.escape(text)},"t":[0-9.]+,"s":3}}\n', path.read_text())


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300, "\u202e"])
def test_names_that_cannot_be(folder: Path, name: str) -> None:
    with pytest.raises(InvalidRequest):
        Run.get_context().log(name, 0.5)


@pytest.mark.parametrize("step", [1.5, "x"])
def test_steps_that_cannot_be(folder: Path, step: Any) -> None:
    with pytest.raises(UserErrorException, match="A step is a whole number"):
        Run.get_context().log("a", 0.5, step=step)


def test_tags_properties_and_names_are_asked_for(folder: Path) -> None:
    run = Run.get_context()
    run.tag("a")
    run.set_tags({"b": 1, "c": "d"})
    run.remove_tags(["a"])
    run.add_properties({"p": 5})
    run.display_name = "mine"
    run.description = "what for"
    assert lines(folder, "calls") == [
        {"do": "tag", "key": "a", "value": None},
        {"do": "tag", "key": "b", "value": "1"},
        {"do": "tag", "key": "c", "value": "d"},
        {"do": "untag", "keys": ["a"]},
        {"do": "properties", "values": {"p": "5"}},
        {"do": "set", "name": "mine"},
        {"do": "set", "description": "what for"},
    ]


def uploads(folder: Path) -> dict[str, bytes]:
    found = {}
    for call in lines(folder, "calls"):
        data = (folder / call["file"]).read_bytes()
        assert call["do"] == "upload"
        assert call["size"] == len(data)
        found[call["path"]] = data
    return found


def test_files_are_copied_when_they_are_uploaded(folder: Path, tmp_path: Path) -> None:
    run = Run.get_context()
    (tmp_path / "x.txt").write_text("before")
    run.upload_file("a/x.txt", str(tmp_path / "x.txt"))
    (tmp_path / "x.txt").write_text("after")
    run.upload_file("stream", io.BytesIO(b"bytes"))
    run.upload_file("text", io.StringIO("t\u00ebxt"))
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("deep")
    run.upload_folder("dir", str(tmp_path / "d"))
    run.upload_files(["one"], [str(tmp_path / "x.txt")])
    assert uploads(folder) == {
        "a/x.txt": b"before",
        "stream": b"bytes",
        "text": "t\u00ebxt".encode(),
        "dir/e/f": b"deep",
        "one": b"after",
    }


def test_uploads_that_cannot_be(folder: Path) -> None:
    run = Run.get_context()
    with pytest.raises(UserErrorException, match="There is no file nothing"):
        run.upload_file("a", "nothing")
    with pytest.raises(InvalidRequest, match="'..' part"):
        run.upload_file("../a", io.BytesIO(b""))
    with pytest.raises(TypeError, match="equal lengths"):
        run.upload_files(["a"], [])


class Plot:
    def savefig(self, out: io.BytesIO, format: str) -> None:
        assert format == "png"
        out.write(PNG)


def test_images_by_plot_and_by_path(folder: Path, tmp_path: Path) -> None:
    run = Run.get_context()
    run.log_image("curve", plot=Plot())
    (tmp_path / "pic.png").write_bytes(PNG)
    run.log_image("photo", path=str(tmp_path / "pic.png"))
    stored = uploads(folder)
    prefix = f"aml://artifactId/ExperimentRun/dcid.{run.id}/"
    for line in lines(folder):
        assert line["k"] == "image"
        assert stored[line["v"][len(prefix) :]] == PNG
    assert [name.rpartition("_")[0] for name in stored] == ["curve", "photo"]
    (tmp_path / "no.png").write_text("text")
    for wrong in ({"path": str(tmp_path / "no.png")}, {"plot": 5}, {}, {"path": "nothing.png"}):
        with pytest.raises(UserErrorException):
            run.log_image("x", **wrong)


def test_ending_is_not_the_scripts_business(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.get_context()
    with run as same:
        assert same is run
    run.complete()
    run.fail()
    run.flush()
    run.cancel()
    assert "cancel is not supported for submitted runs" in capsys.readouterr().err
    assert lines(folder) == []


def test_threads_write_whole_lines(folder: Path) -> None:
    run = Run.get_context()

    def work(name: str) -> None:
        for i in range(500):
            run.log(name, float(i))

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = lines(folder)
    for n in range(4):
        assert [line["v"] for line in found if line["n"] == f"t{n}"] == [float(i) for i in range(500)]


def test_a_forked_process_has_its_own_file(folder: Path) -> None:
    run = Run.get_context()
    run.log("who", 1.0)
    child = os.fork()
    if child == 0:
        run.log("who", 2.0)
        os._exit(0)
    os.waitpid(child, 0)
    run.log("who", 3.0)
    written = {
        int(path.name.split("-")[0]): [json.loads(line)["v"] for line in path.read_text().splitlines()]
        for path in (folder / "metrics").iterdir()
    }
    assert written == {os.getpid(): [1.0, 3.0], child: [2.0]}


def test_a_full_disk_warns_once_and_recovers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "metrics"
    blocked.write_text("a file in the place of the folder")
    file = LineWriter(str(blocked))
    file.append(b"lost\n")
    file.append(b"lost too\n")
    assert capsys.readouterr().err.count("cannot be written") == 1
    blocked.unlink()
    file.append(b"kept\n")
    assert [path.read_bytes() for path in blocked.iterdir()] == [b"kept\n"]


FULL = """
import os, resource, sys
from windlass.client.metrics.line_writer import LineWriter

def fill(limit):  # no file may become larger: what a full disk is to a writer
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

file = LineWriter(sys.argv[1])
file.append(b"kept\\n")
before = len(os.listdir("/proc/self/fd"))
for limit in (7, 0):
    fill(limit)
    for _ in range(100): file.append(b"lost and long\\n")
assert len(os.listdir("/proc/self/fd")) <= before + 1, os.listdir("/proc/self/fd")
fill(resource.RLIM_INFINITY)
file.append(b"back\\n")
"""


def test_a_disk_that_stays_full_costs_no_descriptors(tmp_path: Path) -> None:
    """A training that logs on must still be able to open its own files."""
    folder = tmp_path / "metrics"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder)], env={**os.environ, "PYTHONPATH": SOURCES}, stderr=subprocess.PIPE
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b"cannot be written") == 1
    assert sorted(path.read_bytes()[:5] for path in folder.iterdir()) == [b"back\n", b"kept\n"]


SCRIPT = """
import sys
from windlass import Run
run = Run.get_context(allow_offline=False)
run.log("loss", 0.25)
run.log("n", 3, step=1)
run.log_row("row", a=1)
run.tag("k", "v")
run.upload_file("x", __file__)
assert "socket" not in sys.modules
import windlass
for name in windlass.__all__:
    getattr(windlass, name)
import windlass.client.submit.submission, windlass.client.runs.interactive_run
import windlass.client.runs.log_stream, windlass.client.http.embedded_server
"""


def oldest_python() -> str:
    """The oldest Python from 3.8 on that this machine has."""
    for name in ("python3.8", "python3.9", "python3.10", "python3.11"):
        places = [*Path.home().glob(f".pyenv/versions/{name[6:]}*/bin/python"), *Path("/usr/bin").glob(name)]
        if places:
            return str(sorted(places)[-1])
    return sys.executable


def test_it_works_on_an_old_python(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [oldest_python(), "-W", "error", str(script)],
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.returncode == 0
    assert lines(folder) == [
        {"n": "loss", "v": 0.25},
        {"n": "n", "v": 3, "s": 1},
        {"n": "row", "v": {"a": 1}, "k": "row"},
    ]
    assert [call["do"] for call in lines(folder, "calls")] == ["tag", "upload"]
