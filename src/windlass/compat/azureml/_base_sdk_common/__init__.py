"""Names of Azure's internal clients that public code uses."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
