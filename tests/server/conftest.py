"""A server for one test on each database, or one for a whole module on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import Server, serving


@pytest.fixture
def server(store_url: str, tmp_path: Path) -> Iterator[Server]:
    with serving(store_url, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For tests that leave nothing behind which another would stumble over."""
    home = tmp_path_factory.mktemp("home")
    with serving(migrated_sqlite(home), home) as running:
        yield running
