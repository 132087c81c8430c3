"""Which workspace a folder belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windlass.client.exceptions import UserErrorException
from windlass.client.workspace import config_file
from windlass.client.workspace.config_file import WorkspaceReference

BODY = json.dumps({"subscription_id": "s", "resource_group": "g", "workspace_name": "ws"})
PROVIDER = "providers/Microsoft.MachineLearningServices"
LEGACY = json.dumps({"Id": "e", "Scope": f"/subscriptions/s/resourceGroups/g/{PROVIDER}/workspaces/ws/projects/e"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "a" / "b").mkdir(parents=True)
    return tmp_path


def put(path: Path, text: str = BODY) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("folder", [".azureml", "aml_config", ".windlass", "."])
@pytest.mark.parametrize(("file", "text"), [("config.json", BODY), ("project.json", LEGACY)])
def test_it_is_found_from_below(project: Path, folder: str, file: str, text: str) -> None:
    path = put(project / folder / file, text)
    assert config_file.find(str(project / "a" / "b")) == path
    assert config_file.read(path) == WorkspaceReference("s", "g", "ws")


def test_the_order_of_places(project: Path) -> None:
    expected = []
    for name in ("config.json", ".windlass/config.json", "aml_config/project.json", ".azureml/config.json"):
        expected.append(put(project / name, LEGACY if "project" in name else BODY))
        assert config_file.find(str(project / "a")) == expected[-1]


def test_a_config_json_of_another_program_is_passed_by(project: Path) -> None:
    put(project / "a" / "config.json", '{"lr": 0.1}')
    path = put(project / "config.json")
    assert config_file.find(str(project / "a" / "b")) == path


def test_nothing_is_found(project: Path) -> None:
    assert config_file.find(str(project), "surely-not-there.json") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"workspace_name": 5}', '{"Scope": "x"}', "\x00"])
def test_broken_files_are_answered_in_two_lines(project: Path, text: str) -> None:
    path = put(project / ".azureml" / "config.json", text)
    with pytest.raises(UserErrorException) as caught:
        config_file.read(path)
    assert path in caught.value.message
    assert len(caught.value.text.splitlines()) == 2


def test_a_broken_project_file_is_answered_with_its_own_form(project: Path) -> None:
    path = put(project / "aml_config" / "project.json", "{}")
    with pytest.raises(UserErrorException) as caught:
        config_file.read(path)
    assert '{"Id": ' in caught.value.hint


def test_written_and_read(project: Path) -> None:
    path = config_file.write(str(project / ".azureml"), WorkspaceReference("s", "g", "ws"), "config.json")
    assert json.loads(Path(path).read_text()) == json.loads(BODY)
    assert config_file.read(path) == WorkspaceReference("s", "g", "ws")
    put(project / "bom.json", "\ufeff" + BODY)
    assert config_file.read(str(project / "bom.json")).workspace_name == "ws"
