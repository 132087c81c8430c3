"""Authentication."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    AbstractAuthentication ArmTokenAuthentication Audience AuthenticationException AzureCliAuthentication
    AzureMLTokenAuthentication InteractiveLoginAuthentication MsiAuthentication ServicePrincipalAuthentication
    TokenAuthentication UserErrorException
    """,
)
