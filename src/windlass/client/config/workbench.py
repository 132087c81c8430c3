"""Run configurations of the first generation (PascalCase keys), written by Azure ML Workbench."""

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

# Placeholder for the script that is named at submit.
PLACEHOLDER = "$file"
_KEYS = (
    "ArgumentVector", "Target", "EnvironmentVariables", "Framework", "CondaDependenciesFile", "SparkDependenciesFile",
    "PrepareEnvironment", "TrackedRun", "UseSampling", "DataSourceSettings", "DataSourceSubstitutions",
)  # fmt: skip
_WITHOUT_MEANING = ("UseSampling", "DataSourceSettings", "DataSourceSubstitutions")
_TRUTHS = ("PrepareEnvironment", "TrackedRun", "UseSampling")
_SHARE = "AZUREML_NATIVE_SHARE_DIRECTORY"
# Its value in a container: a folder of the container, with the "/" at the end that scripts need. A mounted folder would
# let scripts write outside of their container.
_SHARE_INSIDE = "/tmp/"


def fill(configuration: RunConfiguration, body: dict[str, Any], base: str, source: SourceFile) -> None:
    """Fill a configuration from a file of the first generation. Keys without effect here are kept for save()."""
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
    # Its default in Workbench was PySpark. On targets without Spark that was Python with one more module.
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
    apply_compute_file(configuration, base)
    if configuration.target == workbench_compute_file.LOCAL:  # its Python has the packages, with or without a file
        configuration.environment.python.user_managed_dependencies = True
    _packages(configuration, body, base, source)


def _variables(body: dict[str, Any], source: SourceFile) -> dict[str, str]:
    variables = body.get("EnvironmentVariables") or {}
    if not isinstance(variables, dict):
        place = source.named(body, "EnvironmentVariables", "EnvironmentVariables")
        raise RunConfigurationException(f"{place} must be a map of names and values, not {variables!r:.100}.")
    return {str(name): "" if value is None else str(value) for name, value in variables.items()}


def configuration(target: dict[str, Any]) -> dict[str, Any]:
    """The content of a run configuration file for a target that was just attached."""
    body: dict[str, Any] = {
        "ArgumentVector": [PLACEHOLDER],
        "EnvironmentVariables": None,
        "Framework": "Python",
        "PrepareEnvironment": True,
        "Target": target["name"],
        "TrackedRun": True,
        "UseSampling": True,
    }
    if workbench_compute_file.uses_containers(target):
        body["CondaDependenciesFile"] = f"aml_config/{CONDA_FILE}"
    return dict(sorted(body.items()))


def configuration_for(project: str, name: str) -> RunConfiguration:
    """The run configuration of a target without a file: from its `.compute` file in the project, with the packages of
    the project's conda file.
    """
    from windlass.client.config.run_configuration import RunConfiguration

    made = RunConfiguration(_path=project, _name=name)
    made.target = name
    apply_compute_file(made, project)
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


def apply_compute_file(configuration: RunConfiguration, project: str) -> None:
    """Set container and Python from the target's `.compute` file in the project, if there is one."""
    compute = workbench_compute_file.find(project, configuration.target)
    if compute is not None:
        _apply_compute(configuration, compute)


def _apply_compute(configuration: RunConfiguration, compute: ComputeFile) -> None:
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
    # The Python of this computer, or one that the user manages, has its packages already.
    if compute.is_user_managed or compute.kind == workbench_compute_file.LOCAL:
        python.user_managed_dependencies = True
        if compute.python:
            python.interpreter_path = str(compute.python)
    _set_shared_directory(configuration, compute)


def _set_shared_directory(configuration: RunConfiguration, compute: ComputeFile) -> None:
    """Set the variable for the directory that runs share. In a container it names a folder of that container."""
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
