from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.box import Box
from tests.engines.dockerd import Dockerd
from tests.runner.conftest import Hosts, hosts, root

__all__ = ["Hosts", "box", "hosts", "own_box", "root"]


@pytest.fixture
def box(hosts: Hosts, root: Path, dockerd: Dockerd) -> Iterator[Box]:
    """A host whose runs may live in containers of the shared engine."""
    yield from _box(hosts, root, dockerd)


@pytest.fixture
def own_box(hosts: Hosts, root: Path, own_dockerd: Dockerd) -> Iterator[Box]:
    """The same with an engine that may be killed."""
    yield from _box(hosts, root, own_dockerd)


def _box(hosts: Hosts, root: Path, engine: Dockerd) -> Iterator[Box]:
    made = Box(hosts(), engine)
    yield made
    if engine.is_up:
        left = engine.containers(f"label=windlass.root={root}")
        if left:
            engine.docker("rm", "--force", *left, check=False)
