"""From what users write to what the server is sent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.wheels import make_wheel
from windlass.client.config.run_configuration import RunConfiguration
from windlass.client.config.run_sections import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from windlass.client.environments import sdk_packages
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.client.environments.environment import Environment
from windlass.client.exceptions import NotProvided, RunConfigurationException, UserErrorException
from windlass.client.submit.resource_configuration import ResourceConfiguration
from windlass.client.submit.run_spec import command_words, environment_spec, run_spec
from windlass.client.submit.script_run_config import ScriptRunConfig
from windlass.core.entities import Distribution, EnvironmentSpec, Resources, RetryPolicy
from windlass.core.errors import InvalidRequest
from windlass.runner.environments import requirements as runner_requirements


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "train.py").touch()
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "go.py").touch()
    return str(tmp_path)


def test_a_script_with_numbers_as_arguments(source: str) -> None:
    spec = run_spec(ScriptRunConfig(source, "train.py", ["--alpha", 0.1, "--n", 3, "--flag", True, "a b"]))
    assert (spec.script, spec.arguments) == ("train.py", ("--alpha", "0.1", "--n", "3", "--flag", "True", "a b"))
    assert (spec.target, spec.max_run_duration_seconds) == ("local", 2592000)
    assert spec.environment == EnvironmentSpec(name="default-environment", interpreter=sys.executable)
    assert spec.definition["arguments"] == ["--alpha", "0.1", "--n", "3", "--flag", "True", "a b"]
    assert spec.definition["script"] == "train.py"


def test_arguments_as_one_text_are_a_command_line(source: str) -> None:
    by_name = ScriptRunConfig(source, "train.py", arguments="--alpha 0.1 --name 'a b' \"c\\\"d\" ''")
    assert run_spec(by_name).arguments == ("--alpha", "0.1", "--name", "a b", 'c"d', "")
    configuration = RunConfiguration(script="train.py", arguments="--alpha 0.1")
    configuration.environment.python.user_managed_dependencies = True
    assert run_spec(ScriptRunConfig(source, run_config=configuration)).arguments == ("--alpha", "0.1")
    with pytest.raises(UserErrorException, match="cannot be split into words: no closing quotation") as problem:
        run_spec(ScriptRunConfig(source, "train.py", arguments="--name 'a b"))
    assert problem.value.hint


@pytest.mark.parametrize("script", ["pkg/go.py", "./pkg/go.py", "pkg/../pkg/go.py"])
def test_a_script_in_a_folder(source: str, script: str) -> None:
    assert run_spec(ScriptRunConfig(source, script)).script == "pkg/go.py"


def test_a_script_by_its_full_path(source: str) -> None:
    assert run_spec(ScriptRunConfig(source, f"{source}/pkg/go.py")).script == "pkg/go.py"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "There is nothing to run"),
        ("nothing.py", "does not exist in the source directory"),
        ("pkg", "is a folder"),
        ("../x.py", "is not inside the source directory"),
        ("/etc/passwd", "is not inside the source directory"),
    ],
)
def test_scripts_that_cannot_be(source: str, script: str | None, problem: str) -> None:
    with pytest.raises(UserErrorException, match=problem):
        run_spec(ScriptRunConfig(source, script))


def test_a_source_directory_that_is_not_there_is_named_as_such(source: str) -> None:
    with pytest.raises(UserErrorException, match="There is no source directory /.*/scr"):
        run_spec(ScriptRunConfig(f"{source}/scr", "train.py"))


@pytest.mark.parametrize(
    ("argument", "problem"),
    [(None, "is None"), (["a"], "is a list"), ({"a": 1}, "is a dict"), ("a\0b", "NUL")],
)
def test_arguments_that_cannot_be(source: str, argument: Any, problem: str) -> None:
    with pytest.raises(UserErrorException, match=problem):
        run_spec(ScriptRunConfig(source, "train.py", ["--x", argument]))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", ()),
        (None, ()),
        ("pip list && python train.py", ("sh", "-c", "pip list && python train.py")),
        (["python", "train.py", "--x", 1.5, "a b"], ("{python}", "train.py", "--x", "1.5", "a b")),
        (["ls", "-l"], ("ls", "-l")),
        (["echo", "$HOME"], ("sh", "-c", "echo $HOME")),
        (["a", "&&", "b"], ("sh", "-c", "a && b")),
    ],
)
def test_commands(command: Any, words: tuple[str, ...]) -> None:
    assert command_words(command) == words


def test_a_command_is_no_script(source: str) -> None:
    spec = run_spec(ScriptRunConfig(source, command=["ls"]))
    assert (spec.script, spec.command) == (None, ("ls",))
    with pytest.raises(UserErrorException, match="Both script and command"):
        run_spec(ScriptRunConfig(source, "train.py", command=["ls"]))


def environment_with(**packages: Any) -> Environment:
    environment = Environment("e")
    environment.python.conda_dependencies = CondaDependencies.create(**packages)
    return environment


def test_packages_are_built() -> None:
    """The runner leaves the original SDK out, and says so: it is sent as it was named."""
    listed = ("numpy", "azureml-sdk", "azureml-defaults")
    spec = environment_spec(environment_with(pip_packages=listed), "local")
    assert spec == EnvironmentSpec(name="e", pip=listed)
    assert spec.is_built


@pytest.mark.parametrize(
    ("line", "is_theirs"),
    [
        ("azureml-core", True),
        ("AzureML_Core[x]==1.0", True),
        ("conda-forge::azureml-core=1", True),
        ("azureml-train-automl-client", True),
        ("azureml-dataprep[pandas]>=1", True),
        ("mltable", True),
        ("azureml_custom_mine==1", False),
        ("azuremlish", False),
        ("./azureml_helpers-1.0-py3-none-any.whl", False),
        ("azureml_core-1.0-py3-none-any.whl", False),
        (f"wheel:{'0' * 64}/1/azureml_core-1.0-py3-none-any.whl", False),
        ("git+https://example.org/azureml-core", False),
    ],
)
def test_what_the_original_sdk_is(line: str, is_theirs: bool) -> None:
    assert sdk_packages.is_sdk(line) is is_theirs
    assert runner_requirements.is_sdk(line) is is_theirs, "to the runner too"


def test_client_and_runner_know_the_same_names() -> None:
    assert runner_requirements._SDK_NAMES == sdk_packages.NAMES
    assert runner_requirements._SDK_FAMILIES == sdk_packages.FAMILIES


def test_packages_of_ones_own_are_sent_whatever_they_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    wheel = make_wheel(tmp_path, "azureml_helpers")
    spec = environment_spec(environment_with(pip_packages=[str(wheel), "azureml_custom_mine==1"]), "local")
    assert spec.pip[0].endswith("/azureml_helpers-1.0-py3-none-any.whl")
    assert spec.pip[1:] == ("azureml_custom_mine==1",)
    for line in (str(wheel), spec.pip[0], spec.pip[1]):
        assert environment_spec(environment_with(pip_packages=[line]), "local").is_built


def test_what_came_with_the_original_sdk_is_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    listed = ["azureml-mlflow==1.40", "azureml_dataprep[fuse,pandas]", "numpy"]
    environment_spec(environment_with(pip_packages=listed), "local")
    assert capsys.readouterr().err == (
        "Warning: azureml-mlflow==1.40 is not installed, and mlflow does not come with it. "
        "Name mlflow too if the script imports it.\n"
        "Warning: azureml_dataprep[fuse,pandas] is not installed, and pandas does not come with it. "
        "Name pandas too if the script imports it.\n"
    )
    environment_spec(environment_with(pip_packages=[*listed, "mlflow<2"], conda_packages=["pandas"]), "local")
    assert capsys.readouterr().err == ""


def test_packages_of_a_file_that_is_only_named(tmp_path: Path) -> None:
    (tmp_path / "c.yml").write_text("dependencies: [{pip: [numpy]}]\n")
    made = Environment("a")
    made.python.conda_dependencies_file = str(tmp_path / "c.yml")
    assert environment_spec(made, "local").pip == ("numpy",)


def test_a_python_that_was_asked_for_and_conda_packages() -> None:
    environment = environment_with(conda_packages=["scikit-learn", "pip=20.2.4"], python_version="3.9")
    environment.python.conda_dependencies.set_pip_option("--pre")  # type: ignore[union-attr]
    spec = environment_spec(environment, "local")
    assert (spec.python_version, spec.pip_options) == ("3.9", ("--pre",))
    assert spec.conda == ("python=3.9", "scikit-learn", "pip=20.2.4")
    assert spec.channels == ("anaconda", "conda-forge")


@pytest.mark.parametrize(
    ("python", "sent"),
    [("python>=3.8,<3.10", ">=3.8,<3.10"), ("python <3.10", "<3.10"), ("python=3.9", "3.9"), ("python", None)],
)
def test_what_is_asked_of_python_is_sent_whole(python: str, sent: str | None) -> None:
    spec = environment_spec(environment_with(conda_packages=[python], pip_packages=["numpy"]), "local")
    assert (spec.python_version, spec.conda) == (sent, ())
    spec = environment_spec(environment_with(conda_packages=[python, "scipy"]), "local")
    assert (spec.python_version, spec.conda) == (sent, (python, "scipy") if sent else ("scipy",))


def test_tools_are_sent_and_need_no_conda() -> None:
    """The runner installs them where no conda does."""
    spec = environment_spec(environment_with(conda_packages=["pip", "setuptools<60", "azureml-core"]), "local")
    assert (spec.conda, spec.channels, spec.is_built) == (("pip", "setuptools<60", "azureml-core"), (), True)
    assert not environment_spec(environment_with(conda_packages=["pip", "wheel", "azureml-core"]), "local").is_built


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"dependencies": ["python=3.8", "python=3.9"]}, "Python is named twice: python=3.8 and python=3.9."),
        ({"dependencies": ["python=abc"]}, "'python=abc' is not a version of Python."),
        ({"dependencies": ["foo=>1"]}, "'foo=>1' is not the name of a conda package."),
        ({"dependencies": ["a"], "channels": ["./c"]}, "'./c' is a relative path, which the target does not know."),
    ],
)
def test_packages_of_no_file_are_looked_at_too(body: dict[str, Any], problem: str) -> None:
    environment = Environment("e")
    environment.python.conda_dependencies = CondaDependencies(_underlying_structure=body)
    with pytest.raises(UserErrorException) as caught:
        environment_spec(environment, "local")
    assert caught.value.message == problem and caught.value.hint


@pytest.mark.parametrize("pip", [None, [], ["azureml-defaults"], ["azureml-defaults", "azureml-dataset-runtime"]])
def test_nothing_to_install_is_the_interpreter_that_is_there(pip: list[str] | None) -> None:
    assert environment_spec(environment_with(pip_packages=pip), "local").interpreter == sys.executable
    assert environment_spec(environment_with(pip_packages=pip), "gpu-box").interpreter == "python3"


@pytest.mark.parametrize(
    ("path", "target", "interpreter"),
    [
        ("python", "local", sys.executable),
        ("python", "box", "python3"),
        ("/opt/py/bin/python", "local", "/opt/py/bin/python"),
        ("~/py/bin/python", "local", str(Path.home() / "py/bin/python")),
        ("~/py/bin/python", "box", "~/py/bin/python"),
    ],
)
def test_user_managed(path: str, target: str, interpreter: str) -> None:
    environment = environment_with(pip_packages=["numpy"])
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = path
    assert environment_spec(environment, target) == EnvironmentSpec(name="e", interpreter=interpreter)


def test_variables_of_both_places(source: str) -> None:
    config = ScriptRunConfig(source, "train.py", environment=Environment("e"))
    config.run_config.environment.environment_variables = {"A": "1"}
    config.run_config.environment_variables = {"B": 2}  # type: ignore[dict-item]
    spec = run_spec(config)
    assert (spec.environment.variables, spec.environment_variables) == ({"A": "1"}, {"B": "2"})


@pytest.mark.parametrize("name", ["", "1X", "A=B", "LD_PRELOAD", "WINDLASS_URL", "BASH_FUNC_x%%"])
def test_variables_that_cannot_be_set(source: str, name: str) -> None:
    config = ScriptRunConfig(source, "train.py")
    config.run_config.environment_variables = {name: "x"}
    with pytest.raises(InvalidRequest):
        run_spec(config)


@pytest.mark.parametrize("seconds", [0, -1, "60", True])
def test_durations_that_cannot_be(source: str, seconds: Any) -> None:
    with pytest.raises(UserErrorException, match="max_run_duration_seconds"):
        run_spec(ScriptRunConfig(source, "train.py", max_run_duration_seconds=seconds))


def tensorflow(source: str, **said: Any) -> ScriptRunConfig:
    config = ScriptRunConfig(source, "train.py")
    config.run_config.framework = "TensorFlow"
    config.run_config.communicator = "ParameterServer"
    for name, value in said.items():
        setattr(config.run_config.tensorflow, name, value)
    return config


def test_several_nodes_are_asked_for(source: str) -> None:
    config = ScriptRunConfig(source, "train.py", distributed_job_config=MpiConfiguration(1, 4))
    assert run_spec(config).resources.nodes == 4


def test_what_this_version_lacks_is_said(source: str) -> None:
    spark = ScriptRunConfig(source, "train.py", run_config=RunConfiguration(framework="PySpark"))
    data = ScriptRunConfig(source, "train.py")
    data.run_config.data = {"x": {}}
    for config in (spark, data):
        with pytest.raises(NotProvided) as caught:
            run_spec(config)
        assert caught.value.hint
    with pytest.raises(NotProvided, match="Running on Spark") as caught:
        run_spec(spark)
    assert "`Framework: Python`" in caught.value.hint


@pytest.mark.parametrize(
    ("config", "nodes", "distribution"),
    [
        (MpiConfiguration(), None, Distribution("mpi")),
        (MpiConfiguration(2, 4), 4, Distribution("mpi", 2)),
        (PyTorchConfiguration(), None, Distribution("pytorch", backend="nccl")),
        (PyTorchConfiguration("Gloo", 4, 2), 2, Distribution("pytorch", 2, 4, backend="gloo")),
        (PyTorchConfiguration("Gloo", 3, 2), 2, Distribution("pytorch", 2, 3, backend="gloo")),
        (TensorflowConfiguration(), None, Distribution("tensorflow", parameter_servers=1)),
        (TensorflowConfiguration(3, 2), 3, Distribution("tensorflow", workers=3, parameter_servers=2)),
    ],
)
def test_a_distributed_configuration_becomes_processes_and_nodes(
    source: str, config: Any, nodes: int | None, distribution: Distribution
) -> None:
    spec = run_spec(ScriptRunConfig(source, "train.py", distributed_job_config=config))
    assert (spec.resources.nodes, spec.distribution) == (nodes, distribution)


def test_without_one_there_is_no_distribution(source: str) -> None:
    config = ScriptRunConfig(source, "train.py")
    assert run_spec(config).distribution is None
    config.run_config.node_count = 3
    assert run_spec(config).distribution is None and run_spec(config).resources.nodes == 3
    ignored = tensorflow(source, worker_count=4)
    ignored.run_config.communicator = "None"  # then the counts count for nothing
    assert run_spec(ignored).distribution is None


def test_retries_are_part_of_the_specification_and_of_files_only_where_they_are_set(source: str) -> None:
    config = ScriptRunConfig(source, "train.py")
    assert run_spec(config).retries == RetryPolicy()
    assert "retries" not in config.run_config.to_dict() and "retryOn" not in config.run_config.to_dict()
    config.run_config.retries, config.run_config.retry_on = 2, ["node-loss", "exit:75"]
    assert run_spec(config).retries == RetryPolicy(2, ("node-loss", "exit:75"))
    config.run_config.save(source, "again")
    loaded = RunConfiguration.load(source, "again")
    assert (loaded.retries, loaded.retry_on) == (2, ["node-loss", "exit:75"])
    for retries, retry_on in ((True, ["failure"]), ("2", ["failure"]), (1, "failure"), (1, ["often"])):
        config.run_config.retries, config.run_config.retry_on = retries, retry_on  # type: ignore[assignment]
        with pytest.raises((UserErrorException, InvalidRequest)):
            run_spec(config)


def test_sections_of_a_run_configuration_say_the_same(source: str) -> None:
    config = ScriptRunConfig(source, "train.py")
    config.run_config.mpi = MpiConfiguration(2, 3)
    found = run_spec(config)
    assert (found.distribution, found.resources.nodes) == (Distribution("mpi", 2), 3)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (MpiConfiguration(0), "mpi.process_count_per_node is a whole number from 1, not 0"),
        (MpiConfiguration(1, -1), "node_count is a whole number from 1, not -1"),
        (PyTorchConfiguration(process_count=1, node_count=2), "1 of them cannot run on 2 nodes"),
        (TensorflowConfiguration("two"), "node_count is a whole number from 1, not 'two'"),  # type: ignore[arg-type]
    ],
)
def test_counts_that_cannot_be_are_refused(source: str, config: Any, text: str) -> None:
    with pytest.raises(RunConfigurationException) as caught:
        run_spec(ScriptRunConfig(source, "train.py", distributed_job_config=config))
    assert text in caught.value.message


def test_resources_are_asked_for_by_azures_configuration(source: str) -> None:
    asked = ResourceConfiguration(cpu=1.5, memory_in_gb=0.5, gpu=2)
    config = ScriptRunConfig(source, "train.py", resources=asked)
    assert run_spec(config).resources == Resources(None, 1.5, 2, 512)
    assert config.run_config.to_dict()["resources"] == {"cpu": 1.5, "memoryInGb": 0.5, "gpu": 2}
    config.run_config.resources.gpu = 0
    assert run_spec(config).resources.gpus == 0
    assert "resources" not in RunConfiguration().to_dict()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 0, "resources.cpu is a number above 0, not 0"),
        ("memory_in_gb", "8G", "resources.memory_in_gb is a number above 0, not '8G'"),
        ("gpu", 1.5, "resources.gpu is a whole number from 0, not 1.5"),
    ],
)
def test_resources_that_cannot_be_are_refused(source: str, name: str, value: Any, text: str) -> None:
    config = ScriptRunConfig(source, "train.py")
    setattr(config.run_config.resources, name, value)
    with pytest.raises(RunConfigurationException) as caught:
        run_spec(config)
    assert caught.value.message == f"{text}."
    with pytest.raises(UserErrorException, match="resources is a RunResources, not 8"):
        config.run_config.resources = 8
