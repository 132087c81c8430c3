"""Docker in a run configuration, in both of its generations, becomes the container of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass.client.config.run_configuration import RunConfiguration
from windlass.client.config.run_sections import DockerConfiguration
from windlass.client.environments.environment import Environment
from windlass.client.environments.sections import ContainerRegistry, DockerBuildContext
from windlass.client.exceptions import NotProvided, UserErrorException
from windlass.client.submit.run_spec import run_spec
from windlass.client.submit.script_run_config import ScriptRunConfig
from windlass.core.entities import Container, RunSpec
from windlass.core.errors import InvalidRequest


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("")
    return str(tmp_path)


def spec_of(source: str, environment: Environment | None = None, **docker: Any) -> RunSpec:
    config = DockerConfiguration(**docker) if docker else None
    return run_spec(ScriptRunConfig(source, "train.py", environment=environment, docker_runtime_config=config))


def test_without_docker_there_is_no_container(source: str) -> None:
    assert spec_of(source).container is None
    assert spec_of(source, use_docker=False, arguments=["--cpus", "1"]).container is None


def test_the_newer_way(source: str) -> None:
    spec = spec_of(source, use_docker=True, shm_size="512m", arguments=["--cpus", "1.5"], shared_volumes=False)
    assert spec.container == Container(512, ("--cpus", "1.5"), False)
    assert spec_of(source, use_docker=True).container == Container(2048)


def test_the_older_way(source: str) -> None:
    config = ScriptRunConfig(source, "train.py")
    docker = config.run_config.environment.docker
    docker.enabled, docker.shm_size, docker.arguments, docker.gpu_support = True, "1g", ["--cpus=1"], True
    docker.base_image = "team/image:1"
    spec = run_spec(config)
    assert spec.container == Container(1024, ("--cpus=1", "--gpus", "all"))
    assert spec.environment.image == "team/image:1"


def test_gpus_are_asked_for_in_either_way(source: str) -> None:
    made = Environment("a")
    made.docker.gpu_support = True
    assert spec_of(source, made).container is None
    assert spec_of(source, made, use_docker=True).container == Container(2048, ("--gpus", "all"))
    for said in (["--gpus", "1"], ["--gpus=1"]):
        assert spec_of(source, made, use_docker=True, arguments=said).container == Container(2048, tuple(said))


def test_the_newer_way_replaces_the_older_one(source: str) -> None:
    made = Environment("a")
    made.docker.enabled = True
    assert spec_of(source, made, use_docker=False).container is None
    assert spec_of(source, made, use_docker=True, shm_size="1g").container == Container(1024)
    assert made.docker.enabled, "it is the user's own"


@pytest.mark.parametrize("image", [windlass.DEFAULT_CPU_IMAGE, windlass.DEFAULT_GPU_IMAGE])
def test_the_default_image_is_that_of_the_target(source: str, image: str) -> None:
    assert spec_of(source, Environment.from_docker_image("a", image), use_docker=True).environment.image is None


def test_the_arguments_of_an_environment_are_none_or_a_list(source: str) -> None:
    made = Environment("a")
    made.docker.enabled = True
    made.docker.arguments = None  # type: ignore[assignment]
    assert spec_of(source, made).container == Container(2048)
    made.docker.arguments = "--cpus 1"  # type: ignore[assignment]
    with pytest.raises(UserErrorException, match="list of texts"):
        spec_of(source, made)


def test_a_run_configuration_file_says_it_too(source: str, tmp_path: Path) -> None:
    path = tmp_path / "docker.runconfig"
    path.write_text(
        "target: local\nscript: train.py\ndocker:\n  useDocker: true\n  shmSize: 4g\n  arguments: [--init]\n"
    )
    spec = run_spec(ScriptRunConfig(source, run_config=RunConfiguration.load(str(path))))
    assert spec.container == Container(4096, ("--init",))


def test_in_a_container_the_interpreter_is_the_images_own(source: str) -> None:
    assert spec_of(source, use_docker=True).environment.interpreter == "python3"
    mine = Environment("mine")
    mine.python.user_managed_dependencies = True
    mine.python.interpreter_path = "/opt/conda/bin/python"
    assert spec_of(source, mine, use_docker=True).environment.interpreter == "/opt/conda/bin/python"


def test_images_and_dockerfiles(source: str, tmp_path: Path) -> None:
    by_name = Environment.from_docker_image("a", "python:3.11")
    assert (spec_of(source, by_name).environment.image, spec_of(source, by_name).container) == ("python:3.11", None)
    text = "FROM python:3.11\nRUN true\n"
    (tmp_path / "Dockerfile").write_text(text)
    for each in (text, str(tmp_path / "Dockerfile")):
        assert spec_of(source, Environment.from_dockerfile("b", each)).environment.dockerfile == text
    by_path = Environment("c")
    by_path.docker.base_dockerfile = str(tmp_path / "Dockerfile")
    assert spec_of(source, by_path).environment.dockerfile == text


def test_a_dockerfile_that_is_not_there_is_no_text(source: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "Dockerfile.gpu")
    with pytest.raises(UserErrorException, match="There is no Dockerfile /.*Dockerfile.gpu"):
        Environment.from_dockerfile("b", missing)
    by_path = Environment("c")
    by_path.docker.base_dockerfile = missing
    with pytest.raises(UserErrorException, match="There is no Dockerfile"):
        spec_of(source, by_path)
    assert Environment.from_dockerfile("b", "FROM python:3.11").docker.base_dockerfile == "FROM python:3.11"


def test_the_address_of_a_registry_is_part_of_the_name(source: str) -> None:
    registry = ContainerRegistry()
    registry.address = "registry.example.org:5000/"
    for image in ("team/x:1", "registry.example.org:5000/team/x:1"):
        made = Environment.from_docker_image("a", image, container_registry=registry)
        assert spec_of(source, made).environment.image == "registry.example.org:5000/team/x:1"


def test_a_registrys_password_stays_where_it_is(source: str) -> None:
    registry = ContainerRegistry()
    registry.address, registry.username, registry.password = "registry.example.org", "me", "c4n4ry"
    made = Environment.from_docker_image("a", "team/x", container_registry=registry)
    assert "c4n4ry" not in repr(made.docker) and '"password"' not in repr(made.docker)
    with pytest.raises(UserErrorException, match="has a username and a password") as refused:
        spec_of(source, made)
    assert "docker login --username me registry.example.org" in str(refused.value)
    assert "c4n4ry" not in str(refused.value)
    registry.password = None
    with pytest.raises(UserErrorException, match=r"has a username in the environment.*\n.*docker login --username me"):
        spec_of(source, made)
    registry.username, registry.password, registry.address = None, "c4n4ry", None
    with pytest.raises(UserErrorException, match=r"has a password in the environment.*\n.*: docker login\n"):
        spec_of(source, made)


@pytest.mark.parametrize("image", ["img;id", "--privileged", "-v /:/h", "a b", "x@sha256:12", "x:", "$(id)"])
def test_what_is_no_name_of_an_image_is_refused(source: str, image: str) -> None:
    with pytest.raises(InvalidRequest, match="image"):
        spec_of(source, Environment.from_docker_image("a", image))


@pytest.mark.parametrize("size", ["two", "-1g", "0", "1 potato", "g"])
def test_sizes_that_cannot_be(source: str, size: str) -> None:
    with pytest.raises(UserErrorException, match="shm_size"):
        spec_of(source, use_docker=True, shm_size=size)


@pytest.mark.parametrize(("size", "megabytes"), [("2g", 2048), ("64m", 64), ("1024k", 1), ("0.5G", 512), (None, None),
                                                 ("1048576", 1), ("2gb", 2048), ("10", 1)])  # fmt: skip
def test_sizes_are_read_as_docker_does(source: str, size: str | None, megabytes: int | None) -> None:
    container = spec_of(source, use_docker=True, shm_size=size).container
    assert container is not None and container.shm_size_mb == megabytes


def test_what_cannot_be_is_said(source: str) -> None:
    context = Environment.from_docker_build_context("c", DockerBuildContext("local", "."))
    with pytest.raises(NotProvided, match="build context") as refused:
        spec_of(source, context)
    assert "from_dockerfile" in refused.value.hint
    with pytest.raises(UserErrorException, match="list of texts"):
        spec_of(source, use_docker=True, arguments="--cpus 1")
