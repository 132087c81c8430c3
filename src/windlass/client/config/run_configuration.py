"""Run configuration: script, arguments, environment and target. Reusable, and saved in .runconfig files."""

from __future__ import annotations

import os
import sys
from typing import Any

from windlass.client.config import yaml
from windlass.client.config.file_location import SourceFile
from windlass.client.config.run_configuration_file import EXTENSION, FOLDERS, choose_file_name
from windlass.client.config.run_sections import (
    AmlComputeConfiguration,
    DataReferenceConfiguration,
    DockerConfiguration,
    HdiConfiguration,
    HistoryConfiguration,
    KubernetesComputeConfiguration,
    MpiConfiguration,
    ParallelTaskConfiguration,
    PyTorchConfiguration,
    RunResources,
    SparkConfiguration,
    TensorflowConfiguration,
)
from windlass.client.config.section import Field, Section
from windlass.client.environments.conda_dependencies import CondaDependencies, find_conda_file
from windlass.client.environments.environment import DEFAULT_NAME, Environment
from windlass.client.exceptions import RunConfigurationException, UserErrorException
from windlass.client.unsupported import not_provided

_CONDA_FILE = "conda_dependencies.yml"
# Azure's frameworks. All but PySpark run the script as Python does; what it can import depends on its packages only.
_FRAMEWORKS = ("Python", "PySpark", "TensorFlow", "PyTorch", "CNTK")


class RunConfiguration(Section):
    """Script, arguments, environment and target of a run.

    >>> configuration = RunConfiguration()
    >>> configuration.target = "local"
    """

    FIELDS = (
        Field("script"),
        Field("arguments"),
        Field("target"),
        Field("framework"),
        Field("communicator"),
        Field("max_run_duration_seconds"),
        Field("node_count"),
        Field("priority"),
        Field("environment", Environment),
        Field("history", HistoryConfiguration),
        Field("spark", SparkConfiguration),
        Field("docker", DockerConfiguration),
        Field("hdi", HdiConfiguration),
        Field("tensorflow", TensorflowConfiguration),
        Field("mpi", MpiConfiguration),
        Field("pytorch", PyTorchConfiguration),
        Field("paralleltask", ParallelTaskConfiguration),
        Field("data_references", DataReferenceConfiguration, "map"),
        Field("data"),
        Field("datacaches"),
        Field("output_data"),
        Field("source_directory_data_store"),
        Field("amlcompute", AmlComputeConfiguration),
        Field("kubernetescompute", KubernetesComputeConfiguration),
        Field("credential_passthrough"),
        Field("command"),
        Field("environment_variables"),
        Field("application_endpoints"),
        Field("secrets"),
        Field("retries"),
        Field("retry_on"),
        Field("resources", RunResources),
    )

    READ_ELSEWHERE = ("autoPrepareEnvironment", "prepareEnvironment")
    OTHER_KINDS = {"arguments": (str,)}

    def __init__(
        self,
        script: str | None = None,
        arguments: list[Any] | str | None = None,
        framework: str | None = None,
        communicator: str | None = None,
        conda_dependencies: CondaDependencies | None = None,
        _history_enabled: bool | None = None,
        _path: str | None = None,
        _name: str | None = None,
        command: Any = None,
    ) -> None:
        self.script = script
        self.arguments: list[Any] | str = arguments or []
        self._target = "local"
        self._target_is_named = False  # `_target` is the default
        self.framework = framework
        self.communicator = communicator or "None"
        self.max_run_duration_seconds: int | None = None
        self.node_count = 1
        self.priority: int | None = None
        self.environment = Environment(DEFAULT_NAME)
        self.history = HistoryConfiguration()
        self.spark = SparkConfiguration()
        self.docker = DockerConfiguration()
        self.hdi = HdiConfiguration()
        self.tensorflow = TensorflowConfiguration()
        self.mpi = MpiConfiguration()
        self.pytorch = PyTorchConfiguration()
        self.paralleltask = ParallelTaskConfiguration()
        self.data_references: dict[str, DataReferenceConfiguration] = {}
        self.data: dict[str, Any] = {}
        self.datacaches: list[Any] = []
        self.output_data: dict[str, Any] = {}
        self.source_directory_data_store: str | None = None
        self.amlcompute = AmlComputeConfiguration()
        self.kubernetescompute = KubernetesComputeConfiguration()
        self.credential_passthrough = False
        self.command: Any = command or ""
        self.environment_variables: dict[str, str] = {}
        self._services: dict[str, Any] = {}
        self.secrets: list[str] = []  # ours: names in the workspace's key store, beside the secrets that all runs get
        # Ours: how often a run is queued again, and after which ends: "node-loss", "failure", "exit:75".
        self.retries = 0
        self.retry_on: list[str] = ["node-loss"]
        # Ours: CPUs, memory and GPUs that a run needs, on each of its nodes.
        self._resources = RunResources()
        # Whether a run builds its environment. If not, a run whose environment is not built is refused.
        self.auto_prepare_environment = True
        if _history_enabled is not None:
            self.history.output_collection = _history_enabled
        if conda_dependencies is not None:
            self.environment.python.conda_dependencies = conda_dependencies
        self._path = _path
        self._name = _name
        self._file: str | None = None  # the file that it was read from
        self._ready = True

    @property
    def target(self) -> str:
        return self._target

    @target.setter
    def target(self, target: Any) -> None:
        """A target or its name."""
        name = target if isinstance(target, str) else getattr(target, "name", None)
        if not isinstance(name, str) or not name:
            raise RunConfigurationException(f"A target is named by a text or a compute target, not by {target!r}.")
        self._target, self._target_is_named = name, True

    @property
    def framework(self) -> str:
        return self._framework

    @framework.setter
    def framework(self, framework: str | None) -> None:
        """One of Azure's frameworks, in upper or lower case; None is Python."""
        if framework is not None and str(framework).lower() not in map(str.lower, _FRAMEWORKS):
            raise RunConfigurationException(
                f"There is no framework {framework!r:.100}.", f"There are: {', '.join(_FRAMEWORKS)}."
            )
        self._framework = framework or _FRAMEWORKS[0]

    @property
    def resources(self) -> RunResources:
        """CPUs, memory and GPUs that a run needs, on each of its nodes."""
        return self._resources

    @resources.setter
    def resources(self, resources: Any) -> None:
        """RunResources, or Azure's ResourceConfiguration."""
        from windlass.client.submit.resource_configuration import ResourceConfiguration

        if isinstance(resources, ResourceConfiguration):
            resources = RunResources(resources.cpu, resources.memory_in_gb, resources.gpu)
        self._resources = resources

    @property
    def services(self) -> dict[str, Any]:
        """Services to start beside the script, such as JupyterLab. They are stored with the run, and not started."""
        return self._services

    @services.setter
    def services(self, services: dict[str, Any]) -> None:
        if services:
            print("Warning: services of a run are not started in this version.", file=sys.stderr)
        self._services = services

    application_endpoints = services  # the name in files

    @property
    def prepare_environment(self) -> bool:
        """The old name of `auto_prepare_environment`."""
        return self.auto_prepare_environment

    @prepare_environment.setter
    def prepare_environment(self, is_wanted: bool) -> None:
        self.auto_prepare_environment = is_wanted

    @property
    @not_provided(
        "Running on Azure Container Instances", "The target `docker` runs scripts in containers on this machine."
    )
    def container_instance(self) -> Any: ...

    def to_dict(self) -> dict[str, Any]:
        """Azure's keys, in Azure's order; Windlass' own keys only where they are set."""
        body = super().to_dict()
        if not self.secrets:
            del body["secrets"]
        if not self.retries:
            del body["retries"], body["retryOn"]
        if all(value is None for value in body["resources"].values()):
            del body["resources"]
        return body

    def _check_section(self, name: str, value: Any) -> None:
        from windlass.client.submit.resource_configuration import ResourceConfiguration

        if not isinstance(value, ResourceConfiguration):
            super()._check_section(name, value)

    def save(self, path: str | None = None, name: str | None = None, separate_environment_yaml: bool = False) -> None:
        """Write it to a file named exactly `name` in the project's .azureml (or aml_config) folder, or to a file path;
        by default to the file that it was read from.

        The packages go to a conda file beside it: conda_dependencies.yml, or NAME_conda_dependencies.yml if that exists
        with other packages and is not this configuration's alone.
        """
        path = os.path.normpath(path or self._path or os.getcwd())
        if self._file and path == self._path and name in (None, self._name):
            file = os.path.relpath(self._file, path)
            self._write(path, file, os.path.dirname(file), separate_environment_yaml)
        elif os.path.isdir(path):
            name = name or self._name
            if not name:
                raise UserErrorException("Cannot save a runconfig without a name specified")
            folder = config_folder(path)
            os.makedirs(os.path.join(path, folder), exist_ok=True)
            self._write(path, os.path.join(folder, name), folder, separate_environment_yaml)
        elif os.path.isdir(os.path.dirname(path) or "."):
            self._write(os.path.dirname(path) or ".", os.path.basename(path), "", separate_environment_yaml)
        else:
            raise UserErrorException(f"There is no folder {os.path.dirname(path)} to save the run configuration in.")

    def _write(self, base: str, file: str, folder: str, separate_environment_yaml: bool) -> None:
        def whole(name: str) -> str:
            return named_file(base, name)

        config = os.path.join(base, file)
        body = self.to_dict()
        self.add_unknown(body)
        body["environment"]["python"].pop("condaDependencies", None)
        if not self.auto_prepare_environment:
            body["autoPrepareEnvironment"] = False
        packages = self._own_packages(base)
        if packages is not None:
            conda_file = self.environment.python.conda_dependencies_file or os.path.join(folder, _CONDA_FILE)
            conda_file = choose_file_name(config, conda_file, whole, packages.is_written_in)
            body["environment"]["python"]["condaDependenciesFile"] = conda_file
            if not packages.is_written_in(whole(conda_file)):
                packages.save_to_file(*os.path.split(whole(conda_file)))
        if separate_environment_yaml:
            environment = body["environment"]
            apart = os.path.join(folder, "environment.yml")
            apart = choose_file_name(
                config, apart, lambda name: os.path.join(base, name), lambda at: yaml.has_value(at, environment)
            )
            yaml.write(os.path.join(base, apart), environment)
            body["environment"] = apart
        yaml.write(config, body)

    def _own_packages(self, base: str) -> CondaDependencies | None:
        """The packages to write to a conda file. None leaves the project's file unchanged: if the user manages packages
        and names none, or if a file is named and was not read yet.
        """
        python, packages = self.environment.python, self.environment.python.conda_dependencies
        is_default = packages is None or packages.as_dict() == CondaDependencies().as_dict()
        named = python.conda_dependencies_file
        is_unread = named is not None and os.path.isfile(named_file(base, named))
        return None if is_default and (python.user_managed_dependencies or is_unread) else packages

    @staticmethod
    def load(path: str | None, name: str | None = None) -> RunConfiguration:
        """Read a file: `path` itself, or `name` or `name.runconfig` in the project's configuration folder."""
        return load(path, name)

    @staticmethod
    def delete(path: str, name: str) -> None:
        places = [os.path.join(path, folder, name + end) for folder in FOLDERS for end in (EXTENSION, "")]
        found = [place for place in places if os.path.isfile(place)]
        if not found:
            raise UserErrorException(f"Run config {name} not found in {path}")
        os.remove(found[0])


def load(path: str | None, name: str | None, target: str | None = None) -> RunConfiguration:
    """RunConfiguration.load(), with `target` in place of the file's target, before any `.compute` file is read."""
    path = os.path.normpath(path or os.getcwd())
    found = find_configuration(path, name)
    if found is not None:
        return _read(found[1], found[0], name, target)
    raise UserErrorException(
        f"Failed to load RunConfiguration from path={path} name={name}",
        "It looks for the name, and the name with .runconfig, in .azureml and aml_config.",
    )


def config_folder(path: str) -> str:
    """The name of a project's configuration folder: the older one where the project uses it already."""
    has_old = os.path.isdir(os.path.join(path, "aml_config")) and not os.path.isdir(os.path.join(path, ".azureml"))
    return "aml_config" if has_old else ".azureml"


def find_configuration(path: str, name: str | None) -> tuple[str, str] | None:
    """(folder that relative paths start from, file) of the run configuration of that name; None if there is none."""
    return next(((base, file) for base, file in _candidates(path, name) if os.path.isfile(file)), None)


def named_file(base: str, name: str) -> str:
    """The path of a file that a configuration names. Names are relative to the project; `base` is the project, or its
    configuration folder if the configuration was read by its own path.
    """
    here = os.path.abspath(base)
    bases = [base, os.path.dirname(here)] if os.path.basename(here) in FOLDERS else [base]
    places = [find_conda_file(os.path.join(folder, name)) for folder in bases]
    return next((place for place in places if os.path.isfile(place)), places[-1])


def _candidates(path: str, name: str | None) -> list[tuple[str, str]]:
    """(folder that relative paths start from, file)"""
    if os.path.isfile(path) or not name:
        base = os.path.dirname(path) or "."
        return [(base, path), (base, path + EXTENSION)]
    inside = [os.path.join(path, folder, name) for folder in (config_folder(path), *FOLDERS)]
    return [(path, file + end) for file in [*inside, os.path.join(path, name)] for end in ("", EXTENSION)]


def _read(file: str, base: str, name: str | None, target: str | None) -> RunConfiguration:
    body, source = yaml.load_located(file, one_line_scalars=False)
    if not isinstance(body, dict):
        raise RunConfigurationException(
            f"{source.beginning()} is not a run configuration: it must be a map of settings."
        )
    made = RunConfiguration(_path=base, _name=name)
    made._file = file
    is_first = "ArgumentVector" in body or ("Target" in body and "target" not in body)
    if target is not None:
        body["Target" if is_first else "target"] = target
    if is_first:
        from windlass.client.config.workbench import fill

        fill(made, body, base, source)
        return made
    if isinstance(body.get("environment"), str):
        body["environment"], apart = _read_environment_file(named_file(base, body["environment"]), file)
        made.environment.fill(body["environment"], source=apart)
    made.fill(body, source=source)
    made.arguments = made.arguments or []
    made.auto_prepare_environment = body.get("autoPrepareEnvironment", body.get("prepareEnvironment")) is not False
    if "python" not in (body.get("environment") or {}):
        from windlass.client.config.workbench import apply_compute_file

        apply_compute_file(made, base)
    _read_packages(made, body, base)
    return made


def _read_environment_file(path: str, file: str) -> tuple[Any, SourceFile]:
    try:
        return yaml.load_located(path, one_line_scalars=False)
    except FileNotFoundError:
        raise RunConfigurationException(f"{file} names the environment in {path}, which is not there.") from None
    except yaml.YamlError as e:
        raise RunConfigurationException(f"{file} names an environment that cannot be read: {e.message}") from None


def _read_packages(made: RunConfiguration, body: dict[str, Any], base: str) -> None:
    """Read the conda file that the configuration names, unless the configuration itself lists the packages."""
    python = made.environment.python
    section = (body.get("environment") or {}).get("python") or {}
    if not python.conda_dependencies_file or section.get("condaDependencies"):
        return
    conda_file = named_file(base, python.conda_dependencies_file)
    if os.path.isfile(conda_file) or not python.user_managed_dependencies:
        python.conda_dependencies = CondaDependencies(conda_file)
