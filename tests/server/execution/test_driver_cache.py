"""Targets change, also by other servers of the same database: their connections are closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from windlass.core.entities import Target
from windlass.core.errors import NotFound, TargetQuarantined, TargetUnreachable
from windlass.server.execution import driver_cache
from windlass.server.execution.driver_cache import DriverCache
from windlass.server.execution.job_builder import JobBuilder
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
    monkeypatch.setattr(driver_cache, "CACHE_SECONDS", -1.0)
    made = open_store(store_url, tmp_path / "files")
    made.workspaces.create("default", "", "", "", {}, exist_ok=True)
    made.targets.ensure(*PLACE, "ssh", OLD, 4, True)
    changed(made, pin="old")
    yield made
    made.close()


@pytest.fixture
def cache(store: Store) -> DriverCache:
    return DriverCache(store, cast(JobBuilder, Lines()))


def line(cache: DriverCache) -> Any:
    return cache.driver(*PLACE)


def changed(store: Store, **values: Any) -> None:
    """By another server."""
    store.attachments.change("default", store.targets.get(*PLACE), values, "jane", "target.change")


def acts(store: Store) -> list[tuple[str, str, str]]:
    """Of the server itself."""
    found = [(entry.principal, entry.act, entry.object) for entry in store.audit.list("default")]
    return [act for act in found if act[0] != "jane"]


def test_a_driver_is_kept_while_its_target_stays_what_it_is(store: Store, cache: DriverCache) -> None:
    first = line(cache)
    assert line(cache) is first
    changed(store, slots=7, inventory={"cores": 2})
    second = line(cache)
    assert (second.target.slots, first.times_left) == (7, 0)


def test_a_refreshed_row_keeps_the_connections(
    store: Store, cache: DriverCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target was made ready while a request connects to it: that request does not fail."""
    first = line(cache)
    monkeypatch.setattr(driver_cache, "CACHE_SECONDS", 60.0)
    line(cache)
    changed(store, slots=7)
    cache.refresh(*PLACE)
    assert (line(cache).target.slots, first.times_left) == (7, 0)


def test_a_refreshed_target_that_is_gone_is_left(store: Store, cache: DriverCache) -> None:
    first = line(cache)
    store.attachments.remove(*PLACE, "jane", False, "there")
    with pytest.raises(NotFound):
        cache.refresh(*PLACE)
    assert first.times_left == 1


def test_what_another_server_changed_is_reached_anew(store: Store, cache: DriverCache) -> None:
    first = line(cache)
    changed(store, config=NEW)
    second = line(cache)
    assert (second.target.config, first.times_left, second.times_left) == (NEW, 1, 0)
    assert line(cache) is second


def test_what_is_open_by_the_identity_that_was_pinned_before_is_closed(store: Store, cache: DriverCache) -> None:
    first = line(cache)
    changed(store, pin="new")
    assert (line(cache).target.pin, first.times_left) == ("new", 1)


def test_what_another_server_detached_is_left(store: Store, cache: DriverCache) -> None:
    first = line(cache)
    store.attachments.remove(*PLACE, "jane", False, "there")
    with pytest.raises(NotFound, match="no target 'box'"):
        line(cache)
    assert first.times_left == 1


def test_what_another_server_put_into_quarantine_is_left(store: Store, cache: DriverCache) -> None:
    first = line(cache)
    changed(store, quarantine="its host key changed")
    for _ in range(2):
        with pytest.raises(TargetQuarantined):
            line(cache)
    assert first.times_left == 1


def test_what_nobody_asks_for_is_looked_at_all_the_same(store: Store, cache: DriverCache) -> None:
    store.targets.ensure("default", "other", "ssh", OLD, 4, True)
    first, other = line(cache), cast(Any, cache.driver("default", "other"))
    store.attachments.remove(*PLACE, "jane", False, "there")
    cache.close_stale()
    assert (first.times_left, other.times_left) == (1, 0)


def test_another_machine_is_put_into_quarantine_and_that_is_told(store: Store, cache: DriverCache) -> None:
    line(cache)
    cache.report_contact(PLACE, TargetUnreachable("it is off"))
    assert acts(store) == []
    cache.report_contact(PLACE, TargetQuarantined("it has another key", "", {"pin": "old"}))
    assert store.targets.get(*PLACE).quarantine == "it has another key"
    assert acts(store) == [("server", "target.quarantine", "box")]


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "not yet known"])
def test_trouble_with_a_key_that_was_replaced_meanwhile_is_none(
    store: Store, cache: DriverCache, is_known: bool
) -> None:
    """A person has trusted the new one while a thread was still trying the old one."""
    line(cache)
    changed(store, pin="new")
    if is_known:
        line(cache)
    cache.report_contact(PLACE, TargetQuarantined("it has another key", "", {"pin": "old"}))
    assert store.targets.get(*PLACE).quarantine is None
    assert line(cache).target.pin == "new"
