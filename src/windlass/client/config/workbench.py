"""Run configurations of the first generation (PascalCase keys), as Azure ML Workbench wrote them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.client.config import spark_dependencies, workbench_compute_file
from windlass.client.config.run_configuration_file import FOLDERS
from windlass.client.config.section import warn_of_misspelt
from windlass.client.environments.conda_dependencies import CONDA_FILE, CondaDependencies, find_conda_file
from windlass.client.exceptions import NotProvided, RunConfigurationException, UserErrorException

if TYPE_CHECKING:
    from windlass.client.config.file_location import SourceFile
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.config.workbench_compute_file import ComputeFile

# Stands for the script that is named when the run is submitted.
PLACEHOLDER = "$file"
_KEYS = (
    "ArgumentVector", "Target", "EnvironmentVariables", "Framework", "CondaDependenciesFile", "SparkDependenciesFile",
    "PrepareEnvironment", "TrackedRun", "UseSampling", "DataSourceSettings", "DataSourceSubstitutions",
)  # fmt: skip
_WITHOUT_MEANING = ("UseSampling", "DataSourceSettings", "DataSourceSubstitutions")
_TRUTHS = ("PrepareEnvironment", "TrackedRun", "UseSampling")
_SHARE = "AZUREML_NATIVE_SHARE_DIRECTORY"
# What that is in a container: a folder of its own, with the "/" that scripts count upon. Mounting another one would let
# them out of it.
_SHARE_INSIDE = "/tmp/"


def fill(configuration: RunConfiguration, body: dict[str, Any], base: str, source: SourceFile) -> None:
    """Take over what a file of the first generation says. Keys without meaning here are kept for save()."""
    unknown = {key: value for key, value in body.items() if key not in _KEYS}
    warn_of_misspelt(body, unknown, _KEYS, "", source)
    configuration._unknown = {**unknown, **{key: body[key] for key in _WITHOUT_MEANING if key in body}}
    words = body.get("ArgumentVector") or []
    if not isinstance(words, list):
        place = source.named(body, "ArgumentVector", "ArgumentVector")
        raise RunConfigurationException(f"{place} must be a list: the script and its arguments.")
    words = [str(word) for word in words]
    configuration.script = words[0] if words and words[0] != PLACEHOLDER else None
    configuration.arguments = words[1:]
    if body.get("Target"):
        configuration.target = str(body["Target"])
    # Left out, it meant PySpark then. No target here is of Spark, and elsewhere that was Python with a module more.
    try:
        configuration.framework = str(body.get("Framework") or "Python")
    except RunConfigurationException as e:
        e.message = f"{source.where(body, 'Framework')}: {e.message}"
        raise
    configuration.environment_variables = _variables(body, source)
    for key in _TRUTHS:
        if body.get(key) not in (None, True, False):
            raise RunConfigurationException(f"{source.named(body, key, key)} is true or false, not {body[key]!r:.100}.")
    configuration.history.output_collection = body.get("TrackedRun") is not False
    configuration.auto_prepare_environment = body.get("PrepareEnvironment") is not False
    live_as_the_target_says(configuration, base)
    if configuration.target == workbench_compute_file.LOCAL:  # has its packages already, whether or not it has a file
        configuration.environment.python.user_managed_dependencies = True
    _packages(configuration, body, base, source)


def _variables(body: dict[str, Any], source: SourceFile) -> dict[str, str]:
    said = body.get("EnvironmentVariables") or {}
    if not isinstance(said, dict):
        place = source.named(body, "EnvironmentVariables", "EnvironmentVariables")
        raise RunConfigurationException(f"{place} must be a map of names and values, not {said!r:.100}.")
    return {str(name): "" if value is None else str(value) for name, value in said.items()}


def configuration(target: dict[str, Any]) -> dict[str, Any]:
    """The file for a target that was just attached."""
    body: dict[str, Any] = {
        "ArgumentVector": [PLACEHOLDER],
        "EnvironmentVariables": None,
        "Framework": "Python",
        "PrepareEnvironment": True,
        "Target": target["name"],
        "TrackedRun": True,
        "UseSampling": True,
    }
    if workbench_compute_file.is_contained(target):
        body["CondaDependenciesFile"] = f"aml_config/{CONDA_FILE}"
    return dict(sorted(body.items()))


def configuration_for(project: str, name: str) -> RunConfiguration:
    """For a target without a run configuration: as its `.compute` file in the project says, with the packages that the
    project's configuration names.
    """
    from windlass.client.config.run_configuration import RunConfiguration

    made = RunConfiguration(_path=project, _name=name)
    made.target = name
    live_as_the_target_says(made, project)
    packages = _conda_file(project)
    if (
        packages
        and made.target != workbench_compute_file.LOCAL
        and not made.environment.python.user_managed_dependencies
    ):
        made.environment.python.conda_dependencies = CondaDependencies(packages)
    return made


def _conda_file(project: str) -> str | None:
    places = [find_conda_file(os.path.join(project, folder, CONDA_FILE)) for folder in FOLDERS]
    return next((place for place in places if os.path.isfile(place)), None)


def live_as_the_target_says(configuration: RunConfiguration, project: str) -> None:
    """How runs live on the target, as its `.compute` file in the project says, if there is one."""
    compute = workbench_compute_file.find(project, configuration.target)
    if compute is not None:
        _live_there(configuration, compute)


def _live_there(configuration: RunConfiguration, compute: ComputeFile) -> None:
    if compute.kind == workbench_compute_file.CLUSTER:
        raise NotProvided(f"The HDInsight cluster {compute.name}", "Attach a machine: windlass compute attach ssh")
    if compute.kind == workbench_compute_file.BATCH_AI:
        raise NotProvided(f"The Batch AI cluster {compute.name}", "Attach a machine: windlass compute attach ssh")
    if compute.kind in (workbench_compute_file.LOCAL, workbench_compute_file.DOCKER):
        configuration.target = compute.kind
    python = configuration.environment.python
    if compute.is_container:
        configuration.docker.use_docker = configuration.environment.docker.enabled = True
        configuration.docker.shared_volumes = compute.shared_volumes
        configuration.environment.docker.gpu_support = compute.has_gpus
        if compute.base_image:
            configuration.environment.docker.base_image = str(compute.base_image)
    # What runs on this computer, or where people manage the Python themselves, has its packages already.
    if compute.is_user_managed or compute.kind == workbench_compute_file.LOCAL:
        python.user_managed_dependencies = True
        if compute.python:
            python.interpreter_path = str(compute.python)
    _share(configuration, compute)


def _share(configuration: RunConfiguration, compute: ComputeFile) -> None:
    """The directory that runs share. Scripts in containers find one, too, which is their own."""
    directory = compute.shared_directory
    if compute.is_container and (directory or compute.shared_volumes):
        configuration.environment_variables.setdefault(_SHARE, _SHARE_INSIDE)
    elif directory:
        configuration.environment_variables.setdefault(_SHARE, str(directory))
    if compute.is_container and directory:
        print(
            f"Warning: the nativeSharedDirectory of a target is not shared with containers. In them {_SHARE} is "
            f"{_SHARE_INSIDE}, which ends with the run; what is to stay belongs into ./outputs.",
            file=sys.stderr,
        )


def _packages(configuration: RunConfiguration, body: dict[str, Any], base: str, source: SourceFile) -> None:
    conda_file = body.get("CondaDependenciesFile")
    if conda_file and not configuration.environment.python.user_managed_dependencies:
        configuration.environment.python.conda_dependencies_file = str(conda_file)
        configuration.environment.python.conda_dependencies = CondaDependencies(
            _named_file("CondaDependenciesFile", "conda", body, base, source)
        )
    spark_file = body.get("SparkDependenciesFile")
    if spark_file and configuration.framework.lower() == "pyspark":
        path = _named_file("SparkDependenciesFile", "Spark dependencies", body, base, source)
        spark_dependencies.load(path).apply(configuration)


def _named_file(key: str, what: str, body: dict[str, Any], base: str, source: SourceFile) -> str:
    from windlass.client.config.run_configuration import named_file

    path = named_file(base, str(body[key]))
    if not os.path.isfile(path):
        raise UserErrorException(f"{source.where(body, key)}: there is no {what} file {os.path.abspath(path)}.")
    return path
