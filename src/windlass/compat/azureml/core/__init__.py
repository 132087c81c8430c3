"""The most used classes."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    ComputeTarget CondaDependencies ContainerRegistry DatabricksCluster Dataset Datastore Environment Experiment Image
    Keyvault LinkedService Model PrivateEndPoint PrivateEndPointConfig Run RunConfiguration ScriptRun ScriptRunConfig
    SynapseWorkspaceLinkedServiceConfiguration VERSION Webservice Workspace get_run
    """,
)
