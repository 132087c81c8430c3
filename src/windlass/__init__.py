"""Run the same training script on any compute you can reach, and keep what happened.

The names of Azure ML's SDK, with its signatures. Each is imported when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from windlass._version import VERSION as VERSION
    from windlass._version import __version__ as __version__
    from windlass.client.authentication import AbstractAuthentication as AbstractAuthentication
    from windlass.client.authentication import ArmTokenAuthentication as ArmTokenAuthentication
    from windlass.client.authentication import Audience as Audience
    from windlass.client.authentication import AzureCliAuthentication as AzureCliAuthentication
    from windlass.client.authentication import AzureMLTokenAuthentication as AzureMLTokenAuthentication
    from windlass.client.authentication import InteractiveLoginAuthentication as InteractiveLoginAuthentication
    from windlass.client.authentication import MsiAuthentication as MsiAuthentication
    from windlass.client.authentication import ServicePrincipalAuthentication as ServicePrincipalAuthentication
    from windlass.client.authentication import TokenAuthentication as TokenAuthentication
    from windlass.client.compute.adla import AdlaCompute as AdlaCompute
    from windlass.client.compute.adla import (
        DataLakeAnalyticsAttachConfiguration as DataLakeAnalyticsAttachConfiguration,
    )
    from windlass.client.compute.aks import AksAttachConfiguration as AksAttachConfiguration
    from windlass.client.compute.aks import AksCompute as AksCompute
    from windlass.client.compute.aks import AksProvisioningConfiguration as AksProvisioningConfiguration
    from windlass.client.compute.aks import AksUpdateConfiguration as AksUpdateConfiguration
    from windlass.client.compute.aks import SslConfiguration as SslConfiguration
    from windlass.client.compute.aks import SystemService as SystemService
    from windlass.client.compute.amlcompute import AmlCompute as AmlCompute
    from windlass.client.compute.amlcompute import AmlComputeNodeStateCounts as AmlComputeNodeStateCounts
    from windlass.client.compute.amlcompute import (
        AmlComputeProvisioningConfiguration as AmlComputeProvisioningConfiguration,
    )
    from windlass.client.compute.amlcompute import AmlComputeStatus as AmlComputeStatus
    from windlass.client.compute.amlcompute import BatchAiCompute as BatchAiCompute
    from windlass.client.compute.amlcompute import ScaleSettings as ScaleSettings
    from windlass.client.compute.batch import BatchAttachConfiguration as BatchAttachConfiguration
    from windlass.client.compute.batch import BatchCompute as BatchCompute
    from windlass.client.compute.connections import Connection as Connection
    from windlass.client.compute.databricks import DatabricksAttachConfiguration as DatabricksAttachConfiguration
    from windlass.client.compute.databricks import DatabricksCompute as DatabricksCompute
    from windlass.client.compute.hdinsight import HDInsightAttachConfiguration as HDInsightAttachConfiguration
    from windlass.client.compute.hdinsight import HDInsightCompute as HDInsightCompute
    from windlass.client.compute.instance import ComputeInstance as ComputeInstance
    from windlass.client.compute.instance import (
        ComputeInstanceProvisioningConfiguration as ComputeInstanceProvisioningConfiguration,
    )
    from windlass.client.compute.instance import ComputeInstanceStatus as ComputeInstanceStatus
    from windlass.client.compute.kind import KindAttachConfiguration as KindAttachConfiguration
    from windlass.client.compute.kind import KindProvisioningConfiguration as KindProvisioningConfiguration
    from windlass.client.compute.kubernetes import KubernetesCompute as KubernetesCompute
    from windlass.client.compute.kubernetes import (
        KubernetesComputeAttachConfiguration as KubernetesComputeAttachConfiguration,
    )
    from windlass.client.compute.kubernetes import KubernetesComputeStatus as KubernetesComputeStatus
    from windlass.client.compute.local_target import AbstractComputeTarget as AbstractComputeTarget
    from windlass.client.compute.local_target import LocalTarget as LocalTarget
    from windlass.client.compute.others import DataFactoryAttachConfiguration as DataFactoryAttachConfiguration
    from windlass.client.compute.others import DataFactoryCompute as DataFactoryCompute
    from windlass.client.compute.others import (
        DataFactoryProvisioningConfiguration as DataFactoryProvisioningConfiguration,
    )
    from windlass.client.compute.others import KustoAttachConfiguration as KustoAttachConfiguration
    from windlass.client.compute.others import KustoCompute as KustoCompute
    from windlass.client.compute.others import SynapseAttachConfiguration as SynapseAttachConfiguration
    from windlass.client.compute.others import SynapseCompute as SynapseCompute
    from windlass.client.compute.remote import DsvmCompute as DsvmCompute
    from windlass.client.compute.remote import DsvmProvisioningConfiguration as DsvmProvisioningConfiguration
    from windlass.client.compute.remote import RemoteCompute as RemoteCompute
    from windlass.client.compute.remote import RemoteComputeAttachConfiguration as RemoteComputeAttachConfiguration
    from windlass.client.compute.target import ComputeTarget as ComputeTarget
    from windlass.client.compute.target import ComputeTargetAttachConfiguration as ComputeTargetAttachConfiguration
    from windlass.client.compute.target import (
        ComputeTargetProvisioningConfiguration as ComputeTargetProvisioningConfiguration,
    )
    from windlass.client.compute.target import ComputeTargetUpdateConfiguration as ComputeTargetUpdateConfiguration
    from windlass.client.conda_dependencies import CondaDependencies as CondaDependencies
    from windlass.client.environment import Environment as Environment
    from windlass.client.environment import EnvironmentDefinition as EnvironmentDefinition
    from windlass.client.environment import EnvironmentReference as EnvironmentReference
    from windlass.client.environment_sections import DEFAULT_CPU_IMAGE as DEFAULT_CPU_IMAGE
    from windlass.client.environment_sections import DEFAULT_GPU_IMAGE as DEFAULT_GPU_IMAGE
    from windlass.client.environment_sections import AzureContainerRegistry as AzureContainerRegistry
    from windlass.client.environment_sections import ContainerRegistry as ContainerRegistry
    from windlass.client.environment_sections import DatabricksEnvironment as DatabricksEnvironment
    from windlass.client.environment_sections import DatabricksSection as DatabricksSection
    from windlass.client.environment_sections import DockerBuildContext as DockerBuildContext
    from windlass.client.environment_sections import DockerEnvironment as DockerEnvironment
    from windlass.client.environment_sections import DockerImagePlatform as DockerImagePlatform
    from windlass.client.environment_sections import DockerSection as DockerSection
    from windlass.client.environment_sections import PythonEnvironment as PythonEnvironment
    from windlass.client.environment_sections import PythonSection as PythonSection
    from windlass.client.environment_sections import RegistryIdentity as RegistryIdentity
    from windlass.client.environment_sections import SparkEnvironment as SparkEnvironment
    from windlass.client.environment_sections import SparkPackage as SparkPackage
    from windlass.client.environment_sections import SparkSection as SparkSection
    from windlass.client.exceptions import ActivityFailedException as ActivityFailedException
    from windlass.client.exceptions import AuthenticationException as AuthenticationException
    from windlass.client.exceptions import AzureMLAggregatedException as AzureMLAggregatedException
    from windlass.client.exceptions import AzureMLException as AzureMLException
    from windlass.client.exceptions import ComputeTargetException as ComputeTargetException
    from windlass.client.exceptions import DatasetTimestampMissingError as DatasetTimestampMissingError
    from windlass.client.exceptions import DiscoveryUrlNotFoundException as DiscoveryUrlNotFoundException
    from windlass.client.exceptions import ExperimentExecutionException as ExperimentExecutionException
    from windlass.client.exceptions import ModelNotFoundException as ModelNotFoundException
    from windlass.client.exceptions import ModelPathNotFoundException as ModelPathNotFoundException
    from windlass.client.exceptions import NotProvided as NotProvided
    from windlass.client.exceptions import ParallelRunException as ParallelRunException
    from windlass.client.exceptions import ProjectSystemException as ProjectSystemException
    from windlass.client.exceptions import RunConfigurationException as RunConfigurationException
    from windlass.client.exceptions import RunEnvironmentException as RunEnvironmentException
    from windlass.client.exceptions import ServiceException as ServiceException
    from windlass.client.exceptions import SnapshotException as SnapshotException
    from windlass.client.exceptions import TrainingException as TrainingException
    from windlass.client.exceptions import UserErrorException as UserErrorException
    from windlass.client.exceptions import WebserviceException as WebserviceException
    from windlass.client.exceptions import WorkspaceException as WorkspaceException
    from windlass.client.exceptions import WorkspacePrivateEndpointException as WorkspacePrivateEndpointException
    from windlass.client.experiment import Experiment as Experiment
    from windlass.client.experiment import ViewType as ViewType
    from windlass.client.keyvault import Keyvault as Keyvault
    from windlass.client.model import Model as Model
    from windlass.client.offline import _OfflineRun as _OfflineRun
    from windlass.client.preparation import ImageBuildDetails as ImageBuildDetails
    from windlass.client.resource_configuration import ResourceConfiguration as ResourceConfiguration
    from windlass.client.run import Run as Run
    from windlass.client.run import ScriptRun as ScriptRun
    from windlass.client.run import get_run as get_run
    from windlass.client.runconfig import RunConfiguration as RunConfiguration
    from windlass.client.runconfig_sections import AmlComputeConfiguration as AmlComputeConfiguration
    from windlass.client.runconfig_sections import ApplicationEndpointConfiguration as ApplicationEndpointConfiguration
    from windlass.client.runconfig_sections import DockerConfiguration as DockerConfiguration
    from windlass.client.runconfig_sections import HdiConfiguration as HdiConfiguration
    from windlass.client.runconfig_sections import HistoryConfiguration as HistoryConfiguration
    from windlass.client.runconfig_sections import KubernetesComputeConfiguration as KubernetesComputeConfiguration
    from windlass.client.runconfig_sections import MpiConfiguration as MpiConfiguration
    from windlass.client.runconfig_sections import ParallelTaskConfiguration as ParallelTaskConfiguration
    from windlass.client.runconfig_sections import PyTorchConfiguration as PyTorchConfiguration
    from windlass.client.runconfig_sections import SparkConfiguration as SparkConfiguration
    from windlass.client.runconfig_sections import TensorflowConfiguration as TensorflowConfiguration
    from windlass.client.runs.run_status import RUNNING_STATES as RUNNING_STATES
    from windlass.client.runs.run_status import RunStatus as RunStatus
    from windlass.client.runs.run_widget import RunDetails as RunDetails
    from windlass.client.script_run_config import ScriptRunConfig as ScriptRunConfig
    from windlass.client.submit.estimators import Estimator as Estimator
    from windlass.client.submit.estimators import Gloo as Gloo
    from windlass.client.submit.estimators import Mpi as Mpi
    from windlass.client.submit.estimators import Nccl as Nccl
    from windlass.client.submit.estimators import ParameterServer as ParameterServer
    from windlass.client.submit.estimators import PyTorch as PyTorch
    from windlass.client.submit.estimators import SKLearn as SKLearn
    from windlass.client.submit.estimators import TensorFlow as TensorFlow
    from windlass.client.workspace import Workspace as Workspace
    from windlass.core.errors import WindlassError as WindlassError

_MODULES = {
    "AbstractAuthentication": "client.authentication",
    "AbstractComputeTarget": "client.compute.local_target",
    "ActivityFailedException": "client.exceptions",
    "AdlaCompute": "client.compute.adla",
    "AksAttachConfiguration": "client.compute.aks",
    "AksCompute": "client.compute.aks",
    "AksProvisioningConfiguration": "client.compute.aks",
    "AksUpdateConfiguration": "client.compute.aks",
    "AmlCompute": "client.compute.amlcompute",
    "AmlComputeConfiguration": "client.runconfig_sections",
    "AmlComputeNodeStateCounts": "client.compute.amlcompute",
    "AmlComputeProvisioningConfiguration": "client.compute.amlcompute",
    "AmlComputeStatus": "client.compute.amlcompute",
    "ApplicationEndpointConfiguration": "client.runconfig_sections",
    "ArmTokenAuthentication": "client.authentication",
    "Audience": "client.authentication",
    "AuthenticationException": "client.exceptions",
    "AzureCliAuthentication": "client.authentication",
    "AzureContainerRegistry": "client.environment_sections",
    "AzureMLAggregatedException": "client.exceptions",
    "AzureMLException": "client.exceptions",
    "AzureMLTokenAuthentication": "client.authentication",
    "BatchAiCompute": "client.compute.amlcompute",
    "BatchAttachConfiguration": "client.compute.batch",
    "BatchCompute": "client.compute.batch",
    "ComputeInstance": "client.compute.instance",
    "ComputeInstanceProvisioningConfiguration": "client.compute.instance",
    "ComputeInstanceStatus": "client.compute.instance",
    "ComputeTarget": "client.compute.target",
    "ComputeTargetAttachConfiguration": "client.compute.target",
    "ComputeTargetException": "client.exceptions",
    "ComputeTargetProvisioningConfiguration": "client.compute.target",
    "ComputeTargetUpdateConfiguration": "client.compute.target",
    "CondaDependencies": "client.conda_dependencies",
    "Connection": "client.compute.connections",
    "ContainerRegistry": "client.environment_sections",
    "DEFAULT_CPU_IMAGE": "client.environment_sections",
    "DEFAULT_GPU_IMAGE": "client.environment_sections",
    "DataFactoryAttachConfiguration": "client.compute.others",
    "DataFactoryCompute": "client.compute.others",
    "DataFactoryProvisioningConfiguration": "client.compute.others",
    "DataLakeAnalyticsAttachConfiguration": "client.compute.adla",
    "DatabricksAttachConfiguration": "client.compute.databricks",
    "DatabricksCompute": "client.compute.databricks",
    "DatabricksEnvironment": "client.environment_sections",
    "DatabricksSection": "client.environment_sections",
    "DatasetTimestampMissingError": "client.exceptions",
    "DiscoveryUrlNotFoundException": "client.exceptions",
    "DockerBuildContext": "client.environment_sections",
    "DockerConfiguration": "client.runconfig_sections",
    "DockerEnvironment": "client.environment_sections",
    "DockerImagePlatform": "client.environment_sections",
    "DockerSection": "client.environment_sections",
    "DsvmCompute": "client.compute.remote",
    "DsvmProvisioningConfiguration": "client.compute.remote",
    "Environment": "client.environment",
    "EnvironmentDefinition": "client.environment",
    "EnvironmentReference": "client.environment",
    "Estimator": "client.submit.estimators",
    "Experiment": "client.experiment",
    "ExperimentExecutionException": "client.exceptions",
    "Gloo": "client.submit.estimators",
    "HDInsightAttachConfiguration": "client.compute.hdinsight",
    "HDInsightCompute": "client.compute.hdinsight",
    "HdiConfiguration": "client.runconfig_sections",
    "HistoryConfiguration": "client.runconfig_sections",
    "ImageBuildDetails": "client.preparation",
    "InteractiveLoginAuthentication": "client.authentication",
    "Keyvault": "client.keyvault",
    "KindAttachConfiguration": "client.compute.kind",
    "KindProvisioningConfiguration": "client.compute.kind",
    "KubernetesCompute": "client.compute.kubernetes",
    "KubernetesComputeAttachConfiguration": "client.compute.kubernetes",
    "KubernetesComputeConfiguration": "client.runconfig_sections",
    "KubernetesComputeStatus": "client.compute.kubernetes",
    "KustoAttachConfiguration": "client.compute.others",
    "KustoCompute": "client.compute.others",
    "LocalTarget": "client.compute.local_target",
    "Model": "client.model",
    "ModelNotFoundException": "client.exceptions",
    "ModelPathNotFoundException": "client.exceptions",
    "Mpi": "client.submit.estimators",
    "MpiConfiguration": "client.runconfig_sections",
    "MsiAuthentication": "client.authentication",
    "Nccl": "client.submit.estimators",
    "NotProvided": "client.exceptions",
    "ParallelRunException": "client.exceptions",
    "ParallelTaskConfiguration": "client.runconfig_sections",
    "ParameterServer": "client.submit.estimators",
    "ProjectSystemException": "client.exceptions",
    "PyTorch": "client.submit.estimators",
    "PyTorchConfiguration": "client.runconfig_sections",
    "PythonEnvironment": "client.environment_sections",
    "PythonSection": "client.environment_sections",
    "RUNNING_STATES": "client.runs.run_status",
    "RegistryIdentity": "client.environment_sections",
    "RemoteCompute": "client.compute.remote",
    "RemoteComputeAttachConfiguration": "client.compute.remote",
    "ResourceConfiguration": "client.resource_configuration",
    "Run": "client.run",
    "RunConfiguration": "client.runconfig",
    "RunConfigurationException": "client.exceptions",
    "RunDetails": "client.runs.run_widget",
    "RunEnvironmentException": "client.exceptions",
    "RunStatus": "client.runs.run_status",
    "SKLearn": "client.submit.estimators",
    "ScaleSettings": "client.compute.amlcompute",
    "ScriptRun": "client.run",
    "ScriptRunConfig": "client.script_run_config",
    "ServiceException": "client.exceptions",
    "ServicePrincipalAuthentication": "client.authentication",
    "SnapshotException": "client.exceptions",
    "SparkConfiguration": "client.runconfig_sections",
    "SparkEnvironment": "client.environment_sections",
    "SparkPackage": "client.environment_sections",
    "SparkSection": "client.environment_sections",
    "SslConfiguration": "client.compute.aks",
    "SynapseAttachConfiguration": "client.compute.others",
    "SynapseCompute": "client.compute.others",
    "SystemService": "client.compute.aks",
    "TensorFlow": "client.submit.estimators",
    "TensorflowConfiguration": "client.runconfig_sections",
    "TokenAuthentication": "client.authentication",
    "TrainingException": "client.exceptions",
    "UserErrorException": "client.exceptions",
    "VERSION": "_version",
    "ViewType": "client.experiment",
    "WebserviceException": "client.exceptions",
    "WindlassError": "core.errors",
    "Workspace": "client.workspace",
    "WorkspaceException": "client.exceptions",
    "WorkspacePrivateEndpointException": "client.exceptions",
    "_OfflineRun": "client.offline",
    "__version__": "_version",
    "get_run": "client.run",
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
    from windlass.client.unsupported import HINTS

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
