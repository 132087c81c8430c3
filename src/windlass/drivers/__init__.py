"""Registry of driver kinds. Each module in `kinds/` without a leading "_" is a kind, and ends in `DRIVER = ...`. Other
packages register kinds by the entry point group `windlass.drivers`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from windlass.core.errors import InternalError, NotFound, SpecNotSupported
from windlass.drivers import kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from windlass.drivers.base import ConnectionPool, Driver, ServerAddress

_GROUP = "windlass.drivers"


def known_kinds() -> tuple[str, ...]:
    """Names of all kinds, without importing any. Includes those for tests only: `load(kind).is_internal`."""
    return tuple(sorted({*_built_in(), *_registered()}))


def load(kind: str) -> type[Driver[Any]]:
    """Import the driver of a kind. If a third-party package is missing, the error has the command to install it."""
    if kind not in known_kinds():
        raise NotFound(f"There is no kind of target {kind!r}.", hint=f"There are: {', '.join(known_kinds())}.")
    try:
        driver = _load(kind)
    except ModuleNotFoundError as e:
        if e.name is None or e.name.partition(".")[0] == "windlass":
            raise
        raise SpecNotSupported(
            f"Targets of kind {kind} need the Python package {e.name}, which is not installed here.",
            hint=f"Install it: pip install 'windlass[{kind}]'",
        ) from e
    if getattr(driver, "kind", None) != kind:
        raise InternalError(f"The driver that is registered for the kind {kind} has another kind.")
    return driver


def unconnected(kind: str, name: str, config: Mapping[str, Any]) -> Driver[Any]:
    """A driver without secrets and with an empty connection pool, for questions about the configuration of a target."""
    driver = load(kind)
    return driver(name, driver.config_model(**config), _NoSecrets(), open_pool())


def open_pool(server: ServerAddress | None = None) -> ConnectionPool:
    """Create the connection pool of a server; close() it at the end. Requests of scripts are relayed to `server`."""
    from windlass.drivers.connection_pool import BackoffPool

    return BackoffPool(server=server)


class _NoSecrets:
    def get(self, name: str) -> SecretStr:
        raise NotFound(f"There is no secret {name}.")


def _load(kind: str) -> type[Driver[Any]]:
    # Built-in kinds first: another package cannot replace them.
    if kind in _built_in():
        module = importlib.import_module(f"{kinds.__name__}.{kind}")
        driver: type[Driver[Any]] = module.DRIVER
        return driver
    loaded: type[Driver[Any]] = _registered()[kind].load()
    return loaded


@functools.cache
def _built_in() -> frozenset[str]:
    names = (module.name for module in pkgutil.iter_modules(kinds.__path__))
    return frozenset(name for name in names if not name.startswith("_"))


@functools.cache
def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_GROUP)}
