"""A run has the packages of its environment, and the build log is shown while it is built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sdk.conftest import Project
from tests.wheels import make_wheel
from windlass import ActivityFailedException, CondaDependencies, Environment, Experiment, ScriptRunConfig, Workspace
from windlass.client.exceptions import UserErrorException
from windlass.core.errors import AlreadyExists, Conflict, InvalidRequest, NotFound

BUILD_LOG = "azureml-logs/20_image_build_log.txt"


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    """A package that needs no index, and that is unique to the test."""
    return str(make_wheel(tmp_path, "tinypackage", "1.5", f"answer = 42  # {os.urandom(8).hex()}\n"))


def environment(*packages: str) -> Environment:
    made = Environment("packages")
    made.python.conda_dependencies = CondaDependencies.create(pip_packages=[*packages, "azureml-defaults"])
    return made


def test_a_package_is_installed_and_the_sdk_is_there(
    exp: Experiment, project: Project, wheel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "import tinypackage; from windlass import Run; Run.get_context().log('answer', tinypackage.answer)"
    run = exp.submit(
        ScriptRunConfig(project(train=f"print('up')\n{script}"), "train.py", environment=environment(wheel))
    )
    run.wait_for_completion(show_output=True)
    assert run.get_metrics() == {"answer": 42}
    shown = capsys.readouterr().out
    assert shown.index(f"\nStreaming {BUILD_LOG}\n") < shown.index("\nStreaming user_logs/std_log.txt\n")
    assert BUILD_LOG in run.get_file_names()
    assert "azureml-defaults is not installed: windlass provides it.\n" in run._read_file(BUILD_LOG).decode()
    used = run.get_environment().python.conda_dependencies
    assert used is not None
    assert list(used.pip_packages) == [wheel, "azureml-defaults"]


def test_a_package_that_is_not_there(exp: Experiment, project: Project) -> None:
    made = environment("no-such-package==9.9")
    assert made.python.conda_dependencies is not None
    made.python.conda_dependencies.set_pip_option("--no-index")
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py", environment=made))
    with pytest.raises(ActivityFailedException, match="no-such-package"):
        run.wait_for_completion()


def test_a_wheel_that_is_not_there_is_refused_at_once(exp: Experiment, project: Project, tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing-1.0-py3-none-any.whl")
    with pytest.raises(UserErrorException, match="nothing-1.0-py3-none-any.whl is not there"):
        exp.submit(ScriptRunConfig(project(train="pass"), "train.py", environment=environment(missing)))


LOOK = "import os, tinypackage; print(tinypackage.answer, sorted(os.listdir()))"


def test_a_wheel_goes_with_the_run_and_another_content_is_another_environment(
    exp: Experiment, project: Project, tmp_path: Path
) -> None:
    """Named by a path of the source folder, as the script's author would."""
    folder = project(train=LOOK)
    made = environment("./wheels/tinypackage-1.5-py3-none-any.whl")
    seen = []
    for body in ("answer = 1\n", "answer = 2\n", "answer = 2\n"):
        make_wheel(Path(folder) / "wheels", "tinypackage", "1.5", body)
        run = exp.submit(ScriptRunConfig(folder, "train.py", environment=made))
        run.wait_for_completion()
        text = run._read_file("user_logs/std_log.txt").decode()
        seen.append((text.split()[0], BUILD_LOG in run.get_file_names()))
        assert ".windlass" not in text
    assert seen == [("1", True), ("2", True), ("2", False)]


def test_a_private_wheel_of_the_workspace(ws: Workspace, exp: Experiment, project: Project, wheel: str) -> None:
    reference = Environment.add_private_pip_wheel(ws, wheel)
    with pytest.raises(AlreadyExists):
        Environment.add_private_pip_wheel(ws, wheel)
    assert Environment.add_private_pip_wheel(ws, wheel, exist_ok=True) == reference
    Path(wheel).unlink()  # from now on the workspace has it
    run = exp.submit(ScriptRunConfig(project(train=LOOK), "train.py", environment=environment(reference)))
    run.wait_for_completion()
    assert run._read_file("user_logs/std_log.txt").startswith(b"42 ")
    with pytest.raises(UserErrorException, match="make sure file exists"):
        Environment.add_private_pip_wheel(ws, wheel)


def test_an_environment_is_registered_in_versions_and_used_by_name(
    ws: Workspace, exp: Experiment, project: Project, wheel: str
) -> None:
    name = f"train-{os.urandom(4).hex()}"
    made = environment(wheel).clone(name)
    first = made.register(ws)
    assert (first.name, first.version) == (name, "1")
    assert made.register(ws).version == "1"
    made.environment_variables = {"A": "b"}
    assert made.register(ws).version == "2"
    Path(wheel).unlink()  # what it needs is kept with it
    found = Environment.get(ws, name, version="1")
    assert (found.version, found.environment_variables) == ("1", {})
    assert Environment.get(ws, name, label="Latest").environment_variables == {"A": "b"}
    assert ws.environments[name].version == "2"
    assert "AzureML-Minimal" in Environment.list(ws)
    run = exp.submit(ScriptRunConfig(project(train=LOOK), "train.py", environment=found))
    run.wait_for_completion()
    assert run._read_file("user_logs/std_log.txt").startswith(b"42 ")


def test_a_dockerfile_by_its_path_is_kept_as_its_text(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\nRUN y\n")
    name = f"by-path-{os.urandom(4).hex()}"
    made = Environment(name)
    made.docker.base_dockerfile = str(tmp_path / "Dockerfile")
    made.save_to_directory(str(tmp_path / "saved"))
    made.register(ws)
    (tmp_path / "Dockerfile").unlink()
    for again in (Environment.get(ws, name), Environment.load_from_directory(str(tmp_path / "saved"))):
        assert again.docker.base_dockerfile == "FROM x\nRUN y\n"


def test_environments_that_are_not_there(ws: Workspace) -> None:
    Environment(f"Near-{os.urandom(2).hex()}").register(ws)
    near = next(name for name in Environment.list(ws) if name.startswith("Near-"))
    with pytest.raises(NotFound) as caught:
        Environment.get(ws, near[:-1])
    assert near in caught.value.hint
    with pytest.raises(NotFound, match="no version 9"):
        Environment.get(ws, near, version="9")
    with pytest.raises(InvalidRequest, match="A version of an environment has"):
        Environment.get(ws, near, version="new est")
    with pytest.raises(UserErrorException, match="label"):
        Environment.get(ws, near, label="stable")
    with pytest.raises(InvalidRequest, match="reserved"):
        Environment("AzureML-Mine").register(ws)


def test_a_curated_environment_runs(ws: Workspace, exp: Experiment, project: Project) -> None:
    minimal = Environment.get(ws, "AzureML-Minimal")
    run = exp.submit(ScriptRunConfig(project(train="print('up')"), "train.py", environment=minimal))
    assert run.wait_for_completion()["status"] == "Completed"


def test_a_curated_environment_of_another_version_is_the_one_there_is_and_says_so(
    ws: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Environment.get(ws, "AzureML-Minimal", version="44")
    assert f"AzureML-Minimal has no version 44 here; this is version {found.version}." in capsys.readouterr().err
    for version in (None, found.version):
        Environment.get(ws, "AzureML-Minimal", version)
    assert capsys.readouterr().err == ""


def test_an_environment_that_says_its_version_gets_that(ws: Workspace) -> None:
    made = Environment(f"train-{os.urandom(4).hex()}")
    made.version = "2.0"
    assert [made.register(ws).version, made.register(ws).version] == ["2.0", "2.0"]
    assert Environment.get(ws, str(made.name), version="2.0").version == "2.0"
    made.environment_variables = {"A": "b"}
    with pytest.raises(Conflict, match="versions never change") as refused:
        made.register(ws)
    assert "environment.version = None" in refused.value.hint
    made.version = None
    assert made.register(ws).version == "1"


def test_what_was_found_and_changed_is_the_next_version(ws: Workspace) -> None:
    name = f"train-{os.urandom(4).hex()}"
    Environment(name).register(ws)
    found = Environment.get(ws, name)
    assert found.register(ws).version == "1"
    found.environment_variables = {"A": "b"}
    changed = found.register(ws)
    assert changed.version == "2"
    assert Environment.get(ws, name, version="1").register(ws).version == "1", "although there is a later one"
    changed.environment_variables = {"A": "c"}
    assert changed.register(ws).version == "3"
    curated = Environment.get(ws, "AzureML-Tutorial")
    curated.name = name
    assert curated.register(ws).version == "4", "what it is based on says nothing of our versions"


def test_a_conda_file_that_ends_in_an_empty_list_of_pip_is_registered(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text("dependencies:\n- numpy\n- pip:\n")
    made = Environment.from_conda_specification(f"train-{os.urandom(4).hex()}", str(tmp_path / "env.yml"))
    found = made.register(ws).python.conda_dependencies
    assert found is not None
    assert (list(found.conda_packages), list(found.pip_packages)) == (["numpy"], [])


def test_an_environment_is_built_ahead_of_its_first_run(
    ws: Workspace, exp: Experiment, project: Project, wheel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = environment(wheel).clone(f"ahead-{os.urandom(4).hex()}")
    config = ScriptRunConfig(project(train=LOOK), "train.py", environment=made)
    assert not config.is_prepared(ws)
    details = made.build(ws)
    assert details.wait_for_completion() is details
    assert "The environment is ready." in capsys.readouterr().out
    assert "The environment is ready." in details.get_log()
    assert made.build(ws).wait_for_completion(show_output=False).get_log() == "", "nothing was to be built"
    assert details.status == "Succeeded"
    assert Environment.get(ws, str(made.name)).version == "1", "what is built is registered"
    assert details.run.type == "prepare"
    assert config.is_prepared(ws)
    run = exp.submit(config)
    run.wait_for_completion()
    assert BUILD_LOG not in run.get_file_names()


def test_one_that_cannot_be_built_says_so_ahead(ws: Workspace, tmp_path: Path) -> None:
    made = environment(str(make_wheel(tmp_path, "needy", requires=["no-such-package"])))
    assert made.python.conda_dependencies is not None
    made.python.conda_dependencies.set_pip_option("--no-index")
    details = made.build(ws)
    with pytest.raises(ActivityFailedException, match="no-such-package"):
        details.wait_for_completion()
    assert details.status == "Failed"


def test_built_on_this_computer(ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """A curated one is registered already; a workspace has no registry of images to push to."""
    minimal = Environment.get(ws, "AzureML-Minimal")
    assert minimal.build_local(ws, useDocker=False, pushImageToWorkspaceAcr=True).status == "Succeeded"
    assert "a workspace has no registry of images" in capsys.readouterr().err
    with pytest.raises(TypeError, match="use_docker"):
        minimal.build_local(ws, use_docker=True)  # type: ignore[call-arg]


def test_a_configuration_that_builds_nothing_needs_what_is_prepared(
    ws: Workspace, exp: Experiment, project: Project, wheel: str
) -> None:
    """In files of Workbench it is PrepareEnvironment: false, as a configuration of the seeds may say."""
    folder = project(**{"train": LOOK, "aml_config/docker.runconfig": "", "aml_config/conda_dependencies.yml": ""})
    Path(folder, "aml_config", "mine.runconfig").write_text(
        "target: local\nautoPrepareEnvironment: false\n"
        "environment: {python: {condaDependenciesFile: aml_config/conda_dependencies.yml}}\n"
    )
    Path(folder, "aml_config", "conda_dependencies.yml").write_text(f"dependencies:\n- pip:\n  - {wheel}\n")
    config = ScriptRunConfig(folder, "train.py", run_config="mine")
    with pytest.raises(UserErrorException) as caught:
        exp.submit(config)
    assert caught.value.text == (
        "The compute target local is not prepared for the specified run configuration.\nwindlass prepare -c mine"
    )
    config.prepare(ws).wait_for_completion()
    assert exp.submit(config).wait_for_completion()["status"] == "Completed"
