"""What drivers may ask the server that they work for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.core.errors import NotFound, TargetQuarantined, TargetUnreachable
from windlass.drivers.base import OtherTarget
from windlass.server.execution.driver_context import DriverContexts
from windlass.server.settings import Settings
from windlass.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path}/db.sqlite", tmp_path / "files")
    made.workspaces.create("team", "", "", "", {}, exist_ok=True)
    yield made
    made.close()


@pytest.fixture
def contexts(store: Store, tmp_path: Path) -> DriverContexts:
    return DriverContexts(Settings.load({}, home=tmp_path), store)


def test_a_driver_knows_whose_it_is(contexts: DriverContexts) -> None:
    assert contexts("team").workspace == "team"


def test_a_driver_of_this_computer_knows_the_servers_folder(contexts: DriverContexts, tmp_path: Path) -> None:
    assert contexts("team").folder == tmp_path


def test_a_jump_host_is_a_target_of_the_same_workspace(store: Store, contexts: DriverContexts) -> None:
    store.workspaces.create("others", "", "", "", {}, exist_ok=True)
    store.targets.ensure("team", "door", "ssh", {"address": "10.0.0.1"}, None, True)
    store.targets.update("team", "door", pin="its key")
    assert contexts("team").target("door") == OtherTarget({"address": "10.0.0.1"}, "its key")
    with pytest.raises(NotFound):
        contexts("others").target("door")


def test_who_is_behind_a_jump_host_in_quarantine_waits_and_is_not_blamed(
    store: Store, contexts: DriverContexts
) -> None:
    store.targets.ensure("team", "door", "ssh", {"address": "10.0.0.1"}, None, True)
    store.targets.update("team", "door", quarantine="its host key changed")
    with pytest.raises(TargetUnreachable, match="target door.* host key changed") as caught:
        contexts("team").target("door")
    assert caught.value.transient and not isinstance(caught.value, TargetQuarantined)
    assert "windlass compute trust door" in caught.value.hint
