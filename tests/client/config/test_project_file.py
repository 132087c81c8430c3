"""The project file: where it is found, and what it may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.client.config import project_file
from windlass.client.exceptions import UserErrorException


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".windlass").mkdir(parents=True)
    return folder


def write(folder: Path, text: str) -> str:
    file = folder / ".windlass" / "project.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_it_is_found_from_below(project: Path) -> None:
    file = write(project, 'target = "local"')
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    assert project_file.find(str(below)) == project_file.find(str(project)) == file


def test_the_nearest_one_counts(project: Path) -> None:
    write(project, 'target = "local"')
    inner = project / "inner"
    inner.mkdir()
    assert project_file.find(str(inner)) == str(project / ".windlass" / "project.toml")
    assert project_file.find(str(inner)) != write(inner, "") == project_file.find(str(inner))


def test_the_search_ends_at_the_root_of_a_repository(project: Path) -> None:
    write(project, 'target = "local"')
    repository = project / "vendored"
    (repository / ".git").mkdir(parents=True)
    assert project_file.find(str(repository)) is None


def test_the_home_of_the_server_is_no_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, 'target = "local"')
    (project / "sub").mkdir()
    monkeypatch.setenv("HOME", str(project))
    assert project_file.find(str(project / "sub")) is None


def test_a_file_that_any_user_may_have_put_there_is_not_used(project: Path) -> None:
    write(project, 'target = "elsewhere"')
    project.chmod(0o777)
    assert project_file.find(str(project)) is None


def test_all_keys_are_read(project: Path) -> None:
    file = write(
        project,
        'workspace = "team"\nexperiment = "demo"\ntarget = "gpu-box"\nenv_file = "requirements.txt"\n'
        'variables_file = "conf/.env"\n[resources]\ngpus = 1\nmemory = "8G"\n',
    )
    found = project_file.read(file)
    assert found.values == {
        "workspace": "team",
        "experiment": "demo",
        "target": "gpu-box",
        "env_file": str(project / "requirements.txt"),
        "variables_file": str(project / "conf" / ".env"),
        "resources": {"gpus": 1, "memory": "8G"},
    }
    assert project_file.workspace_of(str(project)) == "team"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target = ", "is not valid TOML"),
        ('tarket = "x"', "there is no key tarket"),
        ('url = "https://example.org"', "there is no key url"),
        ("target = 3", "target is a text, not 3"),
        ('target = ""', "target is a text"),
        ('workspace = "a b"', "workspace: "),
        ('resources = "8G"', "resources is a table"),
        ("[resources]\ngpu = 1", "there is no key resources.gpu"),
        ('environment = "a"\nenv_file = "b"', "environment and env_file are both given"),
        ('env_file = "../../etc/passwd"', "env_file is outside of the project"),
        ('variables_file = "/etc/passwd"', "variables_file is outside of the project"),
    ],
)
def test_mistakes_name_the_file_and_the_key(project: Path, text: str, message: str) -> None:
    file = write(project, text)
    with pytest.raises(UserErrorException, match=message) as caught:
        project_file.read(file)
    assert caught.value.message.startswith(file)


def test_a_link_does_not_lead_out_of_the_project(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.env").write_text("KEY=value")
    (project / "vars.env").symlink_to(tmp_path / "secret.env")
    with pytest.raises(UserErrorException, match="outside of the project"):
        project_file.read(write(project, 'variables_file = "vars.env"'))
