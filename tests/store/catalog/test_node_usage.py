"""Node usage (allocations and node times), and quotas."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from tests.store.makers import finish, submit
from windlass.core.entities import Allocation, NodeShare
from windlass.core.errors import NotFound
from windlass.store import Store
from windlass.store.db.column_types import now
from windlass.store.db.schema import allocations, attempts, nodes, runs


def give(store: Store, run: str, node: str, seconds: float = 0.0, ordinal: int = 0) -> None:
    """Let a run have a share of a node since so many seconds."""
    share = {"millicores": 1500, "memory_mb": 512, "gpus": [1]}

    def act(connection):  # type: ignore[no-untyped-def]
        pk, target = connection.execute(select(runs.c.pk, runs.c.target).where(runs.c.id == run)).one()
        since = now() - timedelta(seconds=seconds)
        connection.execute(allocations.delete().where(allocations.c.run == pk, allocations.c.ordinal == ordinal))
        values = {"workspace": "default", "target": target, "node": node, "machine": "m", "since": since, **share}
        connection.execute(insert(allocations).values(run=pk, ordinal=ordinal, **values))

    store._database.write(act)


def spend(store: Store, run: str, seconds: float) -> None:
    pk = select(runs.c.pk).where(runs.c.id == run).scalar_subquery()
    change = update(attempts).where(attempts.c.run == pk).values(node_seconds=seconds)
    store._database.write(lambda c: c.execute(change))


def add_node(store: Store, id: str, state: str = "ready") -> None:
    row = {"machine": "m", "is_low_priority": False, "millicores": 2000, "memory_mb": 7168, "gpus": 0, "message": ""}
    values = {"workspace": "default", "target": "other", "id": id, "state": state, "created_at": now(), **row}
    store._database.write(lambda c: c.execute(insert(nodes).values(**values)))


def test_an_active_run_shows_its_shares(store: Store) -> None:
    submit(store, "one", target="other")
    give(store, "one", "n0")
    give(store, "one", "n1", ordinal=1)
    share = NodeShare("n0", 1.5, 512, (1,))
    assert store.node_usage.allocation("one") == Allocation((share, NodeShare("n1", 1.5, 512, (1,))))


def test_nodes_are_counted_in_azures_words(store: Store) -> None:
    submit(store, "one", target="other")
    for id, state in (("n0", "ready"), ("n1", "ready"), ("n2", "ready"), ("n3", "preparing"), ("n4", "preempted")):
        add_node(store, id, state)
    give(store, "one", "n1")
    counted = {"idle": 2, "running": 1, "preparing": 1, "preempted": 1}
    assert store.node_usage.node_counts("default") == {"other": counted}


def test_node_time_is_that_of_attempts_that_ended_and_of_nodes_that_are_held(store: Store) -> None:
    for id in ("old", "long", "now"):
        submit(store, id, target="other")
    submit(store, "none")  # on a target without nodes
    for id, seconds in (("old", 5.0), ("long", 7200.0)):
        finish(store, id)
        spend(store, id, seconds)
    give(store, "now", "n0", seconds=100)
    give(store, "now", "n1", seconds=100, ordinal=1)
    found = store.node_usage.node_times("default")
    assert [(each.run, each.target) for each in found] == [("long", "other"), ("now", "other"), ("old", "other")]
    assert [each.seconds for each in found] == [7200.0, pytest.approx(200, abs=60), 5.0]
    assert store.node_usage.node_times("default", target="local") == []
    assert store.node_usage.node_times("default", since=now() + timedelta(hours=1)) == []


def test_a_quota_is_set_changed_and_removed(store: Store) -> None:
    store.quotas.set("default", "Standard NC Family", 12, "jane")
    store.quotas.set("default", "Standard NC Family", 24, "jane")
    store.quotas.set("default", "Standard Dv2 Family", 0, "jane")
    assert store.quotas.get("default") == {"Standard NC Family": 24, "Standard Dv2 Family": 0}
    store.quotas.set("default", "Standard NC Family", None, "jane")
    assert store.quotas.get("default") == {"Standard Dv2 Family": 0}
    acts = [(entry.act, entry.object, dict(entry.details)) for entry in store.audit.list("default")]
    assert ("quota.set", "Standard NC Family", {"cores": None}) in acts


def test_a_quota_of_no_workspace_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="There is no workspace elsewhere"):
        store.quotas.set("elsewhere", "Standard NC Family", 12, "jane")
