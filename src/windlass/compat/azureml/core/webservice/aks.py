"""Web services."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    AksEndpoint AksEndpointDeploymentConfiguration AksServiceAccessToken AksServiceDeploymentConfiguration
    AksWebservice AutoScaler ContainerResourceRequirements DataCollection LivenessProbeRequirements
    """,
)
