"""Exceptions."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    ActivityFailedException AuthenticationException AzureMLAggregatedException AzureMLException ComputeTargetException
    DatasetTimestampMissingError DiscoveryUrlNotFoundException ExperimentExecutionException ModelNotFoundException
    ModelPathNotFoundException ParallelRunException ProjectSystemException RunConfigurationException
    RunEnvironmentException ServiceException SnapshotException TrainingException UserErrorException
    WebserviceException WorkspaceException WorkspacePrivateEndpointException
    """,
)
