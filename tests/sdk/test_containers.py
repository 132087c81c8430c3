"""Runs in containers, as a user submits them: on the target `docker`, and on `local` with Docker on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.dockerd import Dockerd
from tests.engines.images import BUSYBOX, PYTHON
from tests.sdk.conftest import Project, own_home
from tests.wheels import make_wheel
from windlass import (
    ActivityFailedException,
    CondaDependencies,
    DockerConfiguration,
    Environment,
    Experiment,
    RunConfiguration,
    ScriptRunConfig,
    UserErrorException,
    Workspace,
)
from windlass.core.errors import SpecNotSupported

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
WHERE = """
import json, os
from windlass import Run

run = Run.get_context()
run.log("answer", 42)
run.tag("from", "inside")
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("trained")
print(json.dumps({"container": os.path.exists("/.dockerenv"), "experiment": run.experiment.name}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, dockerd: Dockerd) -> Iterator[Path]:
    """A server on a machine whose engine has the image that containers are made from by default."""
    dockerd.docker("tag", PYTHON, "python:3.11-slim")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", dockerd.address)
        yield from own_home(tmp_path_factory.mktemp("docker") / "home")


@pytest.fixture
def exp(home: Path) -> Experiment:
    return Experiment(Workspace.from_config(), f"exp-{os.urandom(4).hex()}")


def in_docker(source: str, **more: object) -> ScriptRunConfig:
    return ScriptRunConfig(source, "train.py", compute_target="docker", **more)  # type: ignore[arg-type]


def test_the_target_docker_is_there(exp: Experiment) -> None:
    targets = exp.workspace.compute_targets
    assert {"local", "docker"} <= set(targets)


def test_a_run_logs_tags_and_leaves_outputs(exp: Experiment, project: Project, tmp_path: Path) -> None:
    """Its script reaches the server although it is in a network of its own."""
    run = exp.submit(in_docker(project(train=WHERE)))
    run.wait_for_completion(show_output=True)
    run.download_file("user_logs/std_log.txt", str(tmp_path / "log"))
    said = json.loads((tmp_path / "log").read_text())
    assert said == {"container": True, "experiment": exp.name}
    assert run.get_metrics() == {"answer": 42}
    assert run.get_tags()["from"] == "inside"
    assert "outputs/model.txt" in run.get_file_names()


def test_docker_on_the_target_local(exp: Experiment, project: Project) -> None:
    made = Environment.from_docker_image("small", PYTHON)
    config = ScriptRunConfig(
        project(train=WHERE), "train.py", environment=made, docker_runtime_config=DockerConfiguration(use_docker=True)
    )
    run = exp.submit(config)
    run.wait_for_completion()
    assert run.get_metrics() == {"answer": 42}


def test_packages_go_into_an_image(exp: Experiment, project: Project, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tinypackage", "1.5", f"answer = 43  # {os.urandom(8).hex()}\n")
    made = Environment("packages")
    made.python.conda_dependencies = CondaDependencies.create(pip_packages=[str(wheel), "azureml-defaults"])
    script = "import tinypackage; from windlass import Run; Run.get_context().log('answer', tinypackage.answer)"
    source = project(train=script)
    first = exp.submit(in_docker(source, environment=made))
    first.wait_for_completion()
    assert first.get_metrics() == {"answer": 43}
    assert BUILD_LOG in first.get_file_names()
    second = exp.submit(in_docker(source, environment=made))
    second.wait_for_completion()
    assert BUILD_LOG not in second.get_file_names()


def test_an_image_can_be_built_ahead(exp: Experiment, project: Project) -> None:
    made = Environment.from_dockerfile("ahead", f"FROM {PYTHON}\nENV UNIQUE={os.urandom(8).hex()}\n")
    config = in_docker(project(train="pass"), environment=made)
    assert not config.is_prepared(exp.workspace)
    config.prepare(exp.workspace).wait_for_completion()
    assert config.is_prepared(exp.workspace)
    run = exp.submit(config)
    run.wait_for_completion()
    assert BUILD_LOG not in run.get_file_names()


def test_an_image_that_copies_files_can_be_built_ahead(exp: Experiment, project: Project) -> None:
    made = Environment.from_dockerfile("copies", f"FROM {PYTHON}\nCOPY train.py /opt/{os.urandom(8).hex()}.py\n")
    config = in_docker(project(train="pass"), environment=made)
    config.run_config.auto_prepare_environment = False
    with pytest.raises(UserErrorException, match="is not prepared"):
        exp.submit(config)
    config.prepare(exp.workspace).wait_for_completion()
    assert config.is_prepared(exp.workspace)
    run = exp.submit(config)
    run.wait_for_completion()
    assert BUILD_LOG not in run.get_file_names()
    Path(config.source_directory, "train.py").write_text("print(1)")
    assert not config.is_prepared(exp.workspace)


def test_to_build_an_environment_with_a_dockerfile_is_to_build_the_image(exp: Experiment, project: Project) -> None:
    name = f"built-{os.urandom(4).hex()}"
    made = Environment.from_dockerfile(name, f"FROM {PYTHON}\nENV UNIQUE={os.urandom(8).hex()}\n")
    details = made.build(exp.workspace).wait_for_completion(show_output=False)
    assert "ENV UNIQUE=" in details.get_log()
    config = in_docker(project(train="pass"), environment=Environment.get(exp.workspace, name))
    assert config.is_prepared(exp.workspace)


def test_packages_alone_are_built_as_an_image_where_that_is_asked_for(
    exp: Experiment, project: Project, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, "tinypackage", "1.5", f"answer = 44  # {os.urandom(8).hex()}\n")
    made = Environment(f"built-{os.urandom(4).hex()}")
    made.python.conda_dependencies = CondaDependencies.create(pip_packages=[str(wheel)])
    config = in_docker(project(train="pass"), environment=made)
    made.build_local(exp.workspace)
    assert not config.is_prepared(exp.workspace)
    made.build_local(exp.workspace, useDocker=True)
    assert config.is_prepared(exp.workspace)


def test_a_dockerfile_that_fails_says_its_line(exp: Experiment, project: Project) -> None:
    made = Environment.from_dockerfile("broken", f"FROM {BUSYBOX}\nRUN false\n")
    run = exp.submit(in_docker(project(train="pass"), environment=made))
    with pytest.raises(ActivityFailedException, match="line 2 of the Dockerfile"):
        run.wait_for_completion()


def test_an_option_that_would_open_the_machine_is_refused_at_once(exp: Experiment, project: Project) -> None:
    docker = DockerConfiguration(use_docker=True, arguments=["-v", "/:/host"])
    with pytest.raises(SpecNotSupported, match="would open the machine"):
        exp.submit(in_docker(project(train="pass"), docker_runtime_config=docker))


def test_an_old_configuration_with_docker_enabled(exp: Experiment, project: Project) -> None:
    config = RunConfiguration()
    config.target = "local"
    config.environment.docker.enabled = True
    config.environment.docker.base_image = PYTHON
    run = exp.submit(ScriptRunConfig(project(train=WHERE), "train.py", run_config=config))
    run.wait_for_completion()
    assert run.get_metrics() == {"answer": 42}


def test_a_run_in_a_container_can_be_canceled(exp: Experiment, project: Project, dockerd: Dockerd) -> None:
    run = exp.submit(in_docker(project(train="import time; print('up', flush=True); time.sleep(600)")))
    while run.get_status() != "Running":
        pass
    run.cancel()
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Canceled"


def test_the_check_tells_of_the_engine(exp: Experiment) -> None:
    health = exp.workspace._session.call("POST", "/workspaces/default/targets/docker/check")
    assert health["ok"] and "Docker" in health["message"]
