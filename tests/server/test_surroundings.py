"""What drivers are told of the server that they work for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.core.errors import NotFound, TargetQuarantined, TargetUnreachable
from windlass.drivers.base import OtherTarget
from windlass.server.execution.driver_context import Surround
from windlass.server.settings import Settings
from windlass.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path}/db.sqlite", tmp_path / "files")
    made.workspaces.create("team", "", "", "", {}, exist_ok=True)
    yield made
    made.close()


@pytest.fixture
def surround(store: Store, tmp_path: Path) -> Surround:
    return Surround(Settings.load({}, home=tmp_path), store)


def test_a_driver_knows_its_workspace_and_the_folder_of_its_server(surround: Surround, tmp_path: Path) -> None:
    assert (surround("team").workspace, surround("team").folder) == ("team", tmp_path)


def test_a_jump_host_is_a_target_of_the_same_workspace(store: Store, surround: Surround) -> None:
    store.workspaces.create("others", "", "", "", {}, exist_ok=True)
    store.targets.ensure("team", "door", "ssh", {"address": "10.0.0.1"}, None, True)
    store.targets.update("team", "door", pin="its key")
    assert surround("team").target("door") == OtherTarget({"address": "10.0.0.1"}, "its key")
    with pytest.raises(NotFound):
        surround("others").target("door")


def test_who_is_behind_a_jump_host_in_quarantine_waits_and_is_not_blamed(store: Store, surround: Surround) -> None:
    store.targets.ensure("team", "door", "ssh", {"address": "10.0.0.1"}, None, True)
    store.targets.update("team", "door", quarantine="its host key changed")
    with pytest.raises(TargetUnreachable, match="target door, which it depends on, .* host key changed") as caught:
        surround("team").target("door")
    assert caught.value.transient and not isinstance(caught.value, TargetQuarantined)
    assert "windlass compute trust door" in caught.value.hint
