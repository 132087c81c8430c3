"""Images of web services, in the first versions of the SDK."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "UnknownImage")
