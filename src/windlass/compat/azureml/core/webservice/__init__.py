"""Web services."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    AciServiceDeploymentConfiguration AciWebservice AksEndpoint AksEndpointDeploymentConfiguration
    AksServiceAccessToken AksServiceDeploymentConfiguration AksWebservice AutoScaler ContainerResourceRequirements
    DataCollection EncryptionProperties LivenessProbeRequirements LocalWebservice
    LocalWebserviceDeploymentConfiguration UnknownWebservice VnetConfiguration WebServiceAccessToken Webservice
    WebserviceDeploymentConfiguration WebserviceException
    """,
)
