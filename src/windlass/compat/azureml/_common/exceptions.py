"""Exceptions, under the path that Azure's own packages import."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "AzureMLAggregatedException AzureMLException")
