"""Images of services, as the first versions of the SDK had them."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "UnknownImage")
