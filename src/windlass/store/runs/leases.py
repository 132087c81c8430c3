"""Leases: time-limited ownership of runs by servers. Each new lease of a run has a higher fence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, bindparam, null, or_, select, update

from windlass.core.entities import Allocation
from windlass.core.states import Intent
from windlass.store.db.base import lease_clock
from windlass.store.db.schema import QueueState, runs
from windlass.store.runs import allocations
from windlass.store.runs.records import Leased
from windlass.store.runs.rows import leased_of

_AT_ONCE = 5000  # databases bound the number of parameters

_is_dispatched = runs.c.queue_state == QueueState.DISPATCHED
_UNOWNED = (
    select(runs.c.pk)
    .where(_is_dispatched, or_(runs.c.owner.is_(None), runs.c.lease_until < lease_clock()))
    .where((runs.c.workspace + "/" + runs.c.target).not_in(bindparam("elsewhere", expanding=True)))
    .order_by(runs.c.pk)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_ALL = select(runs.c.pk).where(_is_dispatched)
_claim = {"owner": bindparam("by"), "lease_until": lease_clock() + bindparam("lease"), "fence": runs.c.fence + 1}
_CLAIM = update(runs).where(runs.c.pk == bindparam("of")).values(**_claim)
_RENEW = (
    update(runs)
    .where(_is_dispatched, runs.c.owner == bindparam("by"))
    .values(lease_until=lease_clock() + bindparam("lease"))
    .returning(runs.c.id)
)
_RENEW_SOME = _RENEW.where(runs.c.id.in_(bindparam("held", expanding=True)))
_STOP_REQUESTS = select(runs.c.id, runs.c.intent, runs.c.eviction).where(
    _is_dispatched,
    runs.c.owner == bindparam("by"),
    or_(runs.c.intent == Intent.CANCEL, runs.c.eviction.is_not(None)),
)
_RELEASE = update(runs).where(_is_dispatched, runs.c.owner == bindparam("by")).values(owner=null(), lease_until=null())


def lease(
    connection: Connection, owner: str, lease_seconds: float, limit: int, elsewhere: Sequence[tuple[str, str]]
) -> list[Leased]:
    """Lease runs without an owner or with an expired lease, except those of the targets (workspace, name)
    `elsewhere`.
    """
    asked = {"most": limit, "elsewhere": [f"{workspace}/{target}" for workspace, target in elsewhere]}
    return _claim_all(connection, list(connection.execute(_UNOWNED, asked).scalars()), owner, lease_seconds)


def take_over(connection: Connection, owner: str, lease_seconds: float) -> list[Leased]:
    """Lease all dispatched runs, for the only server of a database: their earlier owners are dead."""
    return _claim_all(connection, list(connection.execute(_ALL).scalars()), owner, lease_seconds)


def renew(connection: Connection, owner: str, lease_seconds: float, held: Sequence[str] | None) -> set[str]:
    renewal = {"by": owner, "lease": int(lease_seconds * 1e6)}
    if held is None:
        return set(connection.execute(_RENEW, renewal).scalars())
    renewed: set[str] = set()
    for start in range(0, len(held), _AT_ONCE):
        piece = {"held": held[start : start + _AT_ONCE]}
        renewed.update(connection.execute(_RENEW_SOME, renewal | piece).scalars())
    return renewed


def stop_requests(connection: Connection, owner: str) -> dict[str, tuple[Intent, str | None]]:
    """Runs of this owner that are to be canceled or evicted, whichever server got the request."""
    return {row.id: (row.intent, row.eviction) for row in connection.execute(_STOP_REQUESTS, {"by": owner})}


def release(connection: Connection, owner: str) -> None:
    connection.execute(_RELEASE, {"by": owner})


def _claim_all(connection: Connection, pks: list[int], owner: str, lease_seconds: float) -> list[Leased]:
    if pks:
        lease = int(lease_seconds * 1e6)
        connection.execute(_CLAIM, [{"of": pk, "by": owner, "lease": lease} for pk in pks])
    allocated = allocations.of_runs(connection, pks)
    found = leased_of(connection, pks)
    return [replace(leased, allocation=allocated.get(pk, Allocation())) for pk, leased in zip(pks, found, strict=True)]
