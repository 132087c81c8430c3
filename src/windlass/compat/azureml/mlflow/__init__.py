"""MLflow."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    get_mlflow_tracking_uri get_mlflow_tracking_uri_v2 get_portal_url register_model
    """,
)
