"""How many connections the HTTP server holds: in all, without a valid token, and without one from one address.

A connection counts as unauthenticated until a request on it had a valid token. Unauthenticated connections can use a
quarter of all slots, so that the rest is a reserve for authenticated ones. When they have used it up, a new connection
replaces the oldest idle one, so that a request that is sent at once (a sign-in, a health check) is always served.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
import time
from dataclasses import dataclass
from typing import Protocol

log = logging.getLogger(__name__)

_REPORT_SECONDS = 60.0


class Closable(Protocol):
    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""

    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    in_all: int
    unauthenticated: int
    unauthenticated_per_address: int

    @classmethod
    def of_process(cls, most: int, behind_proxy: bool) -> Limits:
        """At most half of the process's file descriptors: files, databases and targets need the others."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        in_all = max(8, most if soft == resource.RLIM_INFINITY else min(most, soft // 2))
        unauthenticated = in_all // 4
        # Behind a proxy, all connections have the address of the proxy.
        return cls(in_all, unauthenticated, unauthenticated if behind_proxy else max(1, unauthenticated // 2))


class ConnectionSlot:
    """One accepted connection's entry in the table."""

    def __init__(self, table: ConnectionTable, address: str, connection: Closable) -> None:
        self.address = address
        self.connection = connection
        self.is_authenticated = False
        self._table = table

    def authenticate(self) -> None:
        """A request on this connection had a valid token."""
        if not self.is_authenticated:
            self.is_authenticated = True
            self._table.move(self)

    def release(self) -> None:
        self._table.remove(self)


class ConnectionTable:
    """All connections of one server. Used by the event loop's thread only."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        # Dictionaries without values: ordered by age, and quick to remove from.
        self._unauthenticated: dict[str, dict[ConnectionSlot, None]] = {}
        self._authenticated: dict[ConnectionSlot, None] = {}
        self._count = 0
        self._rejected = 0
        self._reported_at = -_REPORT_SECONDS

    def __len__(self) -> int:
        """Unauthenticated and authenticated connections."""
        return self._count + len(self._authenticated)

    def enter(self, host: str, connection: Closable) -> ConnectionSlot | None:
        """A slot for a new connection, if necessary by evicting an idle one; None if all are in use."""
        address = _network(host)
        same = self._unauthenticated.get(address, {})
        if len(same) >= self.limits.unauthenticated_per_address:
            self._evict(same)
        elif self._count >= self.limits.unauthenticated:
            self._evict(max(self._unauthenticated.values(), key=len))
        elif len(self) >= self.limits.in_all and not self.evict_idle():
            self._report()
            return None
        slot = ConnectionSlot(self, address, connection)
        self._unauthenticated.setdefault(address, {})[slot] = None
        self._count += 1
        return slot

    def evict_idle(self) -> bool:
        """Close one connection that waits for a request, an unauthenticated one first."""
        if self._count:
            self._evict(max(self._unauthenticated.values(), key=len))
            return True
        idle = next((slot for slot in self._authenticated if slot.connection.is_idle), None)
        if idle is not None:
            self._close(idle)
        return idle is not None

    def move(self, slot: ConnectionSlot) -> None:
        if self._drop_unauthenticated(slot):
            self._authenticated[slot] = None

    def remove(self, slot: ConnectionSlot) -> None:
        self._drop_unauthenticated(slot)
        self._authenticated.pop(slot, None)

    def _evict(self, slots: dict[ConnectionSlot, None]) -> None:
        """Close the oldest of these: an idle one, or, if each has a request, the first."""
        self._close(next((slot for slot in slots if slot.connection.is_idle), next(iter(slots))))

    def _close(self, slot: ConnectionSlot) -> None:
        self.remove(slot)
        slot.connection.abort()
        self._report()

    def _drop_unauthenticated(self, slot: ConnectionSlot) -> bool:
        same = self._unauthenticated.get(slot.address, {})
        if slot not in same:
            return False
        del same[slot]
        if not same:
            del self._unauthenticated[slot.address]
        self._count -= 1
        return True

    def _report(self) -> None:
        """Log one line per minute, however many connections were rejected."""
        self._rejected += 1
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            log.warning(
                "connection limit reached: closed=%d open=%d unauthenticated=%d limit=%d",
                self._rejected,
                len(self),
                self._count,
                self.limits.in_all,
            )
            self._reported_at, self._rejected = now, 0


def _network(host: str) -> str:
    """The address that limits are counted by: for IPv6 its /64 network, since one machine may use all of that."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.exploded[:19]
