"""Run the same training script on any compute you can reach, and keep what happened.

The names of Azure ML's SDK, with its signatures. Each is imported when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from windlass._version import VERSION as VERSION
    from windlass._version import __version__ as __version__
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
    from windlass.client.compute.attached.adla import AdlaCompute as AdlaCompute
    from windlass.client.compute.attached.adla import (
        DataLakeAnalyticsAttachConfiguration as DataLakeAnalyticsAttachConfiguration,
    )
    from windlass.client.compute.attached.azure_services import (
        DataFactoryAttachConfiguration as DataFactoryAttachConfiguration,
    )
    from windlass.client.compute.attached.azure_services import DataFactoryCompute as DataFactoryCompute
    from windlass.client.compute.attached.azure_services import (
        DataFactoryProvisioningConfiguration as DataFactoryProvisioningConfiguration,
    )
    from windlass.client.compute.attached.azure_services import KustoAttachConfiguration as KustoAttachConfiguration
    from windlass.client.compute.attached.azure_services import KustoCompute as KustoCompute
    from windlass.client.compute.attached.azure_services import SynapseAttachConfiguration as SynapseAttachConfiguration
    from windlass.client.compute.attached.azure_services import SynapseCompute as SynapseCompute
    from windlass.client.compute.attached.batch import BatchAttachConfiguration as BatchAttachConfiguration
    from windlass.client.compute.attached.batch import BatchCompute as BatchCompute
    from windlass.client.compute.attached.connections import Connection as Connection
    from windlass.client.compute.attached.databricks import (
        DatabricksAttachConfiguration as DatabricksAttachConfiguration,
    )
    from windlass.client.compute.attached.databricks import DatabricksCompute as DatabricksCompute
    from windlass.client.compute.attached.hdinsight import HDInsightAttachConfiguration as HDInsightAttachConfiguration
    from windlass.client.compute.attached.hdinsight import HDInsightCompute as HDInsightCompute
    from windlass.client.compute.attached.kubernetes import KubernetesCompute as KubernetesCompute
    from windlass.client.compute.attached.kubernetes import (
        KubernetesComputeAttachConfiguration as KubernetesComputeAttachConfiguration,
    )
    from windlass.client.compute.attached.kubernetes import KubernetesComputeStatus as KubernetesComputeStatus
    from windlass.client.compute.attached.remote import DsvmCompute as DsvmCompute
    from windlass.client.compute.attached.remote import DsvmProvisioningConfiguration as DsvmProvisioningConfiguration
    from windlass.client.compute.attached.remote import RemoteCompute as RemoteCompute
    from windlass.client.compute.attached.remote import (
        RemoteComputeAttachConfiguration as RemoteComputeAttachConfiguration,
    )
    from windlass.client.compute.instance import ComputeInstance as ComputeInstance
    from windlass.client.compute.instance import (
        ComputeInstanceProvisioningConfiguration as ComputeInstanceProvisioningConfiguration,
    )
    from windlass.client.compute.instance import ComputeInstanceStatus as ComputeInstanceStatus
    from windlass.client.compute.kind import KindAttachConfiguration as KindAttachConfiguration
    from windlass.client.compute.kind import KindProvisioningConfiguration as KindProvisioningConfiguration
    from windlass.client.compute.local_target import AbstractComputeTarget as AbstractComputeTarget
    from windlass.client.compute.local_target import LocalTarget as LocalTarget
    from windlass.client.compute.target import ComputeTarget as ComputeTarget
    from windlass.client.compute.target import ComputeTargetAttachConfiguration as ComputeTargetAttachConfiguration
    from windlass.client.compute.target import (
        ComputeTargetProvisioningConfiguration as ComputeTargetProvisioningConfiguration,
    )
    from windlass.client.compute.target import ComputeTargetUpdateConfiguration as ComputeTargetUpdateConfiguration
    from windlass.client.config.run_configuration import RunConfiguration as RunConfiguration
    from windlass.client.config.run_sections import AmlComputeConfiguration as AmlComputeConfiguration
    from windlass.client.config.run_sections import ApplicationEndpointConfiguration as ApplicationEndpointConfiguration
    from windlass.client.config.run_sections import DockerConfiguration as DockerConfiguration
    from windlass.client.config.run_sections import HdiConfiguration as HdiConfiguration
    from windlass.client.config.run_sections import HistoryConfiguration as HistoryConfiguration
    from windlass.client.config.run_sections import KubernetesComputeConfiguration as KubernetesComputeConfiguration
    from windlass.client.config.run_sections import MpiConfiguration as MpiConfiguration
    from windlass.client.config.run_sections import ParallelTaskConfiguration as ParallelTaskConfiguration
    from windlass.client.config.run_sections import PyTorchConfiguration as PyTorchConfiguration
    from windlass.client.config.run_sections import SparkConfiguration as SparkConfiguration
    from windlass.client.config.run_sections import TensorflowConfiguration as TensorflowConfiguration
    from windlass.client.config.variables_file import load_variables as load_variables
    from windlass.client.environments.build import ImageBuildDetails as ImageBuildDetails
    from windlass.client.environments.conda_dependencies import CondaDependencies as CondaDependencies
    from windlass.client.environments.environment import Environment as Environment
    from windlass.client.environments.environment import EnvironmentDefinition as EnvironmentDefinition
    from windlass.client.environments.environment import EnvironmentReference as EnvironmentReference
    from windlass.client.environments.sections import DEFAULT_CPU_IMAGE as DEFAULT_CPU_IMAGE
    from windlass.client.environments.sections import DEFAULT_GPU_IMAGE as DEFAULT_GPU_IMAGE
    from windlass.client.environments.sections import AzureContainerRegistry as AzureContainerRegistry
    from windlass.client.environments.sections import ContainerRegistry as ContainerRegistry
    from windlass.client.environments.sections import DatabricksEnvironment as DatabricksEnvironment
    from windlass.client.environments.sections import DatabricksSection as DatabricksSection
    from windlass.client.environments.sections import DockerBuildContext as DockerBuildContext
    from windlass.client.environments.sections import DockerEnvironment as DockerEnvironment
    from windlass.client.environments.sections import DockerImagePlatform as DockerImagePlatform
    from windlass.client.environments.sections import DockerSection as DockerSection
    from windlass.client.environments.sections import PythonEnvironment as PythonEnvironment
    from windlass.client.environments.sections import PythonSection as PythonSection
    from windlass.client.environments.sections import RegistryIdentity as RegistryIdentity
    from windlass.client.environments.sections import SparkEnvironment as SparkEnvironment
    from windlass.client.environments.sections import SparkPackage as SparkPackage
    from windlass.client.environments.sections import SparkSection as SparkSection
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
    from windlass.client.models.model import Model as Model
    from windlass.client.notebook.run_widget import RunDetails as RunDetails
    from windlass.client.runs.offline_run import _OfflineRun as _OfflineRun
    from windlass.client.runs.run import Run as Run
    from windlass.client.runs.run import ScriptRun as ScriptRun
    from windlass.client.runs.run import get_run as get_run
    from windlass.client.runs.run_status import RUNNING_STATES as RUNNING_STATES
    from windlass.client.runs.run_status import RunStatus as RunStatus
    from windlass.client.submit.estimators import Estimator as Estimator
    from windlass.client.submit.estimators import Gloo as Gloo
    from windlass.client.submit.estimators import Mpi as Mpi
    from windlass.client.submit.estimators import Nccl as Nccl
    from windlass.client.submit.estimators import ParameterServer as ParameterServer
    from windlass.client.submit.estimators import PyTorch as PyTorch
    from windlass.client.submit.estimators import SKLearn as SKLearn
    from windlass.client.submit.estimators import TensorFlow as TensorFlow
    from windlass.client.submit.resource_configuration import ResourceConfiguration as ResourceConfiguration
    from windlass.client.submit.script_run_config import ScriptRunConfig as ScriptRunConfig
    from windlass.client.workspace.authentication import AbstractAuthentication as AbstractAuthentication
    from windlass.client.workspace.authentication import ArmTokenAuthentication as ArmTokenAuthentication
    from windlass.client.workspace.authentication import Audience as Audience
    from windlass.client.workspace.authentication import AzureCliAuthentication as AzureCliAuthentication
    from windlass.client.workspace.authentication import AzureMLTokenAuthentication as AzureMLTokenAuthentication
    from windlass.client.workspace.authentication import (
        InteractiveLoginAuthentication as InteractiveLoginAuthentication,
    )
    from windlass.client.workspace.authentication import MsiAuthentication as MsiAuthentication
    from windlass.client.workspace.authentication import (
        ServicePrincipalAuthentication as ServicePrincipalAuthentication,
    )
    from windlass.client.workspace.authentication import TokenAuthentication as TokenAuthentication
    from windlass.client.workspace.keyvault import Keyvault as Keyvault
    from windlass.client.workspace.workspace import Workspace as Workspace
    from windlass.core.errors import WindlassError as WindlassError

_MODULES = {
    "AbstractAuthentication": "client.workspace.authentication",
    "AbstractComputeTarget": "client.compute.local_target",
    "ActivityFailedException": "client.exceptions",
    "AdlaCompute": "client.compute.attached.adla",
    "AksAttachConfiguration": "client.compute.aks",
    "AksCompute": "client.compute.aks",
    "AksProvisioningConfiguration": "client.compute.aks",
    "AksUpdateConfiguration": "client.compute.aks",
    "AmlCompute": "client.compute.amlcompute",
    "AmlComputeConfiguration": "client.config.run_sections",
    "AmlComputeNodeStateCounts": "client.compute.amlcompute",
    "AmlComputeProvisioningConfiguration": "client.compute.amlcompute",
    "AmlComputeStatus": "client.compute.amlcompute",
    "ApplicationEndpointConfiguration": "client.config.run_sections",
    "ArmTokenAuthentication": "client.workspace.authentication",
    "Audience": "client.workspace.authentication",
    "AuthenticationException": "client.exceptions",
    "AzureCliAuthentication": "client.workspace.authentication",
    "AzureContainerRegistry": "client.environments.sections",
    "AzureMLAggregatedException": "client.exceptions",
    "AzureMLException": "client.exceptions",
    "AzureMLTokenAuthentication": "client.workspace.authentication",
    "BatchAiCompute": "client.compute.amlcompute",
    "BatchAttachConfiguration": "client.compute.attached.batch",
    "BatchCompute": "client.compute.attached.batch",
    "ComputeInstance": "client.compute.instance",
    "ComputeInstanceProvisioningConfiguration": "client.compute.instance",
    "ComputeInstanceStatus": "client.compute.instance",
    "ComputeTarget": "client.compute.target",
    "ComputeTargetAttachConfiguration": "client.compute.target",
    "ComputeTargetException": "client.exceptions",
    "ComputeTargetProvisioningConfiguration": "client.compute.target",
    "ComputeTargetUpdateConfiguration": "client.compute.target",
    "CondaDependencies": "client.environments.conda_dependencies",
    "Connection": "client.compute.attached.connections",
    "ContainerRegistry": "client.environments.sections",
    "DEFAULT_CPU_IMAGE": "client.environments.sections",
    "DEFAULT_GPU_IMAGE": "client.environments.sections",
    "DataFactoryAttachConfiguration": "client.compute.attached.azure_services",
    "DataFactoryCompute": "client.compute.attached.azure_services",
    "DataFactoryProvisioningConfiguration": "client.compute.attached.azure_services",
    "DataLakeAnalyticsAttachConfiguration": "client.compute.attached.adla",
    "DatabricksAttachConfiguration": "client.compute.attached.databricks",
    "DatabricksCompute": "client.compute.attached.databricks",
    "DatabricksEnvironment": "client.environments.sections",
    "DatabricksSection": "client.environments.sections",
    "DatasetTimestampMissingError": "client.exceptions",
    "DiscoveryUrlNotFoundException": "client.exceptions",
    "DockerBuildContext": "client.environments.sections",
    "DockerConfiguration": "client.config.run_sections",
    "DockerEnvironment": "client.environments.sections",
    "DockerImagePlatform": "client.environments.sections",
    "DockerSection": "client.environments.sections",
    "DsvmCompute": "client.compute.attached.remote",
    "DsvmProvisioningConfiguration": "client.compute.attached.remote",
    "Environment": "client.environments.environment",
    "EnvironmentDefinition": "client.environments.environment",
    "EnvironmentReference": "client.environments.environment",
    "Estimator": "client.submit.estimators",
    "Experiment": "client.experiment",
    "ExperimentExecutionException": "client.exceptions",
    "Gloo": "client.submit.estimators",
    "HDInsightAttachConfiguration": "client.compute.attached.hdinsight",
    "HDInsightCompute": "client.compute.attached.hdinsight",
    "HdiConfiguration": "client.config.run_sections",
    "HistoryConfiguration": "client.config.run_sections",
    "ImageBuildDetails": "client.environments.build",
    "InteractiveLoginAuthentication": "client.workspace.authentication",
    "Keyvault": "client.workspace.keyvault",
    "KindAttachConfiguration": "client.compute.kind",
    "KindProvisioningConfiguration": "client.compute.kind",
    "KubernetesCompute": "client.compute.attached.kubernetes",
    "KubernetesComputeAttachConfiguration": "client.compute.attached.kubernetes",
    "KubernetesComputeConfiguration": "client.config.run_sections",
    "KubernetesComputeStatus": "client.compute.attached.kubernetes",
    "KustoAttachConfiguration": "client.compute.attached.azure_services",
    "KustoCompute": "client.compute.attached.azure_services",
    "LocalTarget": "client.compute.local_target",
    "Model": "client.models.model",
    "ModelNotFoundException": "client.exceptions",
    "ModelPathNotFoundException": "client.exceptions",
    "Mpi": "client.submit.estimators",
    "MpiConfiguration": "client.config.run_sections",
    "MsiAuthentication": "client.workspace.authentication",
    "Nccl": "client.submit.estimators",
    "NotProvided": "client.exceptions",
    "ParallelRunException": "client.exceptions",
    "ParallelTaskConfiguration": "client.config.run_sections",
    "ParameterServer": "client.submit.estimators",
    "ProjectSystemException": "client.exceptions",
    "PyTorch": "client.submit.estimators",
    "PyTorchConfiguration": "client.config.run_sections",
    "PythonEnvironment": "client.environments.sections",
    "PythonSection": "client.environments.sections",
    "RUNNING_STATES": "client.runs.run_status",
    "RegistryIdentity": "client.environments.sections",
    "RemoteCompute": "client.compute.attached.remote",
    "RemoteComputeAttachConfiguration": "client.compute.attached.remote",
    "ResourceConfiguration": "client.submit.resource_configuration",
    "Run": "client.runs.run",
    "RunConfiguration": "client.config.run_configuration",
    "RunConfigurationException": "client.exceptions",
    "RunDetails": "client.notebook.run_widget",
    "RunEnvironmentException": "client.exceptions",
    "RunStatus": "client.runs.run_status",
    "SKLearn": "client.submit.estimators",
    "ScaleSettings": "client.compute.amlcompute",
    "ScriptRun": "client.runs.run",
    "ScriptRunConfig": "client.submit.script_run_config",
    "ServiceException": "client.exceptions",
    "ServicePrincipalAuthentication": "client.workspace.authentication",
    "SnapshotException": "client.exceptions",
    "SparkConfiguration": "client.config.run_sections",
    "SparkEnvironment": "client.environments.sections",
    "SparkPackage": "client.environments.sections",
    "SparkSection": "client.environments.sections",
    "SslConfiguration": "client.compute.aks",
    "SynapseAttachConfiguration": "client.compute.attached.azure_services",
    "SynapseCompute": "client.compute.attached.azure_services",
    "SystemService": "client.compute.aks",
    "TensorFlow": "client.submit.estimators",
    "TensorflowConfiguration": "client.config.run_sections",
    "TokenAuthentication": "client.workspace.authentication",
    "TrainingException": "client.exceptions",
    "UserErrorException": "client.exceptions",
    "VERSION": "_version",
    "ViewType": "client.experiment",
    "WebserviceException": "client.exceptions",
    "WindlassError": "core.errors",
    "Workspace": "client.workspace.workspace",
    "WorkspaceException": "client.exceptions",
    "WorkspacePrivateEndpointException": "client.exceptions",
    "_OfflineRun": "client.runs.offline_run",
    "__version__": "_version",
    "get_run": "client.runs.run",
    "load_variables": "client.config.variables_file",
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
