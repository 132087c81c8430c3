"""Automated machine learning."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    CLASSIFICATION_SCALAR_SET CONDA_ENV_FILE_PATH MODEL_RESOURCE_PATH_ONNX Metric REGRESSION_SCALAR_SET RunState
    Scenarios TimeSeries
    """,
)
