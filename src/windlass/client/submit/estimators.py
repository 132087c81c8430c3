"""Azure's estimators: deprecated alternatives to ScriptRunConfig that add the packages of a framework."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Set, Tuple

from windlass.client.config.run_sections import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from windlass.client.environments import requirements
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.client.environments.environment import DEFAULT_NAME, Environment
from windlass.client.exceptions import NotProvided, TrainingException
from windlass.client.submit.request import ONE_RUN_CLUSTER
from windlass.client.submit.script_run_config import ScriptRunConfig
from windlass.client.unsupported import not_provided_parameters

if TYPE_CHECKING:
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.experiment import Experiment
    from windlass.client.runs.run import Run

_no_data = not_provided_parameters(
    "Data as an input of an estimator",
    "Pass paths in script_params; a script reads checkpoints from such a path, too.",
    "inputs",
    "source_directory_data_store",
    "resume_from",
)
_PACKAGES = ("conda_packages", "pip_packages", "conda_dependencies_file", "pip_requirements_file")
# Not allowed beside environment_definition, which has them.
_OF_ENVIRONMENT = (
    *_PACKAGES, "custom_docker_image", "image_registry_details", "use_gpu", "user_managed", "shm_size",
    "environment_variables",
)  # fmt: skip
# Parameters that were renamed; the newer name wins.
_RENAMED = {
    "conda_dependencies_file_path": "conda_dependencies_file",
    "pip_requirements_file_path": "pip_requirements_file",
    "custom_docker_base_image": "custom_docker_image",
}
_warned: Set[str] = set()


class Mpi:
    """Training by MPI."""

    BACKEND: ClassVar[str] = "mpi"

    def __init__(self, process_count_per_node: int = 1) -> None:
        self.process_count_per_node = process_count_per_node

    def _configuration(self, node_count: int) -> Any:
        return MpiConfiguration(self.process_count_per_node, node_count)


class ParameterServer:
    """Training by TensorFlow's parameter servers."""

    BACKEND: ClassVar[str] = "ps"

    def __init__(self, worker_count: int = 1, parameter_server_count: int = 1) -> None:
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count

    def _configuration(self, node_count: int) -> Any:
        return TensorflowConfiguration(self.worker_count, self.parameter_server_count)


class Gloo:
    """Training by PyTorch, with Gloo between the processes."""

    BACKEND: ClassVar[str] = "gloo"

    def _configuration(self, node_count: int) -> Any:
        return PyTorchConfiguration(self.BACKEND, node_count=node_count)


class Nccl(Gloo):
    """Training by PyTorch, with NCCL between the processes."""

    BACKEND = "nccl"


class _BaseEstimator:
    FRAMEWORK_NAME: ClassVar[Any] = None
    DEFAULT_VERSION: ClassVar[Any] = None
    _FAMILY: ClassVar[str] = ""  # of the packages, as in client/environments/curated.py
    _VERSIONS: ClassVar[Tuple[str, ...]] = ()
    _BACKENDS: ClassVar[Tuple[str, ...]] = ("mpi",)

    def _configure(self, given: Dict[str, Any]) -> None:
        """Build the run configuration from the parameters of a constructor."""
        _warn_once(type(self).__name__)
        options = {name: value for name, value in given.items() if name not in _RENAMED}
        for old, new in _RENAMED.items():
            options[new] = options.get(new) or given.get(old)
        _check(options)
        self._framework_version: str | None = options.get("framework_version") or self.DEFAULT_VERSION
        self._source_directory: str = options["source_directory"] or "."
        self._script_params: Dict[str, Any] = dict(options["script_params"] or {})
        self._run_config = ScriptRunConfig(
            self._source_directory,
            compute_target=options["compute_target"] or (ONE_RUN_CLUSTER if options["vm_size"] else None),
            environment=options["environment_definition"] or self._environment(options),
            distributed_job_config=self._distribution(options),
        ).run_config
        self._run_config.script = options["entry_script"]
        self._run_config.arguments = arguments_of(self._script_params)
        self._run_config.node_count = options.get("node_count", 1)
        self._run_config.max_run_duration_seconds = options["max_run_duration_seconds"]
        self._run_config.amlcompute.vm_size = options["vm_size"]
        self._run_config.amlcompute.vm_priority = options["vm_priority"]

    @property
    def source_directory(self) -> str:
        return self._source_directory

    @property
    def run_config(self) -> RunConfiguration:
        """The run configuration that is submitted. It may be changed."""
        return self._run_config

    @property
    def _estimator_config(self) -> RunConfiguration:
        """The private name that public code uses."""
        return self._run_config

    @property
    def conda_dependencies(self) -> CondaDependencies | None:
        return self._run_config.environment.python.conda_dependencies

    def submit_to(
        self,
        experiment: Experiment,
        script_params: Dict[str, Any] | None = None,
        inputs: Any = None,
        source_directory_data_store: Any = None,
        **options: Any,
    ) -> Run:
        """Called by Experiment.submit. `script_params` replaces or adds parameters for this run."""
        if inputs or source_directory_data_store:
            raise NotProvided("Data as an input of an estimator", "Pass paths in script_params.")
        config = self._script_run_config()
        if script_params:
            config.arguments = arguments_of({**self._script_params, **script_params})
        return config.submit_to(experiment, **options)

    def _script_run_config(self) -> ScriptRunConfig:
        return ScriptRunConfig(self._source_directory, run_config=self._run_config)

    def _for_child(self, target: str) -> ScriptRunConfig:
        return self._script_run_config()._for_child(target)

    def _environment(self, options: Dict[str, Any]) -> Environment:
        """With a custom image the run is in a container; else the packages are installed on the target itself."""
        made = Environment(DEFAULT_NAME)
        made.environment_variables = dict(options["environment_variables"] or {})
        made.python.user_managed_dependencies = bool(options["user_managed"])
        if not options["user_managed"]:
            made.python.conda_dependencies = self._packages(options)
        if options["custom_docker_image"]:
            made.docker.enabled = True
            made.docker.base_image = options["custom_docker_image"]
            made.docker.gpu_support = bool(options.get("use_gpu"))
        if options["image_registry_details"] is not None:
            made.docker.base_image_registry = options["image_registry_details"]
        if options["shm_size"]:
            made.docker.shm_size = options["shm_size"]
        return made

    def _packages(self, options: Dict[str, Any]) -> CondaDependencies:
        """The packages of the conda file if there is one, else of framework, lists and requirements file."""
        if options["conda_dependencies_file"]:
            return CondaDependencies(self._file(options["conda_dependencies_file"]))
        made = CondaDependencies()
        for package in self._framework_packages():
            made.add_pip_package(package)
        if options["pip_requirements_file"]:
            file = self._file(options["pip_requirements_file"])
            made.base = os.path.dirname(os.path.abspath(file))
            for line in requirements.read(file):
                add = made.set_pip_option if line.startswith("-") else made.add_pip_package
                add(line)
        for package in options["pip_packages"] or ():
            made.add_pip_package(package)
        for package in options["conda_packages"] or ():
            made.add_conda_package(package)
        return made

    def _framework_packages(self) -> List[str]:
        from windlass.client.environments.curated import packages_of

        return packages_of(self._FAMILY, self._framework_version, "==") if self._FAMILY else []

    def _file(self, name: str) -> str:
        """Paths are relative to the source folder."""
        return os.path.join(self._source_directory, name)

    def _distribution(self, options: Dict[str, Any]) -> Any:
        """The configuration of distributed training, None without one."""
        wanted = options.get("distributed_training") or options.get("distributed_backend")
        nodes, processes = options.get("node_count", 1), options.get("process_count_per_node", 1)
        if wanted is None and processes > 1:
            wanted = Mpi.BACKEND
        if wanted is None or isinstance(wanted, (MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration)):
            return wanted
        if isinstance(wanted, str):
            wanted = _backend(wanted.lower(), options)
        if getattr(wanted, "BACKEND", "") not in self._BACKENDS:
            known = ", ".join(self._BACKENDS) or "none"
            raise TrainingException(
                f"{type(self).__name__} does not train by {getattr(wanted, 'BACKEND', wanted)!r}.",
                f"It knows these backends: {known}.",
            )
        return wanted._configuration(nodes)


class Estimator(_BaseEstimator):
    """A script to run, with its packages.

    >>> estimator = Estimator(".", entry_script="train.py", compute_target="local", script_params={"--alpha": 0.1})
    >>> estimator.run_config.arguments
    ['--alpha', 0.1]
    """

    @_no_data
    def __init__(
        self,
        source_directory: str,
        *,
        compute_target: Any = None,
        vm_size: str | None = None,
        vm_priority: str | None = None,
        entry_script: str | None = None,
        script_params: Dict[str, Any] | None = None,
        node_count: int = 1,
        process_count_per_node: int = 1,
        distributed_backend: str | None = None,
        distributed_training: Any = None,
        use_gpu: bool = False,
        use_docker: bool = True,
        custom_docker_base_image: str | None = None,
        custom_docker_image: str | None = None,
        image_registry_details: Any = None,
        user_managed: bool = False,
        conda_packages: List[str] | None = None,
        pip_packages: List[str] | None = None,
        conda_dependencies_file_path: str | None = None,
        pip_requirements_file_path: str | None = None,
        conda_dependencies_file: str | None = None,
        pip_requirements_file: str | None = None,
        environment_variables: Dict[str, str] | None = None,
        environment_definition: Environment | None = None,
        inputs: Any = None,
        source_directory_data_store: Any = None,
        shm_size: str | None = None,
        resume_from: Any = None,
        max_run_duration_seconds: int | None = None,
        _disable_validation: bool = True,
        _show_lint_warnings: bool = False,
        _show_package_warnings: bool = False,
    ) -> None:
        self._configure(locals())


class _FrameworkEstimator(_BaseEstimator):
    @property
    def framework_version(self) -> str | None:
        """The version of the framework at least; which one it is in the end, is in the build log."""
        return self._framework_version

    @classmethod
    def get_supported_versions(cls) -> List[str]:
        """Azure's versions of the framework. Others are accepted, too."""
        return list(cls._VERSIONS)


class SKLearn(_FrameworkEstimator):
    """A script that uses scikit-learn."""

    FRAMEWORK_NAME = "SKLearn"
    DEFAULT_VERSION = "0.20.3"
    _FAMILY = "sklearn"
    _VERSIONS = ("0.20.3",)
    _BACKENDS = ()

    @_no_data
    def __init__(
        self,
        source_directory: str,
        *,
        compute_target: Any = None,
        vm_size: str | None = None,
        vm_priority: str | None = None,
        entry_script: str | None = None,
        script_params: Dict[str, Any] | None = None,
        use_docker: bool = True,
        custom_docker_image: str | None = None,
        image_registry_details: Any = None,
        user_managed: bool = False,
        conda_packages: List[str] | None = None,
        pip_packages: List[str] | None = None,
        conda_dependencies_file_path: str | None = None,
        pip_requirements_file_path: str | None = None,
        conda_dependencies_file: str | None = None,
        pip_requirements_file: str | None = None,
        environment_variables: Dict[str, str] | None = None,
        environment_definition: Environment | None = None,
        inputs: Any = None,
        shm_size: str | None = None,
        resume_from: Any = None,
        max_run_duration_seconds: int | None = None,
        framework_version: str | None = None,
        _enable_optimized_mode: bool = False,
        _disable_validation: bool = True,
        _show_lint_warnings: bool = False,
        _show_package_warnings: bool = False,
    ) -> None:
        self._configure(locals())


class PyTorch(_FrameworkEstimator):
    """A script that uses PyTorch."""

    FRAMEWORK_NAME = "PyTorch"
    DEFAULT_VERSION = "1.4"
    _FAMILY = "pytorch"
    _VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6")
    _BACKENDS = ("mpi", "gloo", "nccl")

    @_no_data
    def __init__(
        self,
        source_directory: str,
        *,
        compute_target: Any = None,
        vm_size: str | None = None,
        vm_priority: str | None = None,
        entry_script: str | None = None,
        script_params: Dict[str, Any] | None = None,
        node_count: int = 1,
        process_count_per_node: int = 1,
        distributed_backend: str | None = None,
        distributed_training: Any = None,
        use_gpu: bool = False,
        use_docker: bool = True,
        custom_docker_base_image: str | None = None,
        custom_docker_image: str | None = None,
        image_registry_details: Any = None,
        user_managed: bool = False,
        conda_packages: List[str] | None = None,
        pip_packages: List[str] | None = None,
        conda_dependencies_file_path: str | None = None,
        pip_requirements_file_path: str | None = None,
        conda_dependencies_file: str | None = None,
        pip_requirements_file: str | None = None,
        environment_variables: Dict[str, str] | None = None,
        environment_definition: Environment | None = None,
        inputs: Any = None,
        source_directory_data_store: Any = None,
        shm_size: str | None = None,
        resume_from: Any = None,
        max_run_duration_seconds: int | None = None,
        framework_version: str | None = None,
        _enable_optimized_mode: bool = False,
        _disable_validation: bool = True,
        _show_lint_warnings: bool = False,
        _show_package_warnings: bool = False,
    ) -> None:
        self._configure(locals())


class TensorFlow(_FrameworkEstimator):
    """A script that uses TensorFlow."""

    FRAMEWORK_NAME = "TensorFlow"
    DEFAULT_VERSION = "1.13"
    _FAMILY = "tensorflow"
    _VERSIONS = ("1.10", "1.12", "1.13", "2.0", "2.1", "2.2")
    _BACKENDS = ("mpi", "ps")

    @_no_data
    def __init__(
        self,
        source_directory: str,
        *,
        compute_target: Any = None,
        vm_size: str | None = None,
        vm_priority: str | None = None,
        entry_script: str | None = None,
        script_params: Dict[str, Any] | None = None,
        node_count: int = 1,
        process_count_per_node: int = 1,
        worker_count: int = 1,
        parameter_server_count: int = 1,
        distributed_backend: str | None = None,
        distributed_training: Any = None,
        use_gpu: bool = False,
        use_docker: bool = True,
        custom_docker_base_image: str | None = None,
        custom_docker_image: str | None = None,
        image_registry_details: Any = None,
        user_managed: bool = False,
        conda_packages: List[str] | None = None,
        pip_packages: List[str] | None = None,
        conda_dependencies_file_path: str | None = None,
        pip_requirements_file_path: str | None = None,
        conda_dependencies_file: str | None = None,
        pip_requirements_file: str | None = None,
        environment_variables: Dict[str, str] | None = None,
        environment_definition: Environment | None = None,
        inputs: Any = None,
        source_directory_data_store: Any = None,
        shm_size: str | None = None,
        resume_from: Any = None,
        max_run_duration_seconds: int | None = None,
        framework_version: str | None = None,
        _enable_optimized_mode: bool = False,
        _disable_validation: bool = True,
        _show_lint_warnings: bool = False,
        _show_package_warnings: bool = False,
    ) -> None:
        self._configure(locals())


def arguments_of(script_params: Dict[str, Any]) -> List[Any]:
    """The arguments of a command line. A parameter whose value is "" or None is a flag without a value.

    >>> arguments_of({"--alpha": 0.1, "--verbose": "", "--layers": 0})
    ['--alpha', 0.1, '--verbose', '--layers', 0]
    """
    words = [word for pair in script_params.items() for word in pair]
    return [word for word in words if word is not None and not (isinstance(word, str) and word == "")]


def _check(options: Dict[str, Any]) -> None:
    if str(options["entry_script"] or "").endswith(".ipynb"):
        raise NotProvided("A notebook as the script of an estimator", "Execute it with nbclient in a script.")
    for name in ("pip_packages", "conda_packages"):
        if isinstance(options[name], str):
            raise TrainingException(f"{name} is a list of texts, not {options[name]!r}.")
    for name in ("node_count", "process_count_per_node"):
        if options.get(name, 1) < 1:
            raise TrainingException(f"{name} should be at least 1.")
    if not options["use_docker"] and options["custom_docker_image"]:
        raise TrainingException("If use_docker is False, custom_docker_image is not allowed.")
    for name, others in (
        ("environment_definition", _OF_ENVIRONMENT),
        ("conda_dependencies_file", ("pip_packages", "pip_requirements_file", "conda_packages")),
        ("user_managed", _PACKAGES),
    ):
        both = [other for other in others if options.get(name) and options.get(other)]
        if both:
            raise TrainingException(f"If {name} is specified, these cannot be specified: {', '.join(both)}.")


def _backend(name: str, options: Dict[str, Any]) -> Any:
    """The backend that a text as distributed_backend means."""
    if name == Mpi.BACKEND:
        return Mpi(options["process_count_per_node"])
    if name == ParameterServer.BACKEND:
        return ParameterServer(options.get("worker_count", 1), options.get("parameter_server_count", 1))
    return {Gloo.BACKEND: Gloo(), Nccl.BACKEND: Nccl()}.get(name, name)


def _warn_once(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        print(f"Warning: {name} is deprecated. ScriptRunConfig with an Environment does the same.", file=sys.stderr)
