"""Models."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    Dataset Environment InferenceConfig Model ModelNotFoundException ModelPackage Run UserErrorException
    WebserviceException Workspace
    """,
)
