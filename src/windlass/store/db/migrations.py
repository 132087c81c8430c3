"""Migrations of the schema to this version: forward only, each step in its own transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    MetaData,
    Table,
    bindparam,
    func,
    insert,
    inspect,
    literal,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.schema import CreateColumn

from windlass import failpoints
from windlass.core.errors import Conflict, InternalError
from windlass.store.db import schema, search_texts
from windlass.store.db.base import Database
from windlass.store.db.column_types import Json, now

log = logging.getLogger(__name__)

Step = Callable[[Connection], None]


def _add_columns(connection: Connection, table: Table, *names: str) -> None:
    """Add columns unless they exist, as they do in a table that an earlier step has just created."""
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for name in names:
        if name not in there:
            made = CreateColumn(table.c[name]).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {made}"))


def _attach_targets(connection: Connection) -> None:
    """Version 2: attached targets, secrets, the audit log, registered environments and wheels."""
    _add_columns(connection, schema.targets, "attached_by", "quarantine", "inventory")
    schema.metadata.create_all(connection, [schema.secrets, schema.audit, schema.environments, schema.wheels])


def _name_versions(connection: Connection) -> None:
    """Version 3: versions of environments are text, not numbers. SQLite cannot change the type of a column."""
    table = schema.environments
    number = type_coerce(table.c.version, Integer).label("version")
    asked = select(*(column for column in table.c if column is not table.c.version), number)
    rows = [{**row, "version": str(row["version"])} for row in connection.execute(asked).mappings()]
    table.drop(connection)
    table.create(connection)
    if rows:
        connection.execute(insert(table), rows)


def _type_secrets(connection: Connection) -> None:
    """Version 4: the content type of secrets."""
    _add_columns(connection, schema.secrets, "content_type")


def _register_models(connection: Connection) -> None:
    """Version 5: registered models."""
    schema.metadata.create_all(connection, [schema.models])


def _note_uses(connection: Connection) -> None:
    """Version 6: the time of the last use of a member's token."""
    _add_columns(connection, schema.tokens, "last_used_at")


def _add_connections(connection: Connection) -> None:
    """Version 7: connections, which map Azure's coordinates of clusters, accounts and machines."""
    schema.metadata.create_all(connection, [schema.connections])


def _pin_targets(connection: Connection) -> None:
    """Version 8: the pinned identity and the dependencies of targets of any kind, which were settings of SSH targets
    only; the instance that owns an attempt, where a scheduler may start several.
    """
    table = schema.targets
    if any(column["name"] == "offers" for column in inspect(connection).get_columns(table.name)):
        connection.execute(text("ALTER TABLE targets RENAME COLUMN offers TO inventory"))
    _add_columns(connection, table, "pin", "pin_confirmed", "depends_on")
    _add_columns(connection, table, "provisioning_state", "provisioning_message", "config_before")
    _add_columns(connection, schema.attempts, "claimed_by")
    for row in connection.execute(select(table.c.workspace, table.c.name, table.c.config, table.c.inventory)).all():
        config = dict(row.config)
        values = {"pin": config.pop("host_key", None), "pin_confirmed": bool(config.pop("host_key_confirmed", False))}
        jump = config.get("jump")
        change = update(table).where(table.c.workspace == row.workspace, table.c.name == row.name)
        values |= {"config": config, "depends_on": (jump,) if jump else (), "inventory": _with_problems(row.inventory)}
        connection.execute(change.values(values))


def _with_problems(inventory: dict[str, Any] | None) -> dict[str, Any] | None:
    """Rename `missing` to `problems`, and `what` in each of them to `message`."""
    if inventory is None or "missing" not in inventory:
        return inventory
    kept = {key: value for key, value in inventory.items() if key != "missing"}
    problems = [{"message" if key == "what" else key: lack[key] for key in lack} for lack in inventory["missing"]]
    return {**kept, "problems": problems}


def _allocate(connection: Connection) -> None:
    """Version 9: nodes, allocations of runs, files of earlier attempts, quotas."""
    made = [schema.nodes, schema.allocations, schema.quotas, schema.attempt_files]
    schema.metadata.create_all(connection, made)
    _add_columns(connection, schema.runs, "eviction")
    _add_columns(connection, schema.attempts, "node_seconds")
    _add_columns(connection, schema.series, "attempt")
    runs = schema.runs
    names = ("run", "workspace", "target", "since")
    slots = dict.fromkeys(("ordinal", "millicores", "memory_mb"), literal(0)) | {
        "node": literal(""),
        "gpus": literal("[]"),
    }
    held = select(
        runs.c.pk, runs.c.workspace, runs.c.target, runs.c.state_at, *slots.values(), literal("").label("machine")
    ).where(runs.c.queue_state == schema.QueueState.DISPATCHED)
    connection.execute(insert(schema.allocations).from_select([*names, *slots, "machine"], held))


def _keep_former_targets(connection: Connection) -> None:
    """Version 10: the VM sizes of removed targets."""
    schema.metadata.create_all(connection, [schema.former_targets])


def _add_sessions(connection: Connection) -> None:
    """Version 11: sessions of browsers, and the codes that begin them."""
    schema.metadata.create_all(connection, [schema.sessions, schema.session_codes])


_RUNS_AT_ONCE = 1000


def _archive_and_search(connection: Connection) -> None:
    """Version 12: archived runs, search in tags and arguments, changes for other servers; attempts of deleted runs,
    events of targets, run configurations.
    """
    runs = schema.runs
    _add_columns(connection, runs, "archived_at", "searched_arguments", "changed_at")
    made = [schema.deleted_attempts, schema.target_events, schema.run_configurations]
    schema.metadata.create_all(connection, made)
    there = {str(index["name"]) for index in inspect(connection).get_indexes(runs.name)}
    for index in runs.indexes:
        if index.name in ("runs_by_time", "runs_by_experiment", "runs_by_state") and index.name in there:
            connection.execute(text(f"DROP INDEX {index.name}"))
            there.discard(str(index.name))
        if str(index.name) not in there:
            index.create(connection)
    _write_search_texts(connection)


def _write_search_texts(connection: Connection) -> None:
    runs, specs = schema.runs, schema.specs
    asked = (
        select(runs.c.pk, runs.c.id, runs.c.name, runs.c.experiment, runs.c.tags, type_coerce(specs.c.spec, Json))
        .outerjoin(specs, specs.c.run == runs.c.pk)
        .where(runs.c.pk > bindparam("after"))
        .order_by(runs.c.pk)
        .limit(_RUNS_AT_ONCE)
    )
    change = update(runs).where(runs.c.pk == bindparam("of"))
    change = change.values(searched=bindparam("about"), searched_arguments=bindparam("said"))
    last = 0
    while rows := connection.execute(asked, {"after": last}).all():
        connection.execute(change, [_search_texts(*row) for row in rows])
        last = rows[-1].pk


def _search_texts(
    pk: int, id: str, name: str, experiment: str, tags: dict[str, str | None], spec: dict[str, Any] | None
) -> dict[str, Any]:
    words = [] if spec is None else [spec.get("script") or "", *spec.get("command", ()), *spec.get("arguments", ())]
    about = search_texts.of_run(id, name, experiment, tags)
    return {"of": pk, "about": about, "said": search_texts.of_words(words)}


# STEPS[n] migrates from version n + 1 to n + 2. A new database is created at the last version, without steps.
STEPS: Sequence[Step] = (
    _attach_targets,
    _name_versions,
    _type_secrets,
    _register_models,
    _note_uses,
    _add_connections,
    _pin_targets,
    _allocate,
    _keep_former_targets,
    _add_sessions,
    _archive_and_search,
)

_LOCK = 0x77696E64  # one server migrates, the others wait


def migrate(
    database: Database,
    before_upgrade: Callable[[int], None],
    steps: Sequence[Step] = STEPS,
    metadata: MetaData = schema.metadata,
) -> None:
    """Create or migrate the database. `before_upgrade(version)` is called before an existing one is changed, for a
    backup.
    """
    latest = len(steps) + 1
    version = database.write(lambda connection: _version(connection) or _create(connection, latest, metadata))
    if version > latest:
        raise Conflict(
            f"The database has schema version {version}; this Windlass knows up to {latest}.",
            hint="Use the newer Windlass that wrote it, or put back the backup that it made.",
        )
    if version < latest:
        before_upgrade(version)
    while version < latest:
        version = database.write(lambda connection: _upgrade(connection, steps))
        failpoints.reach("F26")
    database.read(lambda connection: _check(connection, metadata))


def _version(connection: Connection) -> int:
    _lock(connection)
    if not inspect(connection).has_table(schema.versions.name):
        return 0
    return connection.execute(select(func.max(schema.versions.c.version))).scalar_one() or 0


def _create(connection: Connection, version: int, metadata: MetaData) -> int:
    foreign = set(inspect(connection).get_table_names()) & set(metadata.tables)
    if foreign:
        raise InternalError(
            f"The database has tables of another program: {', '.join(sorted(foreign))}.", hint="Name another database."
        )
    metadata.create_all(connection)
    connection.execute(insert(schema.versions).values(version=version, applied_at=now()))
    return version


def _upgrade(connection: Connection, steps: Sequence[Step]) -> int:
    version = _version(connection)
    if version > len(steps):  # another server was faster
        return version
    log.info("migrating the database from version %s to %s", version, version + 1)
    steps[version - 1](connection)
    connection.execute(insert(schema.versions).values(version=version + 1, applied_at=now()))
    return version + 1


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _check(connection: Connection, metadata: MetaData) -> None:
    """Raise InternalError unless every table, column and index exists: a lost index would be noticed only much
    later.
    """
    there = inspect(connection)
    columns = _names(there.get_multi_columns())
    indexes = _names(there.get_multi_indexes())
    lacking = [f"table {table.name}" for table in metadata.sorted_tables if table.name not in columns]
    for table in metadata.sorted_tables:
        if table.name in columns:
            wanted = {column.name for column in table.columns}
            lacking += [f"column {table.name}.{name}" for name in sorted(wanted - columns[table.name])]
            indexed = {str(index.name) for index in table.indexes}
            lacking += [f"index {name}" for name in sorted(indexed - indexes.get(table.name, set()))]
    if lacking:
        raise InternalError(
            f"The database is not what its version says; it lacks {', '.join(lacking)}.",
            hint="Put back a backup of it.",
        )


def _names(listed: Mapping[tuple[str | None, str], Sequence[Mapping[str, Any]]]) -> dict[str, set[str]]:
    return {table: {str(each["name"]) for each in found} for (_, table), found in listed.items()}
