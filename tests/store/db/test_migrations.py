"""Migrations: forward only, step by step, resumable, with a backup first."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Index, Integer, MetaData, Table, Text, inspect, text

from tests.store.makers import finish, interactive, make_workspace, submit
from windlass.core.errors import Conflict, InternalError
from windlass.store import RunQuery, open_store
from windlass.store.access.secrets import Sealed
from windlass.store.db import sqlite_file
from windlass.store.db.base import Database
from windlass.store.db.migrations import STEPS, migrate
from windlass.store.db.postgresql import PostgresDatabase
from windlass.store.db.schema import metadata as latest
from windlass.store.db.schema import versions
from windlass.store.db.sqlite import SqliteDatabase


def schema_1() -> MetaData:
    metadata = MetaData()
    versions.to_metadata(metadata)
    Table("things", metadata, Column("id", Integer, primary_key=True))
    return metadata


def schema_3() -> MetaData:
    metadata = MetaData()
    versions.to_metadata(metadata)
    things = Table("things", metadata, Column("id", Integer, primary_key=True), Column("colour", Text))
    Index("things_by_colour", things.c.colour)
    return metadata


def add_colour(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE things ADD COLUMN colour TEXT"))
    connection.execute(text("UPDATE things SET colour = 'red'"))


def index_colour(connection: Connection) -> None:
    connection.execute(text("CREATE INDEX things_by_colour ON things (colour)"))


def nothing(connection: Connection) -> None:
    pass


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    opened: Database = (
        SqliteDatabase(tmp_path / "db.sqlite")
        if request.param == "sqlite"
        else PostgresDatabase(request.getfixturevalue("postgres_url"))
    )
    yield opened
    opened.close()


def old(database: Database) -> None:
    migrate(database, no_backup, [], schema_1())
    database.write(lambda c: c.execute(text("INSERT INTO things (id) VALUES (1)")))


def no_backup(version: int) -> None:
    raise AssertionError("nothing to upgrade")


def version(database: Database) -> int:
    asked = text("SELECT max(version) FROM schema_versions")
    return int(database.read(lambda c: c.execute(asked).scalar_one()))


def test_a_new_database_is_made_at_the_last_version(database: Database) -> None:
    migrate(database, no_backup, [add_colour, index_colour], schema_3())
    assert version(database) == 3
    migrate(database, no_backup, [add_colour, index_colour], schema_3())


def test_an_old_one_is_upgraded_step_by_step_after_a_backup(database: Database) -> None:
    old(database)
    backups: list[int] = []
    migrate(database, backups.append, [add_colour, index_colour], schema_3())
    assert (version(database), backups) == (3, [1])
    assert database.read(lambda c: c.execute(text("SELECT colour FROM things")).scalar_one()) == "red"
    migrate(database, no_backup, [add_colour, index_colour], schema_3())


def test_an_upgrade_that_fails_resumes_where_it_was(database: Database) -> None:
    old(database)

    def half(connection: Connection) -> None:
        index_colour(connection)
        raise RuntimeError("the power went")

    backups: list[int] = []
    with pytest.raises(RuntimeError):
        migrate(database, backups.append, [add_colour, half], schema_3())
    assert version(database) == 2  # the first step is done, the second left nothing
    migrate(database, backups.append, [add_colour, index_colour], schema_3())
    assert (version(database), backups) == (3, [1, 2])


def test_a_step_that_forgot_an_index_is_found_out(database: Database) -> None:
    old(database)
    with pytest.raises(InternalError, match="lacks index things_by_colour"):
        migrate(database, lambda version: None, [add_colour, nothing], schema_3())


def test_a_step_that_forgot_a_column_is_found_out(database: Database) -> None:
    old(database)
    with pytest.raises(InternalError, match="lacks column things.colour, index things_by_colour"):
        migrate(database, lambda version: None, [nothing, nothing], schema_3())


def test_a_newer_database_is_left_alone(database: Database) -> None:
    migrate(database, no_backup, [add_colour, index_colour], schema_3())
    with pytest.raises(Conflict, match="schema version 3; this Windlass knows up to 1"):
        migrate(database, no_backup, [], schema_1())
    assert version(database) == 3


def test_servers_that_start_together_migrate_once(postgres_url: str) -> None:
    databases = [PostgresDatabase(postgres_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: migrate(each, no_backup, [], schema_1()), databases))
        steps = [add_colour, index_colour]
        list(pool.map(lambda each: migrate(each, lambda version: None, steps, schema_3()), databases))
    assert version(databases[0]) == 3
    for each in databases:
        each.close()


def test_the_backup_is_the_database_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    database = SqliteDatabase(path)
    old(database)
    migrate(database, lambda version: sqlite_file.back_up(path, version), [add_colour, index_colour], schema_3())
    sqlite_file.back_up(path, 1)  # as by an upgrade that resumes: the first copy stays
    database.close()
    with closing(sqlite3.connect(tmp_path / "db.sqlite.version-1.backup")) as copy:
        assert copy.execute("SELECT * FROM things").fetchall() == [(1,)]
        assert copy.execute("SELECT max(version) FROM schema_versions").fetchone() == (1,)
    assert sorted(file.name for file in tmp_path.glob("*.backup*")) == ["db.sqlite.version-1.backup"]


NUMBERED = """
CREATE TABLE environments (
    workspace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, definition TEXT NOT NULL,
    created_by TEXT NOT NULL, created_at BIGINT NOT NULL, PRIMARY KEY (workspace, name, version)
)
"""


def test_versions_of_environments_become_texts(store_url: str, tmp_path: Path) -> None:
    store = open_store(store_url, tmp_path / "files")
    store.workspaces.create("default")

    def number(connection: Connection) -> None:
        for line in (
            "DROP TABLE environments",
            NUMBERED,
            "INSERT INTO environments VALUES ('default', 'train', 1, '{\"a\":[1]}', 'ann', 7)",
            "INSERT INTO environments VALUES ('default', 'train', 2, '{}', 'bob', 8)",
            "UPDATE schema_versions SET version = 2",
        ):
            connection.exec_driver_sql(line)

    store._database.write(number)
    migrate(store._database, lambda version: None)
    found = [store.environments.get("default", "train", version) for version in ("1", "2")]
    assert [(each.definition, each.created_by) for each in found] == [({"a": [1]}, "ann"), ({}, "bob")]
    assert store.environments.get("default", "train") == found[1]
    assert store.environments.register("default", "train", {}, "ann", "2.0").version == "2.0"
    store.close()


def say_version(connection: Connection, version: int) -> None:
    connection.exec_driver_sql("DELETE FROM schema_versions")
    connection.exec_driver_sql(f"INSERT INTO schema_versions (version, applied_at) VALUES ({version}, 7)")


def untyped_secrets(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE secrets DROP COLUMN content_type")
    say_version(connection, 3)


def before_secrets(connection: Connection) -> None:
    """Version 1, which has no table of them."""
    for line in ("DROP TABLE secrets", "DROP TABLE audit", "DROP TABLE environments", "DROP TABLE wheels"):
        connection.exec_driver_sql(line)
    for column in ("attached_by", "quarantine", "inventory"):
        connection.exec_driver_sql(f"ALTER TABLE targets DROP COLUMN {column}")
    say_version(connection, 1)


@pytest.mark.parametrize("earlier", [untyped_secrets, before_secrets])
def test_secrets_get_content_types(store_url: str, tmp_path: Path, earlier: Callable[[Connection], None]) -> None:
    store = open_store(store_url, tmp_path / "files")
    store.workspaces.create("default")
    store.secrets.put("default", "old", 1, Sealed(b"x", "k1"), "runs", "ann")
    store._database.write(earlier)
    migrate(store._database, lambda version: None)
    store.secrets.put("default", "new", 1, Sealed(b"x", "k1"), "runs", "ann", "application/json")
    found = {secret.name: secret.content_type for secret in store.secrets.list("default")}
    assert found == {"new": "application/json", **({"old": None} if earlier is untyped_secrets else {})}
    store.close()


def test_tokens_of_before_are_good_and_their_use_is_noted(store_url: str, tmp_path: Path) -> None:
    store = open_store(store_url, tmp_path / "files")
    _, secret = store.tokens.create("owner", "owner")

    def before(connection: Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE tokens DROP COLUMN last_used_at")
        say_version(connection, 5)

    store._database.write(before)
    migrate(store._database, lambda version: None)
    found = store.tokens.find(secret)
    assert found is not None and (found.principal, found.last_used_at) == ("owner", None)
    store.tokens.record_use(found.id, found.created_at)
    again = store.tokens.find(secret)
    assert again is not None and again.last_used_at == found.created_at
    store.close()


def test_a_database_of_before_gets_connections(store_url: str, tmp_path: Path) -> None:
    store = open_store(store_url, tmp_path / "files")

    def before(connection: Connection) -> None:
        connection.exec_driver_sql("DROP TABLE connections")
        say_version(connection, 6)

    store._database.write(before)
    migrate(store._database, lambda version: None)
    assert store.connections.list("default") == []
    store.close()


def test_pins_and_problems_leave_the_settings(store_url: str, tmp_path: Path) -> None:
    store = open_store(store_url, tmp_path / "files")
    store.workspaces.create("default")
    settings = {"address": "10.0.0.7", "host_key": "ssh-ed25519 AAAA", "host_key_confirmed": True, "jump": "gate"}
    for name, config in (("box", settings), ("gate", {"address": "10.0.0.1"})):
        store.targets.ensure("default", name, "ssh", config, 4, True)
    lacks = [{"level": "missing", "about": "docker", "what": "No Docker.", "fix": "install it"}]
    store.targets.update("default", "box", inventory={"cores": 8, "missing": lacks})

    def before(connection: Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE targets RENAME COLUMN inventory TO offers")
        for column in ("pin", "pin_confirmed", "depends_on", "provisioning_state", "provisioning_message"):
            connection.exec_driver_sql(f"ALTER TABLE targets DROP COLUMN {column}")
        connection.exec_driver_sql("ALTER TABLE targets DROP COLUMN config_before")
        connection.exec_driver_sql("ALTER TABLE attempts DROP COLUMN claimed_by")
        say_version(connection, 7)

    store._database.write(before)
    migrate(store._database, lambda version: None)
    box, gate = store.targets.get("default", "box"), store.targets.get("default", "gate")
    assert box.config == {"address": "10.0.0.7", "jump": "gate"} and box.depends_on == ("gate",)
    assert (box.pin, box.pin_confirmed, box.provisioning_state) == ("ssh-ed25519 AAAA", True, "Succeeded")
    problem = {"level": "missing", "about": "docker", "message": "No Docker.", "fix": "install it"}
    assert box.inventory == {"cores": 8, "problems": [problem]}
    assert (gate.pin, gate.pin_confirmed, gate.depends_on, gate.inventory) == (None, False, (), None)
    store.close()


def test_our_own_schema_is_made_whole(store_url: str, tmp_path: Path) -> None:
    store = open_store(store_url, tmp_path / "files")
    there = store._database.read(lambda c: set(inspect(c).get_table_names()))
    assert there >= set(latest.tables)
    assert version(store._database) == len(STEPS) + 1
    store.close()


OF_VERSION_10 = (
    "CREATE INDEX runs_by_time ON runs (workspace, created_at, pk)",
    "CREATE INDEX runs_by_experiment ON runs (workspace, experiment, created_at, pk)",
    "CREATE INDEX runs_by_state ON runs (workspace, state, created_at)",
)
SINCE_VERSION_10 = ("sessions", "session_codes", "deleted_attempts", "target_events", "run_configurations")


def test_runs_of_before_are_found_by_tags_and_arguments(store_url: str, tmp_path: Path) -> None:
    store = open_store(store_url, tmp_path / "files")
    make_workspace(store)
    submit(store, "old", name="Straße", experiment="mnist", tags={"team": "blue"})
    store.runs.create([interactive("notebook")])
    submit(store, "ended")
    finish(store, "ended")

    def before(connection: Connection) -> None:
        for name in SINCE_VERSION_10:
            connection.exec_driver_sql(f"DROP TABLE {name}")
        for index in ("time", "experiment", "submitter", "state", "change"):
            connection.exec_driver_sql(f"DROP INDEX runs_by_{index}")
        for column in ("archived_at", "searched_arguments", "changed_at"):
            connection.exec_driver_sql(f"ALTER TABLE runs DROP COLUMN {column}")
        for statement in OF_VERSION_10:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("UPDATE runs SET searched = id")
        say_version(connection, 10)

    store._database.write(before)
    migrate(store._database, lambda version: None)

    def found(text: str) -> list[str]:
        return [run.id for run in store.runs.find(RunQuery("default", search=text)).runs]

    assert (found("team:blue"), found("STRASSE"), found("mnist")) == (["old"], ["old"], ["old"])
    assert set(found("--alpha 0.1")) == {"old", "ended"} and found("notebook") == ["notebook"]
    store.runs.describe("default", "ended", archived=True)
    assert found("") == ["notebook", "old"]
    columns = {
        str(index["name"]): index["column_names"]
        for index in store._database.read(lambda c: inspect(c).get_indexes("runs"))
    }
    assert columns["runs_by_time"] == ["workspace", "created_at", "pk", "archived_at"]
    submit(store, "new")
    assert store.runs.delete("default", "ended", False, "ann") == ["ended"]
    store.close()
