from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.faults.invariants", "tests.faults.strike")

from tests.faults.ssh_world import SshWorld  # noqa: E402
from tests.faults.world import World  # noqa: E402
from tests.hosts.network import Network  # noqa: E402


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A home without a server yet, and nothing of it left afterwards."""
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    world = World(tmp_path / "home", ledger)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def ssh_world(tmp_path: Path, network: Network) -> Iterator[SshWorld]:
    """The same, with a machine that is reached by SSH."""
    with SshWorld.made(tmp_path, network) as world:
        yield world
