"""Registry of the kinds of compute targets. A module of `kinds/` that does not start with "_" is a kind and ends in
`DRIVER = ...`. Other packages add kinds by the entry point group `windlass.drivers`."""

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
    """The names of all kinds, without importing any of them. Those not for users say so: `load(kind).is_internal`."""
    return tuple(sorted({*_ours(), *_theirs()}))


def load(kind: str) -> type[Driver[Any]]:
    """The driver of a kind, imported now. A missing package of a third party answers with the line to type."""
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
        raise InternalError(f"The driver found for the kind {kind} does not call itself so.")
    return driver


def unconnected(kind: str, name: str, config: Mapping[str, Any]) -> Driver[Any]:
    """The driver of a target, to be asked about its configuration only: it has no secrets and no connections."""
    driver = load(kind)
    return driver(name, driver.config_model(**config), _NoSecrets(), open_pool())


def open_pool(server: ServerAddress | None = None) -> ConnectionPool:
    """The connections that a server keeps for its drivers; close() them at the end. Scripts are relayed to `server`."""
    from windlass.drivers.connection_pool import BackoffPool

    return BackoffPool(server=server)


class _NoSecrets:
    def get(self, name: str) -> SecretStr:
        raise NotFound(f"There is no secret {name}.")


def _load(kind: str) -> type[Driver[Any]]:
    # Ours first: a package of others cannot stand in for a kind that we ship.
    if kind in _ours():
        module = importlib.import_module(f"{kinds.__name__}.{kind}")
        driver: type[Driver[Any]] = module.DRIVER
        return driver
    loaded: type[Driver[Any]] = _theirs()[kind].load()
    return loaded


@functools.cache
def _ours() -> frozenset[str]:
    names = (module.name for module in pkgutil.iter_modules(kinds.__path__))
    return frozenset(name for name in names if not name.startswith("_"))


@functools.cache
def _theirs() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_GROUP)}
