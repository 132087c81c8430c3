"""Models are registered in scripts and outside, found by name, and downloaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sdk.conftest import Project
from tests.sdk.test_script import submitted
from windlass import Experiment, Model, ModelNotFoundException, Run, ScriptRunConfig, WebserviceException, Workspace
from windlass.client.exceptions import NotProvided, UserErrorException
from windlass.core.errors import NotFound

TRAINS = """
import os
from windlass import Model, Run
run = Run.get_context()
open("outputs/model.pkl", "w").write("early")
first = run.register_model("{name}", "outputs/model.pkl", tags={{"epoch": 1}}, description="made in a script")
open("outputs/model.pkl", "w").write("late")
os.makedirs("outputs/whole/deep")
open("outputs/whole/deep/w.bin", "w").write("weights")
second = run.register_model(model_name="{name}", model_path="outputs/whole", model_framework=Model.Framework.PYTORCH)
open("aside.txt", "w").write("uploaded")
run.upload_file("kept/aside.txt", "aside.txt")
third = run.register_model("{name}", "kept/aside.txt")
third.add_tags({{"good": True}})
print(open(Model.get_model_path("{name}", version=first.version)).read(), first.id, second.id, third.id)
try:
    run.register_model("{name}", "outputs/nothing")
except Exception as e:
    print(type(e).__name__, e.message)
"""


@pytest.fixture
def name() -> str:
    return f"model-{os.urandom(4).hex()}"


def test_a_script_registers_what_it_has_made(exp: Experiment, project: Project, name: str, tmp_path: Path) -> None:
    run = submitted(exp, project(train=TRAINS.format(name=name)))
    said = _log(run, tmp_path)
    assert f"early {name}:1 {name}:2 {name}:3\n" in said
    assert "ResourceNotFound Could not locate the provided model_path outputs/nothing in the set of files" in said
    first, second, third = (Model(exp.workspace, name, version=number) for number in (1, 2, 3))
    assert (first.run_id, first.experiment_name, first.tags) == (run.id, exp.name, {"epoch": "1"})
    assert first.run == run and first.description == "made in a script"
    assert second.model_framework == "PyTorch" and third.tags == {"good": "True"}
    for model, path, content in ((first, "model.pkl", "early"), (third, "aside.txt", "uploaded")):
        assert model.download(str(tmp_path / "d")) == str(tmp_path / "d" / path)
        assert (tmp_path / "d" / path).read_text() == content
    assert second.download(str(tmp_path / "d")) == str(tmp_path / "d" / "whole")
    assert (tmp_path / "d" / "whole" / "deep" / "w.bin").read_text() == "weights"
    run.download_file("outputs/model.pkl", str(tmp_path / "of the run"))
    assert (tmp_path / "of the run").read_text() == "late", "the record has what was there at the end"


def _log(run: Run, folder: Path) -> str:
    run.download_file("user_logs/std_log.txt", str(folder / "log"))
    return (folder / "log").read_text()


def test_an_ended_run_registers_its_outputs(exp: Experiment, project: Project, name: str) -> None:
    run = submitted(exp, project(train="open('outputs/m.pkl', 'w').write('x')"))
    model = run.register_model(name, "outputs/m.pkl", properties={"p": 1})
    assert (model.id, model.version, model.properties, model.run_id) == (f"{name}:1", 1, {"p": "1"}, run.id)
    assert run.register_model(name, "./outputs/").version == 2
    with pytest.raises(NotFound, match="Could not locate the provided model_path"):
        run.register_model(name)


def test_local_files_are_registered_and_fetched(ws: Workspace, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder/deep").mkdir(parents=True)
    Path("folder/deep/a.txt").write_text("a")
    Path("folder/b.txt").write_text("b")
    whole = Model.register(ws, "folder", name, tags={"kind": "whole"})
    assert capsys.readouterr().out == f"Registering model {name}\n"
    part = Model.register(workspace=ws, model_path="folder", model_name=name, child_paths=["deep"])
    single = Model.register(ws, model_path="folder/b.txt", model_name=name)
    assert [m.version for m in (whole, part, single)] == [1, 2, 3]
    assert part.download("p") == os.path.join("p", "folder") and not Path("p/folder/b.txt").exists()
    assert Path(single.download("s")).read_text() == "b"
    with pytest.raises(UserErrorException, match="Path already exists"):
        single.download("s")
    single.download("s", exist_ok=True)
    path = Model.get_model_path(name, _workspace=ws)
    assert path == os.path.join("azureml-models", name, "3", "b.txt") and Path(path).read_text() == "b"
    assert Model.get_model_path(name) == path, "what was fetched is there without a workspace"
    with pytest.raises(WebserviceException, match="cannot be found"):
        Model.register(ws, "nowhere.pkl", name)


def test_they_are_found_by_name_version_tag_and_run(ws: Workspace, name: str) -> None:
    Path("m").write_text("m")
    for tags in ({"stage": "test"}, {"stage": "live"}, {}):
        Model.register(ws, "m", name, tags=tags, properties={"from": "here"})
    assert Model(ws, name).version == 3
    assert (Model(ws, id=f"{name}:2").id, Model(ws, name, version="1").id) == (f"{name}:2", f"{name}:1")
    assert Model(ws, name, tags=["stage"]).version == 2
    assert Model(ws, name, tags=[["stage", "test"]]).version == 1
    assert [m.version for m in Model.list(ws, name=name)] == [3, 2, 1]
    assert [m.version for m in Model.list(ws, name, tags=[("stage", "live")], properties=["from"])] == [2]
    assert [m.version for m in Model.list(ws, name=name, latest=True)] == [3]
    assert ws.models[name].version == 3
    with pytest.raises(WebserviceException, match=f"ModelNotFound: Model with name {name}, version 9, not found") as no:
        Model(ws, name, version=9)
    assert no.value.hint == "The latest version is 3."
    with pytest.raises(ModelNotFoundException) as no_name:
        Model(ws, name[:-1])
    assert name in no_name.value.hint
    with pytest.raises(UserErrorException, match="Say which model"):
        Model(ws)
    with pytest.raises(UserErrorException, match="is a number, not 'new'"):
        Model(ws, name, version="new")


def test_what_is_said_of_one_changes(ws: Workspace, name: str) -> None:
    Path("m").write_text("m")
    model = Model.register(ws, "m", name, tags={"a": "1", "b": "2"}, description="old")
    model.update(tags={"c": "3"}, description="new")
    assert (model.tags, model.description) == ({"c": "3"}, "new")
    model.add_tags({"d": 4})
    model.remove_tags("c")
    model.add_properties({"p": "1"})
    assert (Model(ws, name).tags, Model(ws, name).properties) == ({"d": "4"}, {"p": "1"})
    model.delete()
    assert Model.list(ws, name=name) == []
    assert Model.register(ws, "m", name).version == 2


def test_services_wait(ws: Workspace) -> None:
    with pytest.raises(NotProvided, match="Deploying a model is not provided"):
        Model.deploy(ws, "service", [])


def test_a_child_in_a_script_registers_its_own(exp: Experiment, project: Project, name: str) -> None:
    script = f"""
from windlass import Run
with Run.get_context().child_run("inner") as child:
    child.upload_file("m.txt", __file__)
    child.register_model("{name}", "m.txt")
"""
    run = exp.submit(ScriptRunConfig(project(train=script), "train.py"))
    run.wait_for_completion()
    assert [m.run_id for m in Model.list(exp.workspace, name=name)] == [child.id for child in run.get_children()]
