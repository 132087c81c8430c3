"""Environments: from files, to folders and back."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.wheels import make_wheel
from windlass.client.environments.environment import Environment
from windlass.client.environments.sections import DockerBuildContext
from windlass.client.exceptions import NotProvided, RunConfigurationException, UserErrorException
from windlass.client.submit.run_spec import environment_spec


def packages(environment: Environment) -> list[str]:
    assert environment.python.conda_dependencies is not None
    return list(environment.python.conda_dependencies.pip_packages)


def test_from_a_conda_file(tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text("dependencies:\n- python=3.9\n- pip:\n  - numpy\n")
    assert packages(Environment.from_conda_specification("n", str(tmp_path / "env.yml"))) == ["numpy"]


def test_from_requirements_with_comments_options_and_includes(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("scipy\n")
    (tmp_path / "req.txt").write_text(
        "\ufeff# ours\n-r base.txt\nnumpy>=1 # why\n\n--index-url http://example.org\npandas \\\n  ==2\n"
    )
    environment = Environment.from_pip_requirements("n", str(tmp_path / "req.txt"))
    assert packages(environment) == ["scipy", "numpy>=1", "pandas ==2"]
    assert environment.python.conda_dependencies is not None
    assert list(environment.python.conda_dependencies.pip_options) == ["--index-url http://example.org"]


def test_from_a_conda_environment_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "conda"
    fake.write_text(
        '#!/bin/sh\n[ "$5" = there ] || { echo no such env >&2; exit 1; }\necho "dependencies: [numpy=1]"\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = Environment.from_existing_conda_environment("n", "there").python.conda_dependencies
    assert found is not None
    assert list(found.conda_packages) == ["numpy=1"]
    with pytest.raises(UserErrorException, match="conda says: no such env"):
        Environment.from_existing_conda_environment("n", "other")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserErrorException, match="conda is not there"):
        Environment.from_existing_conda_environment("n", "there")


def test_a_folder_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Environment.from_dockerfile("n", "FROM x\nRUN y\n")
    made.environment_variables = {"A": "b"}
    made.python.conda_dependencies.add_pip_package("numpy")  # type: ignore[union-attr]
    made.save_to_directory(str(tmp_path / "env"))
    assert sorted(path.name for path in (tmp_path / "env").iterdir()) == [
        "BaseDockerfile",
        "azureml_environment.json",
        "conda_dependencies.yml",
    ]
    definition = json.loads((tmp_path / "env" / "azureml_environment.json").read_text())
    assert definition["environmentVariables"] == {"A": "b"}
    assert "condaDependencies" not in definition["python"]
    assert Environment.load_from_directory(str(tmp_path / "env")).to_dict() == made.to_dict()
    assert Environment.from_dict(made.to_dict()).to_dict() == made.to_dict()
    assert capsys.readouterr().err == "", "what we write ourselves is not misspelt"
    with pytest.raises(FileExistsError):
        made.save_to_directory(str(tmp_path / "env"))
    made.save_to_directory(str(tmp_path / "env"), overwrite=True)


def test_an_image_without_packages_has_them_already(tmp_path: Path) -> None:
    (tmp_path / "req.txt").write_text("numpy\n")
    for made, managed in (
        (Environment.from_docker_image("n", "x"), True),
        (Environment.from_dockerfile("n", "FROM x\n"), True),
        (Environment.from_docker_image("n", "x", pip_requirements=str(tmp_path / "req.txt")), False),
        (Environment.from_dockerfile("n", "FROM x\n", pip_requirements=str(tmp_path / "req.txt")), False),
    ):
        assert made.python.user_managed_dependencies is managed


def test_it_prints_as_azures() -> None:
    assert str(Environment("e")) == "Environment(Name: e,\nVersion: None)"
    assert json.loads(repr(Environment("e")))["name"] == "e"


def test_what_this_version_lacks_is_said() -> None:
    nowhere: Any = None
    for ask in (
        lambda: Environment("e").get_image_details(nowhere),
        lambda: Environment.label(nowhere, "e", "1", ["good"]),
        lambda: DockerBuildContext.from_local_directory(nowhere, "."),
        lambda: setattr(Environment("e").python, "base_conda_environment", "mine"),
    ):
        with pytest.raises(NotProvided) as refused:
            ask()
        assert refused.value.hint
    with pytest.raises(NotProvided, match="A base conda environment"):
        Environment.from_dict({"python": {"baseCondaEnvironment": "mine"}})
    assert Environment.from_dict({"python": {"baseCondaEnvironment": None}}).python.base_conda_environment is None


def test_a_platform_that_is_not_chosen_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    made = Environment.from_dict({"docker": {"platform": {"os": "Linux", "architecture": "amd64"}}})
    assert capsys.readouterr().err == ""
    made.docker.platform.architecture = "arm64"
    assert "its platform is not chosen" in capsys.readouterr().err


def test_a_broken_definition_is_named(tmp_path: Path) -> None:
    (tmp_path / "azureml_environment.json").write_text("{")
    with pytest.raises(UserErrorException, match=r"azureml_environment\.json, line 1: not valid JSON"):
        Environment.load_from_directory(str(tmp_path))


def test_a_clone_is_another_one() -> None:
    first = Environment("a")
    first.python.user_managed_dependencies = True
    second = first.clone("b")
    second.python.conda_dependencies.add_pip_package("numpy")  # type: ignore[union-attr]
    assert (second.name, second.python.user_managed_dependencies) == ("b", True)
    assert packages(first) == ["azureml-defaults"]


def test_a_wheel_beside_the_conda_file_is_found_by_copies_too(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "project" / "wheels", "tiny").name
    there = tmp_path / "project" / "env.yml"
    there.write_text(f"dependencies:\n- pip:\n  - ./wheels/{wheel} ; python_version > '3'\n  - numpy\n")
    first = Environment.from_conda_specification("a", str(there))
    first.save_to_directory(str(tmp_path / "kept" / "env"))
    first.python.conda_dependencies.save(str(tmp_path / "project" / "beside.yml"))  # type: ignore[union-attr]
    wanted = environment_spec(first, "local").pip
    assert wanted[0].startswith("wheel:") and wheel in wanted[0]
    for other in (
        first.clone("b"),
        Environment.load_from_directory(str(tmp_path / "kept" / "env")),
        Environment.from_conda_specification("c", str(tmp_path / "project" / "beside.yml")),
    ):
        assert environment_spec(other, "local").pip == wanted
    assert f"- ./wheels/{wheel} ;" in (tmp_path / "project" / "beside.yml").read_text(), "as it was written"


def test_a_python_that_nobody_chose_stays_so(tmp_path: Path) -> None:
    """Else a copy of the default would be an environment to be built."""
    first = Environment("a")
    first.save_to_directory(str(tmp_path / "env"))
    for copy in (first.clone("b"), Environment.load_from_directory(str(tmp_path / "env"))):
        assert copy.python.conda_dependencies is not None
        assert not copy.python.conda_dependencies.python_is_chosen
        assert not environment_spec(copy, "local").is_built


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(AttributeError, match="PythonSection has no attribute user_managed"):
        Environment("a").python.user_managed = True


def origins(environment: Environment) -> list[str]:
    said = environment.to_dict()["docker"]
    return [key for key in ("baseImage", "baseDockerfile", "buildContext") if said[key]]


def test_what_a_container_is_made_from_is_said_last(capsys: pytest.CaptureFixture[str]) -> None:
    made = Environment("a")
    made.docker.base_image = "x"
    made.docker.base_dockerfile = None
    assert (origins(made), capsys.readouterr().err) == (["baseImage"], "")
    made.docker.base_dockerfile = "FROM y"
    assert origins(made) == ["baseDockerfile"]
    assert "base_dockerfile takes the place of base_image" in capsys.readouterr().err
    made.docker.build_context = DockerBuildContext("local", ".")
    assert origins(made) == ["buildContext"]
    made.docker.base_image = "z"
    assert origins(made) == ["baseImage"]


def test_a_file_that_makes_a_container_from_two_things_is_refused() -> None:
    body = {"name": "a", "docker": {"baseImage": "x", "baseDockerfile": "FROM y"}}
    with pytest.raises(RunConfigurationException, match="env.json.docker has baseImage and baseDockerfile"):
        Environment.from_dict(body, "env.json")


def test_the_gpus_of_older_files_are_read_and_kept() -> None:
    old = Environment.from_dict({"name": "a", "docker": {"enabled": True, "gpuSupport": True}})
    assert old.docker.gpu_support and old.clone("b").docker.gpu_support
    assert old.to_dict()["docker"]["gpuSupport"] is True
    assert "gpuSupport" not in Environment("c").to_dict()["docker"], "newer files do not have it"


def test_a_password_is_not_part_of_what_is_stored_and_shown() -> None:
    environment = Environment("a")
    environment.docker.base_image_registry.password = "hunter2"
    assert "hunter2" not in repr(environment)


def test_r_is_not_provided() -> None:
    environment = Environment("a")
    environment.r = None
    with pytest.raises(NotProvided, match="R section"):
        environment.r = object()


def test_unknown_keys_of_an_environment_folder_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '{"name": "e",\n "teapot": 1,\n "docker": {\n  "spout": 2}}'
    (tmp_path / "azureml_environment.json").write_text(text)
    Environment.load_from_directory(str(tmp_path))
    said = capsys.readouterr().err
    assert "line 2: there is no setting 'teapot'" in said and "line 4: docker: there is no setting 'spout'" in said


def test_strict_is_a_key_of_ours_that_is_written_only_where_it_is_set(tmp_path: Path) -> None:
    made = Environment("e")
    assert "strict" not in made.to_dict()["python"]
    made.python.strict = True
    assert made.python.conda_dependencies is not None
    made.python.conda_dependencies.add_pip_package("six")
    assert environment_spec(made, "gpu-box").strict
    made.save_to_directory(str(tmp_path / "kept"))
    assert Environment.load_from_directory(str(tmp_path / "kept")).python.strict
    with pytest.raises(RunConfigurationException, match="python.strict is True or False, not 'yes'"):
        made.python.strict = "yes"  # type: ignore[assignment]
