"""Packages for Azure Functions."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "package_blob package_http package_service_bus_queue")
