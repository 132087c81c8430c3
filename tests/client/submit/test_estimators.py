"""Estimators: what they make of their parameters, and what they refuse."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass import (
    ContainerRegistry,
    Environment,
    Estimator,
    Gloo,
    Mpi,
    MpiConfiguration,
    Nccl,
    NotProvided,
    ParameterServer,
    PyTorch,
    SKLearn,
    TensorFlow,
    TrainingException,
    UserErrorException,
    WindlassError,
)
from windlass.client.submit import estimators
from windlass.client.submit.run_spec import run_spec
from windlass.core.entities import Distribution

COMMON_BEFORE = "source_directory compute_target vm_size vm_priority entry_script script_params"
COMMON = """
    use_docker custom_docker_base_image custom_docker_image image_registry_details user_managed conda_packages
    pip_packages conda_dependencies_file_path pip_requirements_file_path conda_dependencies_file pip_requirements_file
    environment_variables environment_definition inputs source_directory_data_store shm_size resume_from
    max_run_duration_seconds
"""
LAST = "_disable_validation _show_lint_warnings _show_package_warnings"
DISTRIBUTED = "node_count process_count_per_node {} distributed_backend distributed_training use_gpu"


def names(*parts: str) -> list[str]:
    return " ".join(parts).split()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Estimator, names(COMMON_BEFORE, DISTRIBUTED.format(""), COMMON, LAST)),
        (
            PyTorch,
            names(COMMON_BEFORE, DISTRIBUTED.format(""), COMMON, "framework_version _enable_optimized_mode", LAST),
        ),
        (
            TensorFlow,
            names(
                COMMON_BEFORE,
                DISTRIBUTED.format("worker_count parameter_server_count"),
                COMMON,
                "framework_version _enable_optimized_mode",
                LAST,
            ),
        ),
        (Mpi, ["process_count_per_node"]),
        (ParameterServer, ["worker_count", "parameter_server_count"]),
        (Nccl, []),
        (Gloo, []),
    ],
)
def test_signatures_are_azures(kind: Callable[..., Any], expected: list[str]) -> None:
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == expected
    ones = {name for name in expected if name.endswith(("_count", "_per_node"))}
    for name, parameter in parameters.items():
        if name == "source_directory":
            assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty
        elif kind in (Estimator, PyTorch, TensorFlow):
            assert parameter.kind is parameter.KEYWORD_ONLY
            true = name in ("use_docker", "_disable_validation")
            false = name in ("use_gpu", "user_managed") or (name.startswith("_") and not true)
            assert parameter.default == (1 if name in ones else True if true else False if false else None), name


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("print('hello')")
    (tmp_path / "packages.yml").write_text("dependencies:\n- python=3.11\n- pip:\n  - six==1.16.0\n")
    (tmp_path / "packages.txt").write_text("--extra-index-url https://example.com/simple\ntorch==2.1\nsix\n")
    return str(tmp_path)


def spec_of(estimator: Any) -> Any:
    return run_spec(estimator._script_run_config())


def pip(estimator: Any) -> list[str]:
    return list(estimator.conda_dependencies.pip_packages)


def test_parameters_become_arguments_in_order(source: str) -> None:
    parameters = {"--alpha": 0.1, "--flag": "", "--none": None, "--zero": 0, "--true": True, "--text": "a b"}
    made = Estimator(source, entry_script="train.py", compute_target="local", script_params=parameters)
    spec = spec_of(made)
    assert spec.arguments == (
        *("--alpha", "0.1", "--flag", "--none", "--zero", "0", "--true", "True", "--text", "a b"),
    )
    assert (spec.script, spec.target, spec.max_run_duration_seconds) == ("train.py", "local", None)
    assert made.source_directory == source and made._estimator_config is made.run_config


def test_what_its_run_configuration_is_changed_to_is_what_runs(source: str) -> None:
    made = Estimator(source, entry_script="other.py", environment_variables={"A": "1"}, max_run_duration_seconds=60)
    made.run_config.script = "train.py"
    made.run_config.arguments = ["--x", 1]
    made.conda_dependencies.add_pip_package("six")  # type: ignore[union-attr]
    spec = spec_of(made)
    assert (spec.script, spec.arguments, spec.max_run_duration_seconds) == ("train.py", ("--x", "1"), 60)
    assert spec.environment.variables == {"A": "1"} and "six" in spec.environment.pip


def test_packages_come_from_lists_files_and_the_framework(source: str) -> None:
    assert pip(Estimator(source)) == ["azureml-defaults"]
    listed = Estimator(source, pip_packages=["six"], conda_packages=["numpy=1.26"])
    assert pip(listed) == ["azureml-defaults", "six"]
    assert list(listed.conda_dependencies.conda_packages) == ["numpy=1.26"]  # type: ignore[union-attr]
    assert "scikit-learn==0.20.3" in pip(SKLearn(source)) and SKLearn.DEFAULT_VERSION == "0.20.3"
    assert "tensorflow==2.2" in pip(TensorFlow(source, framework_version="2.2"))
    torch = PyTorch(source, pip_requirements_file="packages.txt", pip_packages=["pillow"])
    assert {"torch==2.1", "torchvision", "six", "pillow"} <= set(pip(torch)) and "torch==1.4" not in pip(torch)
    assert list(torch.conda_dependencies.pip_options) == [  # type: ignore[union-attr]
        "--extra-index-url https://example.com/simple"
    ]
    whole = PyTorch(source, conda_dependencies_file="packages.yml")
    assert pip(whole) == ["six==1.16.0"], "a conda file is all"
    assert pip(SKLearn(source, conda_dependencies_file_path="packages.yml")) == ["six==1.16.0"]
    assert torch.framework_version == "1.4" and "1.6" in PyTorch.get_supported_versions()


def test_the_environment_is_a_definition_an_interpreter_or_an_image(source: str) -> None:
    definition = Environment("mine")
    definition.python.user_managed_dependencies = True
    defined = PyTorch(source, entry_script="train.py", environment_definition=definition)
    assert defined.run_config.environment is definition and spec_of(defined).environment.interpreter
    managed = SKLearn(source, entry_script="train.py", user_managed=True)
    assert spec_of(managed).environment.interpreter and not spec_of(managed).environment.pip
    plain = Estimator(source, entry_script="train.py", use_docker=True, use_gpu=True)
    assert spec_of(plain).container is None
    registry = ContainerRegistry()
    registry.address = "registry.example.com"
    image = Estimator(
        source,
        entry_script="train.py",
        custom_docker_image="me/train:1",
        image_registry_details=registry,
        shm_size="1g",
        use_gpu=True,
    )
    container, environment = spec_of(image).container, spec_of(image).environment
    assert environment.image == "registry.example.com/me/train:1"
    assert container.shm_size_mb == 1024 and container.arguments == ("--gpus", "all")
    assert Estimator(source, custom_docker_base_image="old").run_config.environment.docker.base_image == "old"


@pytest.mark.parametrize(
    ("make", "distribution"),
    [
        (lambda s: Estimator(s, distributed_training=Mpi(4), entry_script="train.py"), Distribution("mpi", 4)),
        (
            lambda s: Estimator(s, distributed_training=MpiConfiguration(4), entry_script="train.py"),
            Distribution("mpi", 4),
        ),
        (
            lambda s: Estimator(s, distributed_backend="mpi", process_count_per_node=4, entry_script="train.py"),
            Distribution("mpi", 4),
        ),
        (lambda s: Estimator(s, process_count_per_node=4, entry_script="train.py"), Distribution("mpi", 4)),
        (
            lambda s: TensorFlow(s, distributed_training=ParameterServer(3, 1), entry_script="train.py"),
            Distribution("tensorflow", workers=3, parameter_servers=1),
        ),
        (
            lambda s: TensorFlow(s, distributed_backend="ps", worker_count=3, entry_script="train.py"),
            Distribution("tensorflow", workers=3, parameter_servers=1),
        ),
    ],
)
def test_several_processes_are_a_distribution(
    source: str, make: Callable[[str], Any], distribution: Distribution
) -> None:
    made = make(source)
    assert spec_of(made).distribution == distribution
    assert made.run_config.node_count == 1


@pytest.mark.parametrize("training", [Nccl(), Gloo(), "nccl"])
def test_nodes_are_asked_of_the_target(source: str, training: Any) -> None:
    by_name = {"distributed_backend": training} if isinstance(training, str) else {"distributed_training": training}
    made = PyTorch(source, entry_script="train.py", node_count=2, **by_name)
    assert spec_of(made).resources.nodes == 2
    assert made.run_config.framework == "PyTorch" and made.run_config.pytorch.node_count == 2
    assert spec_of(Estimator(source, entry_script="train.py")).resources.nodes is None


def test_a_size_without_a_target_is_a_cluster_for_one_run(source: str) -> None:
    made = Estimator(source, entry_script="train.py", vm_size="STANDARD_D2_V2", vm_priority="lowpriority", node_count=2)
    section = made.run_config.amlcompute
    assert (made.run_config.target, section.vm_size, section.vm_priority) == (
        "amlcompute", "STANDARD_D2_V2", "lowpriority",
    )  # fmt: skip
    named = Estimator(source, entry_script="train.py", vm_size="STANDARD_D2_V2", compute_target="gpus")
    assert named.run_config.target == "gpus"


MISTAKES: list[tuple[type, dict[str, Any], type[WindlassError], str]] = [
    (Estimator, {"environment_definition": Environment("x"), "pip_packages": ["six"]}, TrainingException, "pip_pack"),
    (SKLearn, {"conda_dependencies_file": "packages.yml", "conda_packages": ["six"]}, TrainingException, "conda_pack"),
    (Estimator, {"user_managed": True, "pip_requirements_file": "packages.txt"}, TrainingException, "user_managed"),
    (Estimator, {"use_docker": False, "custom_docker_image": "i"}, TrainingException, "use_docker"),
    (Estimator, {"node_count": 0}, TrainingException, "node_count should be at least 1"),
    (Estimator, {"pip_packages": "six"}, TrainingException, "list of texts"),
    (Estimator, {"distributed_backend": "gloo"}, TrainingException, "does not train by 'gloo'"),
    (PyTorch, {"distributed_training": ParameterServer()}, TrainingException, "does not train by 'ps'"),
    (Estimator, {"distributed_training": 3}, TrainingException, "does not train by 3"),
    (Estimator, {"inputs": ["data"]}, NotProvided, "script_params"),
    (SKLearn, {"resume_from": "x"}, NotProvided, "script_params"),
    (Estimator, {"source_directory_data_store": "x"}, NotProvided, "script_params"),
    (Estimator, {"entry_script": "train.ipynb"}, NotProvided, "nbclient"),
    (Estimator, {"conda_dependencies_file": "none.yml"}, UserErrorException, "no conda file .*none.yml"),
    (Estimator, {"pip_requirements_file": "none.txt"}, UserErrorException, "none.txt"),
]


@pytest.mark.parametrize(("kind", "given", "error", "text"), MISTAKES)
def test_mistakes_are_told(
    source: str, kind: type, given: dict[str, Any], error: type[WindlassError], text: str
) -> None:
    with pytest.raises(error) as caught:
        kind(source, **given)
    assert re.search(text, f"{caught.value.message} {caught.value.hint}")


def test_that_they_are_deprecated_is_said_once(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    estimators._warned.clear()
    for _ in range(3):
        SKLearn(source)
    assert capsys.readouterr().err.count("SKLearn is deprecated. ScriptRunConfig") == 1


def test_examples_work() -> None:
    results = doctest.testmod(estimators)
    assert results.attempted > 0 and results.failed == 0
    assert windlass.Estimator is Estimator
