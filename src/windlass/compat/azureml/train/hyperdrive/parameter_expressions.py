"""Sweeps."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    choice lognormal loguniform normal qlognormal qloguniform qnormal quniform randint uniform
    """,
)
