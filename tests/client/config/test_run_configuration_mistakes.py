"""Invalid values of a run configuration are refused at the assignment, with the valid ones in the error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.client.config.run_configuration import RunConfiguration
from windlass.client.environments.sections import DockerBuildContext
from windlass.client.exceptions import NotProvided, RunConfigurationException, UserErrorException
from windlass.client.submit.script_run_config import ScriptRunConfig


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("environment", "AzureML-Minimal", r"is an Environment, not 'AzureML-Minimal'\.\nEnvironment\.get\("),
        ("docker", True, r"is a DockerConfiguration, not True\.\nDockerConfiguration\(use_docker=True\)"),
        ("history", None, r"is a HistoryConfiguration, not None\.\nHistoryConfiguration\(\)"),
        ("framework", "Pyton", r"no framework 'Pyton'\.\nThere are: Python, PySpark, TensorFlow, PyTorch, CNTK"),
    ],
)
def test_what_cannot_stand_there_is_refused_with_what_can(name: str, value: Any, said: str) -> None:
    with pytest.raises((UserErrorException, RunConfigurationException), match=said):
        setattr(RunConfiguration(), name, value)


def test_an_environment_is_not_named_by_its_name() -> None:
    with pytest.raises(UserErrorException, match=r"Environment\.get\("):
        ScriptRunConfig(".", "train.py", environment="AzureML-Minimal")  # type: ignore[arg-type]


def test_a_file_that_says_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.runconfig").write_text("framework: Pyton\n")
    with pytest.raises(
        RunConfigurationException, match=r"a\.runconfig, line 1: framework: There is no framework 'Pyton'"
    ):
        RunConfiguration.load(str(tmp_path / "a.runconfig"))
    (tmp_path / "b.runconfig").write_text("environment: {r: {cranPackages: [dplyr]}}\n")
    with pytest.raises(NotProvided, match=r"b\.runconfig, line 1: environment\.r: The R section"):
        RunConfiguration.load(str(tmp_path / "b.runconfig"))


def test_a_section_that_says_nothing_has_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "a.runconfig").write_text(
        "history:\ndocker:\nframework:\nenvironment: {docker: {buildContext: }, r: }\n"
    )
    found = RunConfiguration.load(str(tmp_path / "a.runconfig"))
    assert (found.history.output_collection, found.docker.use_docker, found.framework) == (True, False, "Python")


def test_lesser_names_of_the_original() -> None:
    configuration = RunConfiguration()
    configuration.prepare_environment = False
    assert configuration.auto_prepare_environment is configuration.prepare_environment is False
    with pytest.raises(NotProvided, match="Container Instances"):
        configuration.container_instance.region = "eastus"
    context = DockerBuildContext(DockerBuildContext.LocationType.StorageAccount, "https://example.org/context")
    assert context.to_dict()["locationType"] == "storageAccount"
