"""ScriptRunConfig: a script or command, its source folder and arguments, and its run configuration."""

from __future__ import annotations

import sys
from copy import copy
from typing import TYPE_CHECKING, Any

from windlass.client.config.run_configuration import RunConfiguration
from windlass.client.config.run_sections import (
    DockerConfiguration,
    MpiConfiguration,
    PyTorchConfiguration,
    TensorflowConfiguration,
)
from windlass.client.environments.environment import DEFAULT_NAME, Environment
from windlass.client.exceptions import RunConfigurationException
from windlass.client.unsupported import not_provided_parameters

if TYPE_CHECKING:
    from windlass.client.config.job_file import JobOrigin
    from windlass.client.experiment import Experiment
    from windlass.client.runs.run import Run
    from windlass.client.workspace.workspace import Workspace

_MONTH_SECONDS = 2592000


class ScriptRunConfig:
    """Configuration of a run, for `Experiment.submit`.

    >>> config = ScriptRunConfig(source_directory=".", script="train.py", arguments=["--alpha", 0.1])
    >>> config.run_config.target
    'local'
    """

    MAX_DURATION_SECONDS_DEFAULT = _MONTH_SECONDS
    _job: JobOrigin | None = None  # the job file that it was made from

    @not_provided_parameters("resume_from", "Keep checkpoints in ./outputs and read them in the script.", "resume_from")
    def __init__(
        self,
        source_directory: str | None,
        script: str | None = None,
        arguments: list[Any] | str | None = None,
        run_config: RunConfiguration | str | None = None,
        _telemetry_values: Any = None,
        compute_target: Any = None,
        environment: Environment | None = None,
        distributed_job_config: Any = None,
        resume_from: Any = None,
        max_run_duration_seconds: int = _MONTH_SECONDS,
        command: Any = None,
        docker_runtime_config: DockerConfiguration | None = None,
        *,
        resources: Any = None,
    ) -> None:
        """`resources`, which Azure does not have, is what the run needs of its target: a ResourceConfiguration."""
        self.source_directory = source_directory if source_directory is not None else "."
        if run_config is not None:
            others = (compute_target, environment, distributed_job_config, docker_runtime_config)
            if any(others) or max_run_duration_seconds != _MONTH_SECONDS:
                _warn(
                    "If 'run_config' is specified, the following parameters will be ignored: 'compute_target', "
                    "'environment', 'distributed_job_config', 'max_run_duration_seconds', and 'docker_runtime_config'."
                )
            if isinstance(run_config, str):
                run_config = RunConfiguration.load(self.source_directory, run_config)
            self.run_config = run_config
        else:
            self.run_config = RunConfiguration()
            if compute_target:
                self.run_config.target = compute_target
            self.run_config.environment = environment or Environment(DEFAULT_NAME)
            self.run_config.max_run_duration_seconds = max_run_duration_seconds
            self._distribute(distributed_job_config)
            self._contain(environment, docker_runtime_config)
        if resources is not None:
            self.run_config.resources = resources
        self.script = script or self.run_config.script
        self.arguments = arguments or self.run_config.arguments
        self.command = command or self.run_config.command

    def _distribute(self, config: Any) -> None:
        run_config = self.run_config
        if config is None:
            return
        if isinstance(config, TensorflowConfiguration):
            run_config.tensorflow, run_config.node_count = config, config.worker_count
            run_config.framework, run_config.communicator = "TensorFlow", "ParameterServer"
        elif isinstance(config, MpiConfiguration):
            run_config.mpi, run_config.node_count = config, config.node_count
            run_config.framework, run_config.communicator = "Python", "IntelMpi"
        elif isinstance(config, PyTorchConfiguration):
            run_config.pytorch, run_config.node_count = config, config.node_count
            run_config.framework, run_config.communicator = "PyTorch", config.communication_backend
        else:
            raise RunConfigurationException(
                "'distributed_job_config' must be an 'azureml.core.runconfig.TensorflowConfiguration', "
                "'azureml.core.runconfig.MpiConfiguration', or 'azureml.core.runconfig.PyTorchConfiguration' object."
            )

    def _contain(self, environment: Environment | None, config: DockerConfiguration | None) -> None:
        if config is not None:
            if not isinstance(config, DockerConfiguration):
                raise RunConfigurationException("'docker_runtime_config' must be a 'DockerConfiguration' object.")
            self.run_config.docker = config
            if environment is not None and environment.docker.enabled:  # the newer setting replaces the older one
                self.run_config.environment = made = copy(environment)
                made.docker = copy(environment.docker)
                made.docker.enabled = config.use_docker
        elif environment is not None:
            docker = environment.docker
            self.run_config.docker = DockerConfiguration(
                docker.enabled, docker.shared_volumes, copy(docker.arguments), docker.shm_size
            )

    def _for_child(self, target: str) -> ScriptRunConfig:
        """A copy with the target of the parent run, unless a target was set."""
        if self.run_config._target_is_named:
            return self
        made = copy(self)
        made.run_config = copy(self.run_config)
        made.run_config.target = target
        return made

    def prepare(self, workspace: Workspace) -> Run:
        """Build its environment on its target before the first run. Returns at once."""
        from windlass.client.environments import build

        return build.prepare(workspace, self)

    def is_prepared(self, workspace: Workspace) -> bool:
        """Whether its environment is built on its target."""
        from windlass.client.environments import build

        return build.is_prepared(workspace, self)

    def submit_to(self, experiment: Experiment, **options: Any) -> Run:
        """Called by Experiment.submit; each kind of configuration has its own."""
        from windlass.client.submit.submission import submit

        return submit(self, experiment, **options)


def _warn(line: str) -> None:
    print(f"Warning: {line}", file=sys.stderr)
