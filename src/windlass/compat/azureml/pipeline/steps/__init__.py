"""Pipelines."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    AdlaStep AutoMLStep AutoMLStepRun AzureBatchStep CommandStep DataTransferStep DatabricksStep EstimatorStep
    HyperDriveStep HyperDriveStepRun KustoStep ModuleStep MpiStep ParallelRunConfig ParallelRunStep PythonScriptStep
    RScriptStep SynapseSparkStep
    """,
)
