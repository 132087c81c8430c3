"""The tables. A change here needs a step in migrations.py; a test compares the two."""

from __future__ import annotations

from enum import IntEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    false,
)

from windlass.core.states import Intent, Reason, RunState
from windlass.store.db.column_types import Json, Names, RowId, Spec, Time, Word, Words

metadata = MetaData()


class Place(IntEnum):
    """Where a run stands on its way through a target, beside its state. One that has ended has no place."""

    WAITING = 1  # for a slot; nobody has acted on it
    DISPATCHED = 2  # it has a slot, and a loop that owns it or will
    INTERACTIVE = 3  # no target: its owner reports


def _of_run(primary_key: bool = True) -> Column[int]:
    return Column(
        "run",
        RowId,
        ForeignKey("runs.pk", ondelete="CASCADE"),
        primary_key=primary_key,
        autoincrement=False,
        nullable=False,
    )


versions = Table(
    "schema_versions",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_at", Time, nullable=False),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("name", Words, primary_key=True),
    Column("subscription_id", Words, nullable=False),
    Column("resource_group", Words, nullable=False),
    Column("location", Words, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("tags", Json, nullable=False),
)

experiments = Table(
    "experiments",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("id", Words, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("archived_at", Time),
    Column("tags", Json, nullable=False),
    Column("last_number", Integer, nullable=False),
)

targets = Table(
    "targets",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("kind", Words, nullable=False),
    Column("config", Json, nullable=False),
    Column("slots", Integer),
    Column("is_attached", Boolean, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("attached_by", Words, nullable=False, server_default=""),
    Column("quarantine", Words),
    Column("inventory", Json),
    Column("pin", Words),
    Column("pin_confirmed", Boolean, nullable=False, server_default=false()),
    Column("depends_on", Names, nullable=False, server_default="[]"),
    Column("provisioning_state", Words, nullable=False, server_default="Succeeded"),
    Column("provisioning_message", Words, nullable=False, server_default=""),
    Column("config_before", Json),
)

# What runs of targets that are gone cost is told by the VM size that these had.
former_targets = Table(
    "former_targets",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("workspace", Words, ForeignKey("workspaces.name"), nullable=False),
    Column("name", Words, nullable=False),
    Column("config", Json, nullable=False),  # vm_size and vm_priority
    Column("removed_at", Time, nullable=False),
)
Index("former_targets_by_name", former_targets.c.workspace, former_targets.c.name)

# What Azure's coordinates of a resource mean here. `coordinates` is the same for every spelling of the same ones.
connections = Table(
    "connections",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("kind", Words, nullable=False),
    Column("subscription", Words, nullable=False),
    Column("resource_group", Words, nullable=False),
    Column("resource_name", Words, nullable=False),
    Column("coordinates", Words, nullable=False),
    Column("config", Json, nullable=False),
    Column("created_by", Words, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("changed_at", Time, nullable=False),
)
Index(
    "connections_by_coordinates",
    connections.c.workspace,
    connections.c.kind,
    connections.c.coordinates,
    unique=True,
)

# Encrypted with a key that is not in the database. Credentials of targets and connections are named
# target/<name>/<what> and connection/<name>/<what>.
secrets = Table(
    "secrets",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("key_id", Words, nullable=False),
    Column("granted_to", Words, nullable=False),  # "runs", "named runs" or "nobody"
    Column("created_by", Words, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("changed_at", Time, nullable=False),
    Column("content_type", Words),
)

# Who did what, never changed: each row has the digest of the one before in its own.
audit = Table(
    "audit",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("at", Time, nullable=False),
    Column("workspace", Words, nullable=False),
    Column("principal", Words, nullable=False),
    Column("act", Words, nullable=False),
    Column("object", Words, nullable=False),
    Column("details", Json, nullable=False),
    Column("digest", Words, nullable=False),
)
Index("audit_by_workspace", audit.c.workspace, audit.c.pk)

environments = Table(
    "environments",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("version", Words, primary_key=True),
    Column("definition", Json, nullable=False),
    Column("created_by", Words, nullable=False),
    Column("created_at", Time, nullable=False),
)

# Wheels that people keep in the workspace, by file name, for environments that will name them.
wheels = Table(
    "wheels",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("digest", Words, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_by", Words, nullable=False),
    Column("created_at", Time, nullable=False),
)

# Versions count up. One that is deleted leaves its row, without files, so that its number is not given again.
models = Table(
    "models",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", Words, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("run", Words),
    Column("experiment", Words),
    Column("description", Words, nullable=False),
    Column("framework", Words, nullable=False),
    Column("framework_version", Words, nullable=False),
    Column("tags", Json, nullable=False),
    Column("properties", Json, nullable=False),
    Column("files", Json, nullable=False),  # [[path, digest, size]]
    Column("created_by", Words, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("changed_at", Time, nullable=False),
    Column("deleted_at", Time),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("digest", Words, primary_key=True),
    Column("files", Json, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("used_at", Time, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("id", Words, nullable=False, unique=True),
    Column("workspace", Words, nullable=False),
    Column("experiment", Words, nullable=False),
    Column("number", Integer, nullable=False),
    Column("type", Words, nullable=False),
    Column("state", Word(RunState), nullable=False),
    Column("state_at", Time, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("target", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("description", Words, nullable=False),
    Column("submitted_by", Words, nullable=False),
    Column("parent", Words),
    Column("root", Words),
    Column("intent", Word(Intent), nullable=False),
    Column("reason", Word(Reason)),
    Column("message", Words, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("started_at", Time),
    Column("ended_at", Time),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("snapshot", Words, ForeignKey("snapshots.digest")),
    Column("error", Json),
    Column("usage", Json),
    Column("tags", Json, nullable=False),
    Column("properties", Json, nullable=False),
    # Not shown: how the run is handed about.
    Column("key", Words),
    Column("body_hash", Words, nullable=False),
    Column("place", SmallInteger),
    Column("priority", Integer, nullable=False),
    Column("last_event", Integer, nullable=False),
    Column("owner", Words),
    Column("fence", Integer, nullable=False),
    Column("lease_until", BigInteger),
    Column("heartbeat_at", Time),
    Column("searched", Words, nullable=False),  # id and name, case folded
    Column("eviction", Words),  # why its attempt is to be stopped and the run queued again
    ForeignKeyConstraint(["workspace", "experiment"], ["experiments.workspace", "experiments.name"]),
)

# Databases see that a comparison with `place` asks for such rows only, whatever it is compared with.
_is_placed = runs.c.place.is_not(None)
Index("runs_by_key", runs.c.workspace, runs.c.key, unique=True)
Index("runs_by_time", runs.c.workspace, runs.c.created_at, runs.c.pk)
Index("runs_by_experiment", runs.c.workspace, runs.c.experiment, runs.c.created_at, runs.c.pk)
Index("runs_by_state", runs.c.workspace, runs.c.state, runs.c.created_at)
Index("runs_by_parent", runs.c.parent, runs.c.place)
Index("runs_by_snapshot", runs.c.snapshot)
Index(
    "runs_by_place",
    runs.c.place,
    runs.c.workspace,
    runs.c.target,
    runs.c.priority.desc(),
    runs.c.pk,
    sqlite_where=_is_placed,
)

specs = Table("run_specs", metadata, _of_run(), Column("spec", Spec, nullable=False), sqlite_with_rowid=True)

attempts = Table(
    "attempts",
    metadata,
    _of_run(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("nonce", Words, nullable=False),
    Column("handle", Json),
    Column("started_at", Time, nullable=False),
    Column("ended_at", Time),
    Column("reason", Word(Reason)),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("cleaned_at", Time),
    Column("claimed_by", Words),  # the instance of the job that may execute, where a scheduler may start several
    Column("node_seconds", Double),  # for how long it had its nodes, of a target that has nodes
    sqlite_with_rowid=False,
)
_is_left = attempts.c.cleaned_at.is_(None) & attempts.c.handle.is_not(None)
Index("attempts_to_clean", attempts.c.run, sqlite_where=_is_left)

# Nodes of clusters. The row is there before the node is, and until it is gone.
nodes = Table(
    "nodes",
    metadata,
    Column("workspace", Words, primary_key=True),
    Column("target", Words, primary_key=True),
    Column("id", Words, primary_key=True),
    Column("state", Words, nullable=False),  # preparing, ready, leaving, preempted or unusable
    Column("machine", Words, nullable=False),  # the computer that it is a share of
    Column("is_low_priority", Boolean, nullable=False),
    Column("millicores", Integer, nullable=False),  # its share of the computer
    Column("memory_mb", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("idle_since", Time),  # of one that is ready and has no runs
    Column("message", Words, nullable=False),
    ForeignKeyConstraint(["workspace", "target"], ["targets.workspace", "targets.name"], ondelete="CASCADE"),
)

# What dispatched runs have of their targets, one row per node. `machine` is the computer that it is taken from.
allocations = Table(
    "allocations",
    metadata,
    _of_run(),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("workspace", Words, nullable=False),
    Column("target", Words, nullable=False),
    Column("node", Words, nullable=False),  # "" where the target has no nodes
    Column("machine", Words, nullable=False),
    Column("millicores", Integer, nullable=False),
    Column("memory_mb", Integer, nullable=False),
    Column("gpus", Json, nullable=False),  # device numbers
    Column("since", Time, nullable=False),
    sqlite_with_rowid=False,
)
Index("allocations_by_machine", allocations.c.machine)
Index("allocations_by_target", allocations.c.workspace, allocations.c.target, allocations.c.node)

# How many cores of a family of VM sizes a workspace may have.
quotas = Table(
    "quotas",
    metadata,
    Column("workspace", Words, ForeignKey("workspaces.name"), primary_key=True),
    Column("family", Words, primary_key=True),
    Column("cores", Integer, nullable=False),
)

events = Table(
    "events",
    metadata,
    _of_run(),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Time, nullable=False),
    Column("kind", Words, nullable=False),
    Column("state", Word(RunState)),
    Column("reason", Word(Reason)),
    Column("message", Words, nullable=False),
    Column("data", Json, nullable=False),
    sqlite_with_rowid=False,
)

# Tags and properties once more, for filters; a run's row has them whole.
labels = Table(
    "labels",
    metadata,
    _of_run(),
    Column("kind", Text, primary_key=True),  # "tag" or "property"
    Column("key", Words, primary_key=True),
    Column("value", Words),
    sqlite_with_rowid=False,
)
Index("labels_by_key", labels.c.kind, labels.c.key, labels.c.value, labels.c.run)

artifacts = Table(
    "artifacts",
    metadata,
    _of_run(),
    Column("path", Words, primary_key=True),
    Column("digest", Words, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("gap_offset", BigInteger, nullable=False),
    Column("gap_length", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The files of an attempt whose run was queued again. They become files of the run, or are replaced, at its end.
attempt_files = Table(
    "attempt_files",
    metadata,
    _of_run(),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("path", Words, primary_key=True),
    Column("digest", Words, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("gap_offset", BigInteger, nullable=False),
    Column("gap_length", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# How far each writer's lines were taken: what makes them count exactly once.
cursors = Table(
    "cursors",
    metadata,
    _of_run(),
    Column("kind", Text, primary_key=True),  # "metrics" or "calls"
    Column("writer", Words, primary_key=True),
    Column("position", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

series = Table(
    "series",
    metadata,
    Column("pk", RowId, primary_key=True),
    _of_run(primary_key=False),
    Column("workspace", Words, nullable=False),
    Column("experiment", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("description", Words, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("last_value", Json),
    Column("last", Double),  # to sort and filter by: NULL where the last value is no number, or NaN
    Column("least", Double),
    Column("most", Double),
    Column("attempt", Integer, nullable=False, server_default="1"),  # of the run, that logged to it last
)
Index("series_by_run", series.c.run, series.c.name, unique=True)
Index("series_by_last", series.c.workspace, series.c.name, series.c.last, series.c.run, series.c.experiment)

chunks = Table(
    "chunks",
    metadata,
    Column("series", RowId, ForeignKey("series.pk", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("form", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("times", LargeBinary, nullable=False),
    Column("steps", LargeBinary),
)

settings = Table("settings", metadata, Column("name", Words, primary_key=True), Column("value", Json, nullable=False))

tokens = Table(
    "tokens",
    metadata,
    Column("id", Words, primary_key=True),
    Column("digest", Words, nullable=False, unique=True),
    Column("principal", Words, nullable=False),
    Column("role", Words, nullable=False),
    Column("workspace", Words),
    Column("created_at", Time, nullable=False),
    Column("expires_at", Time),
    Column("revoked_at", Time),
    Column("last_used_at", Time),
)
