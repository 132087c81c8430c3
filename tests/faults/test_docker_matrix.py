"""The whole crash matrix of runs that live in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.dockerd import Dockerd
from tests.faults.cells import DOCKER, Cell
from tests.faults.docker_world import DockerWorld
from tests.faults.strike import strike

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cell", DOCKER.cells, ids=str)
def test_in_a_container(killable_dockerd: Dockerd, tmp_path: Path, cell: Cell) -> None:
    with DockerWorld.made(tmp_path, killable_dockerd) as world:
        strike(world, cell, database=None)
