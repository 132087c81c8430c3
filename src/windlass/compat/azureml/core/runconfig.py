"""Run configurations."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    AmlComputeConfiguration ApplicationEndpointConfiguration AzureContainerRegistry CondaDependencies
    ContainerRegistry DEFAULT_CPU_IMAGE DEFAULT_GPU_IMAGE DEFAULT_MMLSPARK_CPU_IMAGE Data DataLocation DataPath
    DataReferenceConfiguration DatacacheConfiguration Dataset DatasetRegistrationOptions DockerConfiguration
    Environment EnvironmentDefinition GlobsOptions HdiConfiguration HistoryConfiguration JarLibrary
    KubernetesComputeConfiguration MountOptions MpiConfiguration OutputData OutputOptions ParallelTaskConfiguration
    PyPiLibrary PyTorchConfiguration RegistrationOptions RunConfiguration RunConfigurationException SparkConfiguration
    TensorflowConfiguration UploadOptions Uri UserErrorException
    """,
)
