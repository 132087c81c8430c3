"""Targets change, also by other servers of the same database: what is open to them is closed, and who is blamed is
the one that failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from windlass.core.entities import Target
from windlass.core.errors import NotFound, TargetQuarantined, TargetUnreachable
from windlass.server.execution import driver_cache as reach_module
from windlass.server.execution.driver_cache import Reach
from windlass.server.execution.job_builder import Jobs
from windlass.store import Store, open_store

PLACE = ("default", "box")
OLD, NEW = {"address": "10.0.0.7"}, {"address": "10.0.0.8"}


class Line:
    """A driver, as far as it can be left."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.times_left = 0

    def leave(self) -> None:
        self.times_left += 1


class Lines:
    """Whoever makes drivers."""

    def driver(self, workspace: str, target: Target) -> Line:
        return Line(target)


@pytest.fixture
def store(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(reach_module, "REMEMBER_SECONDS", -1.0)
    made = open_store(store_url, tmp_path / "files")
    made.workspaces.create("default", "", "", "", {}, exist_ok=True)
    made.targets.ensure(*PLACE, "ssh", OLD, 4, True)
    made.targets.update(*PLACE, pin="old")
    yield made
    made.close()


@pytest.fixture
def reach(store: Store) -> Reach:
    return Reach(store, cast(Jobs, Lines()))


def line(reach: Reach) -> Any:
    return reach.driver(*PLACE)


def changed(store: Store, **values: Any) -> None:
    """By another server."""
    store.attachments.change("default", store.targets.get(*PLACE), values, "jane", "target.change")


def acts(store: Store) -> list[tuple[str, str, str]]:
    return [(entry.principal, entry.act, entry.object) for entry in store.audit.list("default")]


def test_a_driver_is_kept_while_its_target_stays_what_it_is(store: Store, reach: Reach) -> None:
    first = line(reach)
    assert line(reach) is first
    changed(store, slots=7, inventory={"cores": 2})
    second = line(reach)
    assert (second.target.slots, first.times_left) == (7, 0)


@pytest.mark.parametrize("change", [{"config": NEW}, {"pin": "new"}], ids=["config", "pin"])
def test_what_another_server_changed_is_reached_anew(store: Store, reach: Reach, change: dict[str, Any]) -> None:
    first = line(reach)
    changed(store, **change)
    second = line(reach)
    assert (first.times_left, second.times_left) == (1, 0)
    assert second.target == store.targets.get(*PLACE) != first.target
    assert line(reach) is second


def test_what_another_server_detached_is_left(store: Store, reach: Reach) -> None:
    first = line(reach)
    store.attachments.remove(*PLACE, "jane", False, "there")
    with pytest.raises(NotFound, match="no target 'box'"):
        line(reach)
    assert first.times_left == 1


def test_what_another_server_put_into_quarantine_is_left(store: Store, reach: Reach) -> None:
    first = line(reach)
    changed(store, quarantine="its host key changed")
    for _ in range(2):
        with pytest.raises(TargetQuarantined):
            line(reach)
    assert first.times_left == 1


def test_what_nobody_asks_for_is_looked_at_all_the_same(store: Store, reach: Reach) -> None:
    store.targets.ensure("default", "other", "ssh", OLD, 4, True)
    first, other = line(reach), cast(Any, reach.driver("default", "other"))
    store.attachments.remove(*PLACE, "jane", False, "there")
    reach.look_again()
    assert (first.times_left, other.times_left) == (1, 0)


def test_another_machine_is_put_into_quarantine_and_that_is_told(store: Store, reach: Reach) -> None:
    line(reach)
    reach.note_trouble(*PLACE, TargetUnreachable("it is off"))
    assert acts(store) == []
    reach.note_trouble(*PLACE, TargetQuarantined("it has another key", "", {"pin": "old"}))
    assert store.targets.get(*PLACE).quarantine == "it has another key"
    assert acts(store) == [("server", "target.quarantine", "box")]


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "not yet known"])
def test_trouble_with_a_key_that_was_replaced_meanwhile_is_none(store: Store, reach: Reach, is_known: bool) -> None:
    """Somebody has trusted the new one while a worker was still trying the old one."""
    line(reach)
    changed(store, pin="new")
    if is_known:
        line(reach)
    reach.note_trouble(*PLACE, TargetQuarantined("it has another key", "", {"pin": "old"}))
    assert store.targets.get(*PLACE).quarantine is None
    assert line(reach).target.pin == "new"
