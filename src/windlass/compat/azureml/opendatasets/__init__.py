"""Public data."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    Diabetes MNIST NoaaIsdWeather NycTlcGreen NycTlcYellow OjSalesSimulated PublicHolidays
    """,
)
