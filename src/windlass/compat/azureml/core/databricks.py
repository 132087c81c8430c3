"""Libraries of Databricks clusters."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    DatabricksCluster DatabricksEnvironment DatabricksSection EggLibrary JarLibrary MavenLibrary PyPiLibrary
    RCranLibrary
    """,
)
