"""Run the same training script on any compute you can reach, and keep what happened.

The names of Azure ML's SDK, with its signatures. Each is imported when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from windlass._version import __version__ as __version__
    from windlass.client.compute import ComputeTarget as ComputeTarget
    from windlass.client.conda_dependencies import CondaDependencies as CondaDependencies
    from windlass.client.environment import Environment as Environment
    from windlass.client.exceptions import ActivityFailedException as ActivityFailedException
    from windlass.client.exceptions import ComputeTargetException as ComputeTargetException
    from windlass.client.exceptions import ExperimentExecutionException as ExperimentExecutionException
    from windlass.client.exceptions import RunEnvironmentException as RunEnvironmentException
    from windlass.client.exceptions import SnapshotException as SnapshotException
    from windlass.client.exceptions import UserErrorException as UserErrorException
    from windlass.client.experiment import Experiment as Experiment
    from windlass.client.keyvault import Keyvault as Keyvault
    from windlass.client.remote_compute import DsvmCompute as DsvmCompute
    from windlass.client.remote_compute import RemoteCompute as RemoteCompute
    from windlass.client.run import Run as Run
    from windlass.client.run import ScriptRun as ScriptRun
    from windlass.client.runconfig import RunConfiguration as RunConfiguration
    from windlass.client.runconfig_sections import DockerConfiguration as DockerConfiguration
    from windlass.client.runconfig_sections import MpiConfiguration as MpiConfiguration
    from windlass.client.runconfig_sections import PyTorchConfiguration as PyTorchConfiguration
    from windlass.client.runconfig_sections import TensorflowConfiguration as TensorflowConfiguration
    from windlass.client.script_run_config import ScriptRunConfig as ScriptRunConfig
    from windlass.client.workspace import Workspace as Workspace
    from windlass.core.errors import WindlassError as WindlassError

_MODULES = {
    "ActivityFailedException": "client.exceptions",
    "ComputeTarget": "client.compute",
    "ComputeTargetException": "client.exceptions",
    "CondaDependencies": "client.conda_dependencies",
    "DockerConfiguration": "client.runconfig_sections",
    "DsvmCompute": "client.remote_compute",
    "Environment": "client.environment",
    "Experiment": "client.experiment",
    "ExperimentExecutionException": "client.exceptions",
    "Keyvault": "client.keyvault",
    "MpiConfiguration": "client.runconfig_sections",
    "PyTorchConfiguration": "client.runconfig_sections",
    "RemoteCompute": "client.remote_compute",
    "Run": "client.run",
    "RunConfiguration": "client.runconfig",
    "RunEnvironmentException": "client.exceptions",
    "ScriptRun": "client.run",
    "ScriptRunConfig": "client.script_run_config",
    "SnapshotException": "client.exceptions",
    "TensorflowConfiguration": "client.runconfig_sections",
    "UserErrorException": "client.exceptions",
    "WindlassError": "core.errors",
    "Workspace": "client.workspace",
    "__version__": "_version",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"windlass.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return [*globals(), *_MODULES]
