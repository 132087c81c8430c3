"""Tables of the database. A change here needs a step in migrations.py; a test compares the two."""

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
from windlass.store.db.column_types import EnumText, Json, Names, RowId, SortedText, Spec, Time

metadata = MetaData()


class QueueState(IntEnum):
    """Where a run is in its target's queue, beside its state. A run that has ended has none (NULL)."""

    WAITING = 1  # queued for a slot; nothing was done for it yet
    DISPATCHED = 2  # it has a slot, and a server that owns it or will
    INTERACTIVE = 3  # it has no target: its owner reports how it goes


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
    Column("name", SortedText, primary_key=True),
    Column("subscription_id", SortedText, nullable=False),
    Column("resource_group", SortedText, nullable=False),
    Column("location", SortedText, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("tags", Json, nullable=False),
)

experiments = Table(
    "experiments",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("id", SortedText, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("archived_at", Time),
    Column("tags", Json, nullable=False),
    Column("last_number", Integer, nullable=False),
)

targets = Table(
    "targets",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("kind", SortedText, nullable=False),
    Column("config", Json, nullable=False),
    Column("slots", Integer),
    Column("is_attached", Boolean, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("attached_by", SortedText, nullable=False, server_default=""),
    Column("quarantine", SortedText),
    Column("inventory", Json),
    Column("pin", SortedText),
    Column("pin_confirmed", Boolean, nullable=False, server_default=false()),
    Column("depends_on", Names, nullable=False, server_default="[]"),
    Column("provisioning_state", SortedText, nullable=False, server_default="Succeeded"),
    Column("provisioning_message", SortedText, nullable=False, server_default=""),
    Column("config_before", Json),
)

# Removed targets with their VM sizes, which give the price of their runs.
former_targets = Table(
    "former_targets",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("workspace", SortedText, ForeignKey("workspaces.name"), nullable=False),
    Column("name", SortedText, nullable=False),
    Column("config", Json, nullable=False),  # vm_size and vm_priority
    Column("removed_at", Time, nullable=False),
)
Index("former_targets_by_name", former_targets.c.workspace, former_targets.c.name)

# What happened to targets: the last events of each one, also of a removed one for a while.
target_events = Table(
    "target_events",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("workspace", SortedText, nullable=False),
    Column("target", SortedText, nullable=False),
    Column("at", Time, nullable=False),
    Column("kind", SortedText, nullable=False),
    Column("message", SortedText, nullable=False),
)
Index("target_events_by_target", target_events.c.workspace, target_events.c.target, target_events.c.pk)
Index("target_events_by_workspace", target_events.c.workspace, target_events.c.pk)

# The service that Azure's coordinates of a resource stand for. `coordinates` is normalized: one value per resource.
connections = Table(
    "connections",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("kind", SortedText, nullable=False),
    Column("subscription", SortedText, nullable=False),
    Column("resource_group", SortedText, nullable=False),
    Column("resource_name", SortedText, nullable=False),
    Column("coordinates", SortedText, nullable=False),
    Column("config", Json, nullable=False),
    Column("created_by", SortedText, nullable=False),
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
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("key_id", SortedText, nullable=False),
    Column("granted_to", SortedText, nullable=False),  # "runs", "named runs" or "nobody"
    Column("created_by", SortedText, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("changed_at", Time, nullable=False),
    Column("content_type", SortedText),
)

# The audit log: rows never change, and the digest of each one covers the digest of the row before.
audit = Table(
    "audit",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("at", Time, nullable=False),
    Column("workspace", SortedText, nullable=False),
    Column("principal", SortedText, nullable=False),
    Column("act", SortedText, nullable=False),
    Column("object", SortedText, nullable=False),
    Column("details", Json, nullable=False),
    Column("digest", SortedText, nullable=False),
)
Index("audit_by_workspace", audit.c.workspace, audit.c.pk)

environments = Table(
    "environments",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("version", SortedText, primary_key=True),
    Column("definition", Json, nullable=False),
    Column("created_by", SortedText, nullable=False),
    Column("created_at", Time, nullable=False),
)

# Wheels of the workspace by file name, for use in environments.
wheels = Table(
    "wheels",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("digest", SortedText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_by", SortedText, nullable=False),
    Column("created_at", Time, nullable=False),
)

# Saved run configurations of a workspace: what a form of the studio or a command starts from.
run_configurations = Table(
    "run_configurations",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("content", Json, nullable=False),
    Column("changed_by", SortedText, nullable=False),
    Column("changed_at", Time, nullable=False),
)

# Versions count up. A deleted version keeps its row, without files, so that its number is not used again.
models = Table(
    "models",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("name", SortedText, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("run", SortedText),
    Column("experiment", SortedText),
    Column("description", SortedText, nullable=False),
    Column("framework", SortedText, nullable=False),
    Column("framework_version", SortedText, nullable=False),
    Column("tags", Json, nullable=False),
    Column("properties", Json, nullable=False),
    Column("files", Json, nullable=False),  # [[path, digest, size]]
    Column("created_by", SortedText, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("changed_at", Time, nullable=False),
    Column("deleted_at", Time),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("digest", SortedText, primary_key=True),
    Column("files", Json, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("used_at", Time, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("id", SortedText, nullable=False, unique=True),
    Column("workspace", SortedText, nullable=False),
    Column("experiment", SortedText, nullable=False),
    Column("number", Integer, nullable=False),
    Column("type", SortedText, nullable=False),
    Column("state", EnumText(RunState), nullable=False),
    Column("state_at", Time, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("target", SortedText, nullable=False),
    Column("name", SortedText, nullable=False),
    Column("description", SortedText, nullable=False),
    Column("submitted_by", SortedText, nullable=False),
    Column("parent", SortedText),
    Column("root", SortedText),
    Column("intent", EnumText(Intent), nullable=False),
    Column("reason", EnumText(Reason)),
    Column("message", SortedText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("started_at", Time),
    Column("ended_at", Time),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("snapshot", SortedText, ForeignKey("snapshots.digest")),
    Column("error", Json),
    Column("usage", Json),
    Column("tags", Json, nullable=False),
    Column("properties", Json, nullable=False),
    # Internal, not shown by the API: queue and lease.
    Column("key", SortedText),
    Column("body_hash", SortedText, nullable=False),
    Column("place", SmallInteger, key="queue_state"),
    Column("priority", Integer, nullable=False),
    Column("last_event", Integer, nullable=False),
    Column("owner", SortedText),
    Column("fence", Integer, nullable=False),
    Column("lease_until", BigInteger),
    Column("heartbeat_at", Time),
    Column("searched", SortedText, nullable=False),  # id, name, experiment and tags, case folded
    Column("eviction", SortedText),  # why its attempt is to be stopped and the run queued again
    Column("archived_at", Time),
    Column("searched_arguments", SortedText, nullable=False, server_default=""),  # case folded, their beginning
    Column("changed_at", BigInteger),  # by the clock of a shared database; NULL on SQLite
    ForeignKeyConstraint(["workspace", "experiment"], ["experiments.workspace", "experiments.name"]),
)

# Databases use this partial index for every comparison with the column, since none of them is true for NULL.
_has_queue_state = runs.c.queue_state.is_not(None)
Index("runs_by_key", runs.c.workspace, runs.c.key, unique=True)
# Lists leave out archived runs: with `archived_at` in the index, these are skipped without reading their rows.
Index("runs_by_time", runs.c.workspace, runs.c.created_at, runs.c.pk, runs.c.archived_at)
Index(
    "runs_by_experiment",
    runs.c.workspace,
    runs.c.experiment,
    runs.c.created_at,
    runs.c.pk,
    runs.c.archived_at,
)
Index(
    "runs_by_submitter",
    runs.c.workspace,
    runs.c.submitted_by,
    runs.c.created_at,
    runs.c.pk,
    runs.c.archived_at,
)
# In this order, runs are counted by state and experiment without sorting.
Index("runs_by_state", runs.c.workspace, runs.c.state, runs.c.experiment, runs.c.created_at, runs.c.archived_at)
Index("runs_by_change", runs.c.workspace, runs.c.changed_at, sqlite_where=runs.c.changed_at.is_not(None))
Index("runs_by_parent", runs.c.parent, runs.c.queue_state)
Index("runs_by_snapshot", runs.c.snapshot)
Index(
    "runs_by_place",
    runs.c.queue_state,
    runs.c.workspace,
    runs.c.target,
    runs.c.priority.desc(),
    runs.c.pk,
    sqlite_where=_has_queue_state,
)

specs = Table("run_specs", metadata, _of_run(), Column("spec", Spec, nullable=False), sqlite_with_rowid=True)

attempts = Table(
    "attempts",
    metadata,
    _of_run(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("nonce", SortedText, nullable=False),
    Column("handle", Json),
    Column("started_at", Time, nullable=False),
    Column("ended_at", Time),
    Column("reason", EnumText(Reason)),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("cleaned_at", Time),
    Column("claimed_by", SortedText),  # the instance of the job that may execute, where a scheduler may start several
    Column("node_seconds", Double),  # how long it had nodes of a cluster, summed over the nodes
    sqlite_with_rowid=False,
)
_is_left = attempts.c.cleaned_at.is_(None) & attempts.c.handle.is_not(None)
Index("attempts_to_clean", attempts.c.run, sqlite_where=_is_left)

# Attempts of deleted runs with files left on their machine; `run` is the id.
deleted_attempts = Table(
    "deleted_attempts",
    metadata,
    Column("pk", RowId, primary_key=True),
    Column("workspace", SortedText, nullable=False),
    Column("target", SortedText, nullable=False),
    Column("run", SortedText, nullable=False),
    Column("number", Integer, nullable=False),
    Column("nonce", SortedText, nullable=False),
    Column("handle", Json, nullable=False),
    Column("started_at", Time, nullable=False),
    Column("reason", EnumText(Reason)),
)

# Nodes of clusters. A row is inserted before its node is created, and deleted after the node is gone.
nodes = Table(
    "nodes",
    metadata,
    Column("workspace", SortedText, primary_key=True),
    Column("target", SortedText, primary_key=True),
    Column("id", SortedText, primary_key=True),
    Column("state", SortedText, nullable=False),  # preparing, ready, leaving, preempted or unusable
    Column("machine", SortedText, nullable=False),  # the computer that provides it
    Column("is_low_priority", Boolean, nullable=False),
    Column("millicores", Integer, nullable=False),  # what it gets of the computer
    Column("memory_mb", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("idle_since", Time),  # for nodes that are ready and have no runs
    Column("message", SortedText, nullable=False),
    ForeignKeyConstraint(["workspace", "target"], ["targets.workspace", "targets.name"], ondelete="CASCADE"),
)

# Cores, memory and GPUs allocated to dispatched runs, one row per node. `machine` is the computer that provides them.
allocations = Table(
    "allocations",
    metadata,
    _of_run(),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("workspace", SortedText, nullable=False),
    Column("target", SortedText, nullable=False),
    Column("node", SortedText, nullable=False),  # "" where the target has no nodes
    Column("machine", SortedText, nullable=False),
    Column("millicores", Integer, nullable=False),
    Column("memory_mb", Integer, nullable=False),
    Column("gpus", Json, nullable=False),  # device numbers
    Column("since", Time, nullable=False),
    sqlite_with_rowid=False,
)
Index("allocations_by_machine", allocations.c.machine)
Index("allocations_by_target", allocations.c.workspace, allocations.c.target, allocations.c.node)

# The maximum of cores that a workspace may use, by family of VM sizes.
quotas = Table(
    "quotas",
    metadata,
    Column("workspace", SortedText, ForeignKey("workspaces.name"), primary_key=True),
    Column("family", SortedText, primary_key=True),
    Column("cores", Integer, nullable=False),
)

events = Table(
    "events",
    metadata,
    _of_run(),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Time, nullable=False),
    Column("kind", SortedText, nullable=False),
    Column("state", EnumText(RunState)),
    Column("reason", EnumText(Reason)),
    Column("message", SortedText, nullable=False),
    Column("data", Json, nullable=False),
    sqlite_with_rowid=False,
)

# Tags and properties, one per row, for filters; the run's row has them as JSON too.
labels = Table(
    "labels",
    metadata,
    _of_run(),
    Column("kind", Text, primary_key=True),  # "tag" or "property"
    Column("key", SortedText, primary_key=True),
    Column("value", SortedText),
    sqlite_with_rowid=False,
)
Index("labels_by_key", labels.c.kind, labels.c.key, labels.c.value, labels.c.run)

artifacts = Table(
    "artifacts",
    metadata,
    _of_run(),
    Column("path", SortedText, primary_key=True),
    Column("digest", SortedText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("gap_offset", BigInteger, nullable=False),
    Column("gap_length", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Files of attempts whose run was queued again. At the end of the run they become its files, or are replaced.
attempt_files = Table(
    "attempt_files",
    metadata,
    _of_run(),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("path", SortedText, primary_key=True),
    Column("digest", SortedText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("gap_offset", BigInteger, nullable=False),
    Column("gap_length", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The offset up to which each writer's lines were stored, so that each line counts exactly once.
cursors = Table(
    "cursors",
    metadata,
    _of_run(),
    Column("kind", Text, primary_key=True),  # "metrics" or "calls"
    Column("writer", SortedText, primary_key=True),
    Column("position", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

series = Table(
    "series",
    metadata,
    Column("pk", RowId, primary_key=True),
    _of_run(primary_key=False),
    Column("workspace", SortedText, nullable=False),
    Column("experiment", SortedText, nullable=False),
    Column("name", SortedText, nullable=False),
    Column("kind", SortedText, nullable=False),
    Column("description", SortedText, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("last_value", Json),
    Column("last", Double),  # to sort and filter by: NULL where the last value is no number, or NaN
    Column("least", Double),
    Column("most", Double),
    Column("attempt", Integer, nullable=False, server_default="1"),  # the attempt of the run that logged to it last
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

settings = Table(
    "settings", metadata, Column("name", SortedText, primary_key=True), Column("value", Json, nullable=False)
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", SortedText, primary_key=True),
    Column("digest", SortedText, nullable=False, unique=True),
    Column("principal", SortedText, nullable=False),
    Column("role", SortedText, nullable=False),
    Column("workspace", SortedText),
    Column("created_at", Time, nullable=False),
    Column("expires_at", Time),
    Column("revoked_at", Time),
    Column("last_used_at", Time),
)

# Sessions of browsers, by the digest of the cookie's secret. They belong to the token with that digest.
sessions = Table(
    "sessions",
    metadata,
    Column("id", SortedText, primary_key=True),
    Column("digest", SortedText, nullable=False, unique=True),
    Column("csrf_digest", SortedText, nullable=False),
    Column("token_digest", SortedText, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("expires_at", Time, nullable=False),
)
Index("sessions_by_token", sessions.c.token_digest)

# Codes that begin a session; each is deleted by its use.
session_codes = Table(
    "session_codes",
    metadata,
    Column("digest", SortedText, primary_key=True),
    Column("token_digest", SortedText, nullable=False),
    Column("expires_at", Time, nullable=False),
    sqlite_with_rowid=False,
)
