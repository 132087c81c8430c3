"""An open store of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.store import Store, open_store


@pytest.fixture
def store(store_url: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(store_url, tmp_path / "files")
    opened.workspaces.create("default")
    yield opened
    opened.close()
