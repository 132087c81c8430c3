"""An open, empty store of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, delete, update

from tests.databases import migrated_sqlite
from tests.postgres import fresh_database
from tests.store.makers import make_workspace
from windlass.store import Store, open_store
from windlass.store.db.schema import metadata, snapshots, versions


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with fresh_database(postgres_server) as url:
        open_store(url, tmp_path_factory.mktemp("files")).close()
        yield url


@pytest.fixture
def empty_postgres(migrated_postgres: str) -> str:
    """Emptying a database is several times faster than making one."""
    engine = create_engine(migrated_postgres.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not versions:
                connection.execute(delete(table))
    engine.dispose()
    return migrated_postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return migrated_sqlite(tmp_path)
    url: str = request.getfixturevalue("empty_postgres")
    return url


@pytest.fixture
def store(store_url: str, tmp_path: Path) -> Iterator[Store]:
    yield from _opened(store_url, tmp_path)


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    yield from _opened(migrated_sqlite(tmp_path), tmp_path)


@pytest.fixture
def postgres_store(empty_postgres: str, tmp_path: Path) -> Iterator[Store]:
    yield from _opened(empty_postgres, tmp_path)


@pytest.fixture
def aged_snapshots(store_url: str) -> Callable[[], None]:
    """Make all snapshots look as if they had last been used days ago."""
    url = store_url.replace("postgresql:", "postgresql+psycopg:")

    def age() -> None:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(update(snapshots).values(used_at=datetime.now(UTC) - timedelta(days=10)))
        engine.dispose()

    return age


def _opened(url: str, folder: Path) -> Iterator[Store]:
    store = open_store(url, folder / "files")
    make_workspace(store)
    yield store
    store.close()
