"""A sample of the crash matrix, for every change; `make test-faults` runs all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.dockerd import Dockerd
from tests.faults.cells import DOCKER, LOCAL, SSH, Cell, Grid
from tests.faults.docker_world import DockerWorld
from tests.faults.document import PAGE, render
from tests.faults.ssh_world import SshWorld
from tests.faults.strike import TRAITS, strike
from tests.faults.world import World
from tests.hosts.network import Network


@pytest.mark.parametrize("cell", LOCAL.sample, ids=str)
def test_nothing_is_lost_or_invented(world: World, cell: Cell) -> None:
    strike(world, cell, database=None)


@pytest.mark.parametrize("cell", SSH.sample, ids=str)
def test_nor_on_a_machine_that_is_reached_by_ssh(network: Network, tmp_path: Path, cell: Cell) -> None:
    with SshWorld.made(tmp_path, network, **TRAITS.get(cell.victim, {})) as world:
        strike(world, cell, database=None)


@pytest.mark.parametrize("cell", DOCKER.sample, ids=str)
def test_nor_in_a_container(killable_dockerd: Dockerd, tmp_path: Path, cell: Cell) -> None:
    with DockerWorld.made(tmp_path, killable_dockerd) as world:
        strike(world, cell, database=None)


@pytest.mark.parametrize(("grid", "least"), [(LOCAL, 100), (SSH, 50), (DOCKER, 60)], ids=["local", "ssh", "docker"])
def test_a_grid_is_whole(grid: Grid, least: int) -> None:
    """Every cell is either run or has its reason, and the sample is of them."""
    assert len(grid.cells) + len(grid.impossible) == len(grid.points) * len(grid.victims)
    assert len(grid.cells) >= least
    assert set(grid.sample) <= set(grid.cells)


def test_the_page_shows_the_grid() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "python -m tests.faults.document"
