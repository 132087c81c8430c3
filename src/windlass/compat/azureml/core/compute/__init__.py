"""Compute targets."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    AdlaCompute AksAttachConfiguration AksCompute AksProvisioningConfiguration AksUpdateConfiguration AmlCompute
    AmlComputeNodeStateCounts AmlComputeProvisioningConfiguration AmlComputeStatus BatchAiCompute
    BatchAttachConfiguration BatchCompute ComputeInstance ComputeInstanceProvisioningConfiguration
    ComputeInstanceStatus ComputeTarget ComputeTargetAttachConfiguration ComputeTargetException
    ComputeTargetProvisioningConfiguration ComputeTargetUpdateConfiguration DataFactoryAttachConfiguration
    DataFactoryCompute DataFactoryProvisioningConfiguration DataLakeAnalyticsAttachConfiguration
    DatabricksAttachConfiguration DatabricksCompute DsvmCompute DsvmProvisioningConfiguration
    HDInsightAttachConfiguration HDInsightCompute KubernetesCompute KubernetesComputeAttachConfiguration
    KubernetesComputeStatus KustoAttachConfiguration KustoCompute RemoteCompute RemoteComputeAttachConfiguration
    ScaleSettings SslConfiguration SynapseAttachConfiguration SynapseCompute SystemService
    """,
)
