"""Automated machine learning."""

from ...._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    CLASSIFICATION_SCALAR_SET CONDA_ENV_FILE_PATH ImageTask MODEL_PATH MODEL_RESOURCE_PATH_ONNX Metric
    PROPERTY_KEY_OF_MODEL_PATH PT_MODEL_FILENAME REGRESSION_SCALAR_SET RunState TimeSeries TimeSeriesInternal
    """,
)
