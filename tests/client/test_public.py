"""What `import windlass` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import windlass
from windlass.client.absent import HINTS


def test_the_public_names_are_these() -> None:
    assert windlass.__all__ == [
        "ActivityFailedException",
        "ComputeTarget",
        "ComputeTargetException",
        "CondaDependencies",
        "ContainerRegistry",
        "DEFAULT_CPU_IMAGE",
        "DEFAULT_GPU_IMAGE",
        "DockerBuildContext",
        "DockerConfiguration",
        "DockerSection",
        "DsvmCompute",
        "Environment",
        "Experiment",
        "ExperimentExecutionException",
        "Keyvault",
        "Model",
        "ModelNotFoundException",
        "MpiConfiguration",
        "PyTorchConfiguration",
        "PythonSection",
        "RemoteCompute",
        "Run",
        "RunConfiguration",
        "RunEnvironmentException",
        "ScriptRun",
        "ScriptRunConfig",
        "SnapshotException",
        "TensorflowConfiguration",
        "UserErrorException",
        "VERSION",
        "WebserviceException",
        "WindlassError",
        "Workspace",
        "_OfflineRun",
        "__version__",
    ]


@pytest.mark.parametrize("name", windlass.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(windlass, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Wurkspace'"):
        windlass.Wurkspace  # noqa: B018


@pytest.mark.parametrize("name", ["AmlCompute", "KubernetesCompute", "Dataset", "Webservice", "EnvironmentDefinition"])
def test_a_name_of_azures_sdk_that_is_not_there_yet_says_what_to_do(name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{name} is not provided in this version\. [\w`]"):
        exec(f"from windlass import {name}")
    with pytest.raises(AttributeError, match=f"{name} is not provided in this version"):
        getattr(windlass, name)
    assert not hasattr(windlass, name)


@pytest.mark.parametrize("line", ["import windlass.widgets", "from windlass.widgets import RunDetails"])
def test_widgets_lead_to_what_shows_a_run(line: str) -> None:
    with pytest.raises(ImportError, match=r"^windlass.widgets is not provided .* run.wait_for_completion"):
        exec(line)


def test_what_is_provided_is_not_called_absent() -> None:
    assert not set(HINTS) & set(windlass.__all__)


def loaded_by(program: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}; print(*sys.modules)"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded = loaded_by("import windlass")
    assert not loaded & {"typing", "json", "re", "socket", "subprocess", "dataclasses", "http", "windlass.client"}


# What a script that submits imports. A module more is paid for by each of them: import it where it is used.
SUBMITS = "import windlass; windlass.Workspace, windlass.Experiment, windlass.ScriptRunConfig, windlass.Environment"
OF_THE_CLIENT = """
    conda_dependencies conda_file conda_lines connection embedded environment environment_sections exceptions experiment
    http metric_log metric_values requirements run run_files run_labels run_life run_record runconfig runconfig_files
    runconfig_sections script_run_config section workspace workspace_config config config.file_location config.yaml
"""
OF_CORE = {"windlass.core", "windlass.core.errors", "windlass.core.names"}
HEAVY = {
    *("asyncio", "dataclasses", "difflib", "email", "hashlib", "html", "http.client", "inspect", "logging", "shlex"),
    *("ssl", "subprocess", "tempfile", "zipfile"),
}


def test_a_script_that_submits_loads_these_modules_and_no_others() -> None:
    loaded = loaded_by(f"{SUBMITS}, windlass.Run")
    expected = {f"windlass.client.{name}" for name in OF_THE_CLIENT.split()} | OF_CORE
    ours = {name for name in loaded if name.startswith("windlass.")}
    assert ours <= expected | {"windlass._version", "windlass.client"}
    assert not loaded & HEAVY


def test_a_script_that_logs_loads_no_network() -> None:
    loaded = loaded_by("from windlass import Run; Run.get_context(); import windlass.client.context")
    assert "windlass.client.run" in loaded
    assert not loaded & {"socket", "ssl", "http.client", "subprocess", "dataclasses", "logging", "urllib.parse"}


def test_the_way_to_the_server_loads_no_tls_and_no_mail_parser() -> None:
    assert not loaded_by("import windlass.client.workspace") & {"ssl", "http.client", "email", "subprocess"}
