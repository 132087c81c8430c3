"""What public code uses of Azure's internal clients."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
