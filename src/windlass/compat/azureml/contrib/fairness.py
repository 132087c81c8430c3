"""Model fairness."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "download_dashboard_by_upload_id upload_dashboard_dictionary")
