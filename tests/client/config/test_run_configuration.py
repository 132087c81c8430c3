"""Run configurations and their files, of all generations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.client.config import yaml
from windlass.client.config.run_configuration import RunConfiguration
from windlass.client.config.run_sections import MpiConfiguration, PyTorchConfiguration
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.client.environments.environment import Environment
from windlass.client.exceptions import RunConfigurationException, UserErrorException
from windlass.client.submit.script_run_config import ScriptRunConfig

TOP_KEYS = [
    "script", "arguments", "target", "framework", "communicator", "maxRunDurationSeconds", "nodeCount", "priority",
    "environment", "history", "spark", "docker", "hdi", "tensorflow", "mpi", "pytorch", "paralleltask",
    "dataReferences", "data", "datacaches", "outputData", "sourceDirectoryDataStore", "amlcompute",
    "kubernetescompute", "credentialPassthrough", "command", "environmentVariables", "applicationEndpoints",
]  # fmt: skip

# As the command line of 2019 wrote it, with keys that later versions dropped.
OLD_FILE = """\
# The script to run.
script: train.py
# The arguments to the script file.
arguments: [--data, 'a b', --rate, 0.5]
# The name of the compute target to use for this run.
target: local
# Framework to execute inside. Allowed values are "Python" ,  "PySpark", "CNTK",  "TensorFlow", and "PyTorch".
framework: Python
communicator: None
autoPrepareEnvironment: true
maxRunDurationSeconds:
nodeCount: 1
environment:
  name: mnist
  version:
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
  python:
    # user_managed_dependencies=True indicates that the environment will be user managed.
    userManagedDependencies: false
    interpreterPath: python
    condaDependenciesFile: .azureml/conda_dependencies.yml
    baseCondaEnvironment:
  docker:
    enabled: true
    baseImage: mcr.example.org/base:ubuntu16.04
    sharedVolumes: true
    shmSize: 1g
    arguments: []
    baseImageRegistry:
      address:
      username:
      password:
  spark:
    repositories: [https://mmlspark.example.org/maven]
    packages:
    - group: com.microsoft.ml.spark
      artifact: mmlspark_2.11
      version: '0.12'
    precachePackages: true
history:
  outputCollection: true
  snapshotProject: true
  directoriesToWatch:
  - logs
spark:
  configuration:
    spark.app.name: Azure ML Experiment
    spark.yarn.maxAppAttempts: 1
hdi:
  yarnDeployMode: cluster
tensorflow:
  workerCount: 2
  parameterServerCount: 1
mpi:
  processCountPerNode: 1
dataReferences:
  blob:
    dataStoreName: workspaceblobstore
    pathOnDataStore: mnist
    mode: Mount
    overwrite: false
    pathOnCompute:
batchai: {nodeCount: 1}
containerInstance: {region: , cpuCores: 2.0, memoryGb: 3.5}
amlcompute:
  vmSize: STANDARD_D2_V2
  vmPriority:
  retainCluster: false
  name:
  clusterMaxNodeCount: 1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".azureml").mkdir()
    (tmp_path / ".azureml" / "conda_dependencies.yml").write_text(
        "name: x\ndependencies:\n- python=3.6.2\n- pip:\n  - tensorflow==1.13\n"
    )
    (tmp_path / ".azureml" / "mnist.runconfig").write_text(OLD_FILE)
    return tmp_path


def test_a_file_of_2019_is_read(project: Path) -> None:
    found = RunConfiguration.load(str(project), "mnist")
    assert (found.script, found.arguments) == ("train.py", ["--data", "a b", "--rate", 0.5])
    assert found.environment.name == "mnist"
    assert found.environment.environment_variables == {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}
    assert found.environment.docker.base_image == "mcr.example.org/base:ubuntu16.04"
    assert found.environment.docker.shm_size == "1g"
    assert [package.artifact for package in found.environment.spark.packages] == ["mmlspark_2.11"]
    assert found.environment.spark.packages[0].version == "0.12"
    assert found.tensorflow.worker_count == 2
    assert found.data_references["blob"].data_store_name == "workspaceblobstore"
    assert found.amlcompute.vm_size == "STANDARD_D2_V2"
    assert found.environment.python.conda_dependencies is not None
    assert list(found.environment.python.conda_dependencies.pip_packages) == ["tensorflow==1.13"]


def test_the_file_itself_can_be_named(project: Path) -> None:
    direct = RunConfiguration.load(str(project / ".azureml" / "mnist.runconfig"))
    assert direct.to_dict() == RunConfiguration.load(str(project), "mnist.runconfig").to_dict()


def test_there_and_back(project: Path, tmp_path: Path) -> None:
    found = RunConfiguration.load(str(project), "mnist")
    found.save(str(project), "again")
    assert (project / ".azureml" / "again").is_file()
    body = yaml.load(str(project / ".azureml" / "again"))
    assert list(body) == [*TOP_KEYS, "batchai", "containerInstance"], "keys without meaning here are kept"
    assert list(body["environment"])[:5] == ["name", "version", "environmentVariables", "python", "docker"]
    assert body["environment"]["python"]["condaDependenciesFile"] == ".azureml/conda_dependencies.yml"
    assert RunConfiguration.load(str(project), "again").to_dict() == found.to_dict()


def test_the_defaults_are_written_in_azures_order(tmp_path: Path) -> None:
    configuration = RunConfiguration(conda_dependencies=CondaDependencies.create(pip_packages=["numpy"]))
    configuration.save(str(tmp_path), "new")
    assert (tmp_path / ".azureml" / "conda_dependencies.yml").is_file()
    body = yaml.load(str(tmp_path / ".azureml" / "new"))
    assert list(body) == TOP_KEYS
    assert body["history"] == {"outputCollection": True, "snapshotProject": True, "directoriesToWatch": ["logs"]}
    assert body["docker"] == {"useDocker": False, "sharedVolumes": True, "arguments": [], "shmSize": "2g"}
    read = RunConfiguration.load(str(tmp_path), "new").environment.python.conda_dependencies
    assert read is not None
    assert list(read.pip_packages) == ["numpy"]


def test_an_environment_in_a_file_of_its_own(tmp_path: Path) -> None:
    configuration = RunConfiguration()
    configuration.environment.environment_variables = {"A": "b"}
    configuration.save(str(tmp_path), "apart", separate_environment_yaml=True)
    assert yaml.load(str(tmp_path / ".azureml" / "apart"))["environment"] == ".azureml/environment.yml"
    assert RunConfiguration.load(str(tmp_path), "apart").environment.environment_variables == {"A": "b"}


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    RunConfiguration(script="x.py").save(str(tmp_path / "my.runconfig"))
    assert RunConfiguration.load(str(tmp_path / "my")).script == "x.py"


@pytest.mark.parametrize(("path", "name"), [(".", "mnist"), ("aml_config/mnist.runconfig", None), (None, "mnist")])
def test_what_was_read_is_written_back_to_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None, name: str | None
) -> None:
    """Another file of that name would shadow it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "aml_config"
    folder.mkdir()
    (folder / "Conda_dependencies.yml").write_text("dependencies: [python=3.11]\n")
    (folder / "mnist.runconfig").write_text(
        "target: docker\nscript: train.py\n"
        "environment: {python: {condaDependenciesFile: aml_config/conda_dependencies.yml}}\n"
    )
    found = RunConfiguration.load(path, name)
    found.priority = 7
    assert found.environment.python.conda_dependencies is not None
    found.environment.python.conda_dependencies.add_pip_package("numpy")
    found.save()
    assert sorted(file.name for file in folder.iterdir()) == ["Conda_dependencies.yml", "mnist.runconfig"]
    again = RunConfiguration.load(str(tmp_path), "mnist")
    assert again.priority == 7 and again.environment.python.conda_dependencies is not None
    assert list(again.environment.python.conda_dependencies.pip_packages) == ["numpy"]
    found.save(str(tmp_path), "other")
    assert (folder / "other").is_file()


def test_packages_that_are_not_its_own_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "aml_config"
    folder.mkdir()
    (folder / "conda_dependencies.yml").write_text("dependencies: [python=3.11]\n")
    (folder / "local.runconfig").write_text("Target: local\nCondaDependenciesFile: aml_config/conda_dependencies.yml\n")
    RunConfiguration.load(str(tmp_path), "local").save()
    assert (folder / "conda_dependencies.yml").read_text() == "dependencies: [python=3.11]\n"
    again = RunConfiguration.load(str(tmp_path), "local")
    assert (again.target, again.environment.python.user_managed_dependencies) == ("local", True)


def test_the_older_folder_is_used_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "aml_config").mkdir()
    RunConfiguration().save(str(tmp_path), "old")
    assert (tmp_path / "aml_config" / "old").is_file()
    RunConfiguration.delete(str(tmp_path), "old")
    with pytest.raises(UserErrorException, match="Run config old not found"):
        RunConfiguration.delete(str(tmp_path), "old")


def test_workbench_files(tmp_path: Path) -> None:
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "spark_dependencies.yml").write_text(
        "configuration: {spark.app.name: mine}\nrepositories: [r]\npackages:\n- {group: g, artifact: a, version: '1'}\n"
    )
    (tmp_path / "aml_config" / "conda.yml").write_text("dependencies: [python=3.5.2]\n")
    (tmp_path / "aml_config" / "docker.runconfig").write_text(
        'ArgumentVector:\n- "$file"\nCondaDependenciesFile: aml_config/conda.yml\nEnvironmentVariables: null\n'
        "Framework: PySpark\nPrepareEnvironment: true\nSparkDependenciesFile: aml_config/spark_dependencies.yml\n"
        "Target: docker\nTrackedRun: true\nUseSampling: true\nDataSourceSettings: {my.dsource: {}}\n"
    )
    found = RunConfiguration.load(str(tmp_path), "docker")
    assert (found.script, found.arguments, found.target, found.framework) == (None, [], "docker", "PySpark")
    assert found.spark.configuration == {"spark.app.name": "mine"}
    assert found.environment.spark.packages[0].group == "g"
    assert found.environment.python.conda_dependencies is not None
    assert found.environment.python.conda_dependencies.get_python_version() == "3.5.2"


def test_files_that_a_configuration_names_are_found_from_its_own_path_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are named from the project on, in both generations."""
    folder = tmp_path / "aml_config"
    folder.mkdir()
    (folder / "Conda_Dependencies.yml").write_text("dependencies: [python=3.5.2]\n")
    (folder / "spark.yml").write_text("configuration: {spark.app.name: mine}\n")
    (folder / "environment.yml").write_text("name: apart\n")
    (folder / "old.runconfig").write_text(
        "ArgumentVector: [$file]\nTarget: docker\nFramework: PySpark\nSparkDependenciesFile: aml_config/spark.yml\n"
        "CondaDependenciesFile: aml_config/conda_dependencies.yml\n"
    )
    (folder / "new.runconfig").write_text("target: docker\nscript: x.py\nenvironment: aml_config/environment.yml\n")
    for place, name in [(tmp_path, "aml_config/old"), (folder, "old.runconfig")]:
        monkeypatch.chdir(place)
        old = RunConfiguration.load(name)
        assert old.environment.python.conda_dependencies is not None
        assert old.environment.python.conda_dependencies.get_python_version() == "3.5.2"
        assert old.spark.configuration == {"spark.app.name": "mine"}
    assert RunConfiguration.load("new.runconfig").environment.name == "apart"


def test_a_workbench_file_without_a_framework_runs_python(tmp_path: Path) -> None:
    """As the samples of then have them, in JSON."""
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "local.runconfig").write_text(
        '{"ArgumentVector": [\n    "$file"\n  ],\n  "CondaFile": null,\n  "ManagedEnvironment": false,\n'
        '  "EnvironmentVariables": {"N": null, "M": 1},\n  "TrackedRun": true,\n  "Target": "local",\n'
        '  "PrepareEnvironment": false\n}\n'
    )
    found = RunConfiguration.load(str(tmp_path), "local")
    assert (found.framework, found.target) == ("Python", "local")
    assert found.environment_variables == {"N": "", "M": "1"}


def test_local_has_its_packages_already(tmp_path: Path) -> None:
    """In a file of Workbench. Those that came later say it themselves."""
    folder = tmp_path / "aml_config"
    folder.mkdir()
    (folder / "conda_dependencies.yml").write_text("dependencies: [python=3.5.2]\n")
    (folder / "local.runconfig").write_text(
        "Target: local\nFramework: Python\nCondaDependenciesFile: aml_config/conda_dependencies.yml\n"
    )
    assert RunConfiguration.load(str(tmp_path), "local").environment.python.user_managed_dependencies
    (folder / "later.runconfig").write_text(
        "target: local\nenvironment: {python: {condaDependenciesFile: aml_config/conda_dependencies.yml}}\n"
    )
    later = RunConfiguration.load(str(tmp_path), "later").environment.python
    assert later.conda_dependencies is not None
    assert (later.user_managed_dependencies, later.conda_dependencies.get_python_version()) == (False, "3.5.2")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "is not a run configuration"),
        ("script: x\nenvironment: [1]\n", "must be a map of settings"),
        ("script: &a x\n", "anchors and aliases are not supported"),
        ("script: x\nscript: y\n", "line 2: the key 'script' occurs twice"),
        ("ArgumentVector: x\nTarget: local\n", "ArgumentVector must be a list"),
        ("ArgumentVector: []\nEnvironmentVariables: foo\n", "EnvironmentVariables must be a map"),
        (
            "ArgumentVector: []\nFramework: PySpark\nSparkDependenciesFile: s.yml\n",
            "line 3: there is no Spark dependencies file .*s.yml",
        ),
    ],
)
def test_broken_files_are_named_in_a_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "bad.runconfig").write_text(text)
    with pytest.raises((UserErrorException, RunConfigurationException), match=problem):
        RunConfiguration.load(str(tmp_path / "bad.runconfig"))


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        ("target: local\nenviroment:\n  name: x\n", "enviroment", "environment"),
        ("target: local\nenvironment:\n  python:\n    interpreterPaht: x\n", "interpreterPaht", "interpreterPath"),
        ("target: local\nnodecount: 2\n", "nodecount", "nodeCount"),
        ("Target: local\nFramwork: PySpark\n", "Framwork", "Framework"),
    ],
)
def test_a_misspelt_setting_is_told(
    tmp_path: Path, text: str, wrong: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.runconfig").write_text(text)
    RunConfiguration.load(str(tmp_path / "mine.runconfig"))
    said = capsys.readouterr().err
    assert "mine.runconfig" in said and f"there is no setting {wrong!r}; did you mean {meant!r}?" in said
    assert said.count("\n") == 1


def test_settings_of_other_versions_are_nobodys_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = "autoPrepareEnvironment: true\nbatchai: {}\ncontainerInstance: {region: x}\nnewInTwentyThirty: 1\n"
    (tmp_path / "mine.runconfig").write_text(f"target: local\n{known}")
    RunConfiguration.load(str(tmp_path / "mine.runconfig"))
    assert capsys.readouterr().err == ""


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="Failed to load RunConfiguration"):
        RunConfiguration.load(str(tmp_path), "nothing")


class Named:
    name = "gpu"


@pytest.mark.parametrize(("target", "name"), [("local", "local"), (Named(), "gpu")])
def test_a_target_is_a_name_or_has_one(target: Any, name: str) -> None:
    configuration = RunConfiguration()
    configuration.target = target
    assert configuration.target == name


def test_what_has_no_effect_is_kept_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    configuration = RunConfiguration()
    configuration.fill({"history": {"snapshotProject": True}, "applicationEndpoints": {}})
    assert capsys.readouterr().err == ""
    configuration.history.snapshot_project = False
    assert "snapshot_project stays on" in capsys.readouterr().err
    configuration.services = {"lab": {"type": "JupyterLab"}}
    assert "services of a run are not started" in capsys.readouterr().err
    assert configuration.to_dict()["applicationEndpoints"] == {"lab": {"type": "JupyterLab"}}
    again = RunConfiguration.from_dict(configuration.to_dict())
    assert again.services == again.application_endpoints == configuration.services


def test_other_targets_are_refused() -> None:
    with pytest.raises(RunConfigurationException):
        RunConfiguration().target = 5


def test_a_script_run_config_around_a_configuration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ScriptRunConfig(str(project), run_config="mnist", arguments=["--x", 1], environment=Environment("other"))
    assert (config.script, config.arguments) == ("train.py", ["--x", 1])
    assert config.run_config.environment.name == "mnist"
    assert "will be ignored" in capsys.readouterr().err


def test_distributed_configurations() -> None:
    mpi = ScriptRunConfig(".", "x.py", distributed_job_config=MpiConfiguration(1, 3)).run_config
    assert (mpi.node_count, mpi.framework, mpi.communicator) == (3, "Python", "IntelMpi")
    torch = ScriptRunConfig(".", "x.py", distributed_job_config=PyTorchConfiguration("Gloo", 4, 2)).run_config
    assert (torch.node_count, torch.framework, torch.communicator) == (2, "PyTorch", "gloo")
    with pytest.raises(RunConfigurationException, match="must be 'Nccl' or 'Gloo'"):
        PyTorchConfiguration("MPI")
    with pytest.raises(RunConfigurationException, match="'distributed_job_config' must be an"):
        ScriptRunConfig(".", "x.py", distributed_job_config="mpi")


def test_the_environment_can_be_set_later() -> None:
    config = ScriptRunConfig(".", "x.py")
    config.run_config.environment = Environment("mine")
    assert config.run_config.to_dict()["environment"]["name"] == "mine"
