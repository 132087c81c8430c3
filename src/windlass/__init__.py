"""Run the same training script on any compute you can reach, and keep what happened.

The names of Azure ML's SDK, with its signatures. Each is imported when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from windlass._version import VERSION as VERSION
    from windlass._version import __version__ as __version__
    from windlass.client.compute import ComputeTarget as ComputeTarget
    from windlass.client.conda_dependencies import CondaDependencies as CondaDependencies
    from windlass.client.environment import Environment as Environment
    from windlass.client.environment_sections import DEFAULT_CPU_IMAGE as DEFAULT_CPU_IMAGE
    from windlass.client.environment_sections import DEFAULT_GPU_IMAGE as DEFAULT_GPU_IMAGE
    from windlass.client.environment_sections import ContainerRegistry as ContainerRegistry
    from windlass.client.environment_sections import DockerBuildContext as DockerBuildContext
    from windlass.client.environment_sections import DockerSection as DockerSection
    from windlass.client.environment_sections import PythonSection as PythonSection
    from windlass.client.exceptions import ActivityFailedException as ActivityFailedException
    from windlass.client.exceptions import ComputeTargetException as ComputeTargetException
    from windlass.client.exceptions import ExperimentExecutionException as ExperimentExecutionException
    from windlass.client.exceptions import ModelNotFoundException as ModelNotFoundException
    from windlass.client.exceptions import RunEnvironmentException as RunEnvironmentException
    from windlass.client.exceptions import SnapshotException as SnapshotException
    from windlass.client.exceptions import UserErrorException as UserErrorException
    from windlass.client.exceptions import WebserviceException as WebserviceException
    from windlass.client.experiment import Experiment as Experiment
    from windlass.client.keyvault import Keyvault as Keyvault
    from windlass.client.model import Model as Model
    from windlass.client.offline import _OfflineRun as _OfflineRun
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
    "ContainerRegistry": "client.environment_sections",
    "DEFAULT_CPU_IMAGE": "client.environment_sections",
    "DEFAULT_GPU_IMAGE": "client.environment_sections",
    "DockerBuildContext": "client.environment_sections",
    "DockerConfiguration": "client.runconfig_sections",
    "DockerSection": "client.environment_sections",
    "DsvmCompute": "client.remote_compute",
    "Environment": "client.environment",
    "Experiment": "client.experiment",
    "ExperimentExecutionException": "client.exceptions",
    "Keyvault": "client.keyvault",
    "Model": "client.model",
    "ModelNotFoundException": "client.exceptions",
    "MpiConfiguration": "client.runconfig_sections",
    "PyTorchConfiguration": "client.runconfig_sections",
    "PythonSection": "client.environment_sections",
    "RemoteCompute": "client.remote_compute",
    "Run": "client.run",
    "RunConfiguration": "client.runconfig",
    "RunEnvironmentException": "client.exceptions",
    "ScriptRun": "client.run",
    "ScriptRunConfig": "client.script_run_config",
    "SnapshotException": "client.exceptions",
    "TensorflowConfiguration": "client.runconfig_sections",
    "UserErrorException": "client.exceptions",
    "VERSION": "_version",
    "WebserviceException": "client.exceptions",
    "WindlassError": "core.errors",
    "Workspace": "client.workspace",
    "_OfflineRun": "client.offline",
    "__version__": "_version",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        hint = _hint(name)
        if not hint:
            raise AttributeError(f"module 'windlass' has no attribute {name!r}")
        raise _error_for_caller()(f"{name} is not provided in this version. {hint}")
    value = getattr(import_module(f"windlass.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """What to use instead of a name of Azure's SDK that is not provided; "" for other names."""
    from windlass.client.absent import HINTS

    return HINTS.get(name, "")


def _error_for_caller() -> "type[Exception]":
    """For `from windlass import name` an ImportError, since it puts words of its own in place of an AttributeError's;
    hasattr() and getattr() understand no other than that. No class can be both.
    """
    import sys

    is_import = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    return ImportError if is_import else AttributeError


def __dir__() -> "list[str]":
    return [*globals(), *_MODULES]
