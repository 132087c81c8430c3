"""What a run uploaded, or a server says, is saved below the folder that the user named, and nowhere else."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.liar import lying
from tests.inputs.outside import Outside
from windlass import Experiment, Model, ModelNotFoundException, Run, Workspace
from windlass.cli.root import run as windlass
from windlass.client.exceptions import UserErrorException
from windlass.core.digests import snapshot_digest
from windlass.core.entities import SnapshotFile
from windlass.core.errors import WindlassError

BODY = b"evil"
DIGEST = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("WINDLASS_", "AZUREML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(sqlite: Outside, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of a real server, to upload files to."""
    monkeypatch.setenv("WINDLASS_HOME", str(sqlite.home))
    return Run(Experiment(Workspace.from_config(), "inputs"), sqlite.interactive())


def told(monkeypatch: pytest.MonkeyPatch, url: str) -> Run:
    """A run as the lying server tells of it."""
    monkeypatch.setenv("WINDLASS_URL", url)
    monkeypatch.setenv("WINDLASS_TOKEN", "x")
    return Run(Experiment(Workspace.from_config(), "inputs"), "some_run", _view={"id": "some_run"})


def tree(folder: str | Path = ".") -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def test_a_name_that_only_begins_like_the_folder_does_not_lead_out(run: Run, here: Path) -> None:
    run.upload_file(f"outputsX{here}/escaped", b"out")
    run.download_files(prefix="outputs", output_directory="here", append_prefix=False)
    assert tree() == {f"here/outputsX{here}/escaped": "out"}


def test_a_folder_is_not_another_whose_name_begins_like_it(run: Run) -> None:
    for name in ("outputs/a", "outputs2/b"):
        run.upload_file(name, name.encode())
    run.download_files("outputs", output_directory="here", append_prefix=False)
    assert tree("here") == {"a": "outputs/a"}


def test_part_of_a_name_takes_no_part_of_it_away(run: Run) -> None:
    for name in ("outputs/model.bin", "outputs/model/weights", "other"):
        run.upload_file(name, name.encode())
    run.download_files("outputs/m", output_directory="bare", append_prefix=False)
    run.download_files("outputs/m", output_directory="whole")
    run.download_files("outputs/model.bin", output_directory="one", append_prefix=False)
    assert tree("bare") == {"model.bin": "outputs/model.bin", "model/weights": "outputs/model/weights"}
    assert tree("whole") == {f"outputs/{name}": text for name, text in tree("bare").items()}
    assert tree("one") == {"model.bin": "outputs/model.bin"}


def test_a_link_that_leads_out_is_not_followed(run: Run, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "elsewhere").mkdir()
    (here / "in").mkdir()
    (here / "in" / "outputs").symlink_to(here / "elsewhere")
    run.upload_file("outputs/x", b"x")
    with pytest.raises(UserErrorException, match="outside"):
        run.download_files(output_directory="in")
    assert windlass(["download", run.id, "-o", "in", "--force"]) == 2
    assert "outside" in capsys.readouterr().err
    Path("model").mkdir()
    Path("model/x").write_text("x")
    model = Model.register(run.experiment.workspace, "model", f"m-{os.urandom(4).hex()}")
    Path("in/model").symlink_to(here / "elsewhere")
    with pytest.raises(UserErrorException, match="outside"):
        model.download("in", exist_ok=True)
    assert windlass(["model", "download", model.id, "-o", "in", "--force"]) == 2
    assert list((here / "elsewhere").iterdir()) == []


def test_a_link_in_place_of_a_file_is_replaced(run: Run, here: Path) -> None:
    (here / "mine").write_text("mine")
    (here / "x").symlink_to(here / "mine")
    run.upload_file("outputs/x", b"x")
    run.download_file("outputs/x")
    assert tree() == {"mine": "mine", "x": "x"} and not (here / "x").is_symlink()


@pytest.fixture
def both(run: Run) -> Iterator[Run]:
    """A run with a name that is a file and a folder. Servers refuse the second, so a listing is made up."""
    bodies = {"outputs/a": b"file", "outputs/a/inner": b"inner", "outputs/b": b"rest"}
    listed = [{"path": path, "size": len(body), "is_live": False} for path, body in bodies.items()]
    answers: dict[str, Any] = {"/files": {"files": listed}, "/runs": {"runs": [{"id": "some_run"}]}}
    with pytest.MonkeyPatch.context() as patch, lying({**answers, **bodies}) as url:
        yield told(patch, url)


def test_a_name_that_is_both_a_file_and_a_folder_stops_nothing(both: Run, capsys: pytest.CaptureFixture[str]) -> None:
    both.download_files(output_directory="sdk")
    assert tree("sdk") == {"outputs/a": "file", "outputs/b": "rest"}
    assert "outputs/a/inner was not saved: sdk/outputs/a is a file." in capsys.readouterr().err
    assert windlass(["download", "some_run", "-o", "cli"]) == 1
    assert tree("cli") == tree("sdk")
    captured = capsys.readouterr()
    assert "2 files, 8 B, in cli" in captured.out
    assert "outputs/a/inner was not saved: cli/outputs/a is a file." in captured.err
    assert windlass(["download", "some_run", "-o", "json", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [file["path"] for file in document["files"]] == ["outputs/a", "outputs/b"]
    assert [file["path"] for file in document["skipped"]] == ["outputs/a/inner"]


def test_a_folder_in_place_of_a_file_stops_nothing(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        run.upload_file(name, name.encode())
    Path("here/a").mkdir(parents=True)
    run.download_files(output_directory="here")
    assert tree("here") == {"b": "b"}
    assert "a was not saved: here/a is a folder." in capsys.readouterr().err


def test_bytes_that_are_not_those_of_the_listing_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    other = hashlib.sha256(b"good").hexdigest()
    files = [{"path": "outputs/x", "size": 4, "is_live": False, "digest": other}]
    long = [{"path": "outputs/x", "size": 2, "is_live": False, "digest": DIGEST}]
    for listed in (files, long):
        with lying({"/files": {"files": listed}, "outputs/x": BODY}) as url:
            run = told(monkeypatch, url)
            with pytest.raises(WindlassError, match="outputs/x"):
                run.download_files(output_directory="here")
            assert windlass(["download", "some_run", "-o", "here"]) == 1
    assert tree() == {}


@pytest.mark.parametrize("run_id", ["../escaped", "/tmp/escaped", "a/../../escaped"])
def test_the_id_of_a_run_names_no_other_folder(monkeypatch: pytest.MonkeyPatch, here: Path, run_id: str) -> None:
    (here / "in").mkdir()
    monkeypatch.chdir(here / "in")
    files = [{"path": "x", "size": 4, "is_live": False}]
    with lying({"/files": {"files": files}, "/runs": {"runs": [{"id": run_id}]}}) as url:
        told(monkeypatch, url)
        assert windlass(["download", "@last"]) == 2
    assert tree(here) == {}


def snapshot(*files: dict[str, Any], digest: str | None = None) -> dict[str, Any]:
    whole = [{"size": 4, "executable": False, "digest": DIGEST, **file} for file in files]
    return {
        "digest": snapshot_digest(SnapshotFile(**file) for file in whole) if digest is None else digest,
        "files": whole,
    }


@pytest.mark.parametrize(
    "found",
    [
        snapshot({"path": "../escaped"}),
        snapshot({"path": "/etc/escaped"}),
        snapshot({"path": "a/../../escaped"}),
        snapshot({"path": "a"}, digest="../escaped"),
        snapshot({"path": "a"}, digest="0" * 64),
        snapshot({"path": "a", "digest": "0" * 64}),
        snapshot({"path": "a", "size": 3}),
        snapshot({"path": "a"}, {"path": "a"}),
    ],
    ids=["up", "absolute", "up inside", "digest is a path", "digest", "digest of a file", "size", "twice"],
)
def test_a_snapshot_that_is_not_what_it_says_is_not_restored(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]
) -> None:
    with lying({"/snapshot": found}) as url:
        run = told(monkeypatch, url)
        with pytest.raises(WindlassError):
            run.restore_snapshot(path="folder" + os.sep)
        with pytest.raises(WindlassError):
            run.restore_snapshot(path="folder/named.zip")
    assert tree() == {}


def test_a_snapshot_that_is_what_it_says_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    with lying({"/snapshot": snapshot({"path": "a/b"}, {"path": "c", "executable": True})}) as url:
        path = told(monkeypatch, url).restore_snapshot()
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"a/b": BODY, "c": BODY}


def a_model(**files: bytes) -> dict[str, Any]:
    """A model as the server tells of it; `__` in a keyword stands for the '/' of a path."""
    entries = [(name.replace("__", "/"), body) for name, body in files.items()]
    listed = [{"path": path, "size": len(body), "digest": hashlib.sha256(body).hexdigest()} for path, body in entries]
    return {"name": "m", "version": 1, "id": "m:1", "tags": {}, "properties": {}, "framework": "", "files": listed}


@pytest.mark.parametrize("path", ["../escaped", "/etc/escaped", "a/../../escaped"])
def test_a_model_stays_in_its_folder(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    model = a_model(**{path: BODY})
    with lying({"/models": {"models": [model]}, "/models/m": model}) as url:
        workspace = told(monkeypatch, url).experiment.workspace
        with pytest.raises(WindlassError):
            Model(workspace, "m").download("here")
        with pytest.raises(WindlassError):
            Model.get_model_path("m", _workspace=workspace)
        assert windlass(["model", "download", "m", "-o", "here"]) == 2
    assert [name for name in tree() if not name.endswith(".lock")] == []


class Slow:
    """A model of two files on a server that holds the second back."""

    def __init__(self) -> None:
        self.model = a_model(whole__config=b"{}", whole__weights=b"weights")
        self.asked = 0
        self.is_asked, self.may_go = threading.Event(), threading.Event()

    def weights(self) -> bytes:
        self.asked += 1
        self.is_asked.set()
        self.may_go.wait(120)
        return b"weights"

    def serving(self) -> AbstractContextManager[str]:
        answers = {"/models": {"models": [self.model]}, "whole/config": b"{}", "whole/weights": self.weights}
        return lying(answers)


WHOLE = {"azureml-models/m/1/whole/config": "{}", "azureml-models/m/1/whole/weights": "weights"}
FETCHES = "from windlass import Model, Workspace; Model.get_model_path('m', _workspace=Workspace.from_config())"


def test_a_model_is_found_when_all_of_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    with slow.serving() as url:
        workspace = told(monkeypatch, url).experiment.workspace
        with subprocess.Popen([sys.executable, "-c", FETCHES]) as fetching:
            assert slow.is_asked.wait(60)
            for _ in range(2):  # while it is fetched, and after the process that fetched it was killed
                with pytest.raises(ModelNotFoundException):
                    Model.get_model_path("m")
                with pytest.raises(ModelNotFoundException):
                    Model.get_model_path("m", version=1)
                fetching.kill()
                fetching.wait()
        slow.may_go.set()
        path = Model.get_model_path("m", _workspace=workspace)
    assert path == Model.get_model_path("m") == "azureml-models/m/1/whole"
    assert {name: text for name, text in tree().items() if not name.endswith(".lock")} == WHOLE


def test_a_model_that_two_ask_for_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    with slow.serving() as url, ThreadPoolExecutor(2) as pool:
        workspace = told(monkeypatch, url).experiment.workspace
        paths = [pool.submit(Model.get_model_path, "m", _workspace=workspace) for _ in range(2)]
        assert slow.is_asked.wait(60)
        assert not any(path.done() for path in paths)
        slow.may_go.set()
        assert {path.result() for path in paths} == {"azureml-models/m/1/whole"}
    assert slow.asked == 1
    assert {name: text for name, text in tree().items() if not name.endswith(".lock")} == WHOLE
