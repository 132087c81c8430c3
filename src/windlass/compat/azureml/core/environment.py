"""Environments."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    CondaDependencies ContainerRegistry DEFAULT_CPU_IMAGE DEFAULT_GPU_IMAGE DockerBuildContext DockerEnvironment
    DockerImageDetails DockerImagePlatform DockerSection Environment EnvironmentReference ImageBuildDetails
    PythonEnvironment PythonSection RCranPackage RGitHubPackage RSection SparkEnvironment SparkPackage SparkSection
    UserErrorException
    """,
)
