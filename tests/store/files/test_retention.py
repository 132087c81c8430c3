"""Retention: what is removed, and that nothing is removed which a kept run needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.store.makers import finish, interactive, line, submit
from windlass.core.entities import Artifact, SnapshotFile
from windlass.core.errors import NotFound
from windlass.core.states import RunState
from windlass.store import Ending, Item, Policy, RunQuery, Store

DAY = timedelta(days=1)
LOG = "user_logs/std_log.txt"


def now() -> datetime:
    return datetime.now(UTC)


def age(store: Store) -> None:
    """Make all blobs look as if they were last requested days ago."""
    old = (now() - 10 * DAY).timestamp()
    for folder in (store.blobs.folder, store.logs.folder):
        for path in folder.rglob("*"):
            os.utime(path, (old, old))


def artifact(store: Store, path: str, data: bytes) -> Artifact:
    digest, size = store.blobs.put([data])
    return Artifact(path, digest, size, now())


def content(store: Store, digest: str) -> bytes:
    with store.blobs.open(digest) as file:
        return file.read()


def end(store: Store, id: str, days_ago: float, *artifacts: Artifact) -> None:
    """A submitted run that ended some time ago."""
    at = now() - days_ago * DAY
    finish(store, id, ending=Ending(artifacts=artifacts, started_at=at, ended_at=at))


def found(store: Store, policy: Policy) -> set[tuple[str, str]]:
    return {(item.kind, item.id) for item in store.retention.candidates(policy, now())}


def apply(store: Store, policy: Policy) -> int:
    return store.retention.apply(store.retention.candidates(policy, now()))


ALL = Policy(runs=DAY, logs=DAY, snapshots=timedelta(0), uploads=timedelta(0))
NOTHING_OF_RUNS = Policy(runs=None, logs=None, snapshots=DAY, uploads=DAY)


def test_bytes_that_nothing_names_go_when_they_are_old(store: Store) -> None:
    digest, size = store.blobs.put([b"orphan"])
    young = store.blobs.put([b"just sent"])[0]
    assert found(store, NOTHING_OF_RUNS) == set()
    age(store)
    store.blobs.missing([young])
    (item,) = store.retention.candidates(NOTHING_OF_RUNS, now())
    assert item == Item("blob", digest, size, "nothing refers to it")
    assert store.blobs.missing([digest]) == []  # to look at what may go changes nothing; to ask for it does
    assert store.retention.apply([item]) == 0
    age(store)
    assert store.retention.apply([item]) == size
    assert store.blobs.missing([digest]) == [digest]


def test_what_a_run_needs_stays(store: Store) -> None:
    source = store.blobs.put([b"print()"])
    snapshot = store.snapshots.put([SnapshotFile("train.py", *source)])
    submit(store, "r1", snapshot=snapshot)
    submit(store, "active")
    store.artifacts.add("active", artifact(store, "outputs/early", b"early"))
    end(store, "r1", 5, artifact(store, LOG, b"log"), artifact(store, "outputs/x", b"out"))
    age(store)
    for policy in (NOTHING_OF_RUNS, Policy(), Policy(snapshots=timedelta(0), uploads=timedelta(0))):
        assert found(store, policy) == set()
        assert apply(store, policy) == 0
    assert store.blobs.missing([source[0], *(each.digest for each in store.artifacts.list("r1"))]) == []


def test_an_upload_under_way_is_safe(store: Store) -> None:
    """Old bytes without a run; a client asks what is missing, nothing is, and it is about to submit."""
    digest, size = store.blobs.put([b"source"])
    age(store)
    items = store.retention.candidates(ALL, now())
    assert [item.id for item in items] == [digest]
    assert store.blobs.missing([digest]) == []
    assert store.retention.apply(items) == 0
    snapshot = store.snapshots.put([SnapshotFile("a", digest, size)])
    age(store)
    assert store.retention.apply(items) == 0
    submit(store, "r1", snapshot=snapshot)
    assert content(store, digest) == b"source"


def test_a_snapshot_that_no_run_has_goes_with_its_bytes(store: Store, aged_snapshots: Callable[[], None]) -> None:
    only, shared = store.blobs.put([b"only"]), store.blobs.put([b"shared"])
    used = store.snapshots.put([SnapshotFile("b", *shared)])
    unused = store.snapshots.put([SnapshotFile("a", *only), SnapshotFile("b", *shared)])
    submit(store, "r1", snapshot=used)
    assert found(store, ALL) == set()  # it is young
    aged_snapshots()
    age(store)
    (item,) = store.retention.candidates(ALL, now())
    assert (item.kind, item.id, item.bytes) == ("snapshot", unused, only[1] + shared[1])
    assert store.retention.apply([item]) == only[1]
    assert store.snapshots.known(used) and not store.snapshots.known(unused)
    assert store.blobs.missing([only[0], shared[0]]) == [only[0]]


def test_a_snapshot_that_is_used_again_stays(store: Store, aged_snapshots: Callable[[], None]) -> None:
    digest = store.snapshots.put([SnapshotFile("a", *store.blobs.put([b"a"]))])
    aged_snapshots()
    age(store)
    items = store.retention.candidates(ALL, now())
    assert [item.kind for item in items] == ["snapshot"]
    assert store.snapshots.known(digest)  # a client is about to submit
    assert store.retention.apply(items) == 0
    aged_snapshots()
    submit(store, "r1", snapshot=digest)
    assert store.retention.apply(items) == 0
    assert store.snapshots.get(digest).files


def test_logs_go_and_the_rest_of_the_run_stays(store: Store) -> None:
    submit(store, "old")
    submit(store, "new")
    log, output = artifact(store, LOG, b"lots of lines"), artifact(store, "outputs/model", b"model")
    mine = artifact(store, "Logs/mine.txt", b"of the user")
    end(store, "old", 5, log, output, artifact(store, "logs/more.txt", b"more"), mine)
    end(store, "new", 0.1, artifact(store, LOG, b"young lines"))
    age(store)
    policy = Policy(logs=DAY)
    (item,) = store.retention.candidates(policy, now())
    assert (item.kind, item.id, item.bytes) == ("log", "old", len(b"lots of lines") + len(b"more"))
    assert store.retention.apply([item]) == item.bytes
    assert store.artifacts.list("old") == [mine, output]
    assert store.blobs.missing([log.digest, output.digest]) == [log.digest]
    assert len(store.artifacts.list("new")) == 1
    last = store.runs.events("old")[-1]
    assert (last.kind, last.data) == ("retention", {"paths": ["logs/more.txt", LOG], "count": 2})
    assert found(store, policy) == set()


def test_old_runs_go_with_all_that_is_theirs(store: Store) -> None:
    shared = artifact(store, "outputs/shared", b"shared")
    for id, days in (("old", 5), ("new", 0.1)):
        submit(store, id, tags={"t": id}, key=id)
        store.metrics.append(id, "w", 0, 1, [line("loss", 1.0)])
        end(store, id, days, artifact(store, LOG, id.encode()), shared)
    submit(store, "active")
    age(store)
    policy = Policy(runs=DAY)
    assert found(store, policy) == {("run", "old")}
    assert apply(store, policy) == len(b"old")
    with pytest.raises(NotFound):
        store.runs.get("default", "old")
    assert [run.id for run in store.runs.find(RunQuery("default")).runs] == ["active", "new"]
    assert store.runs.find(RunQuery("default", tags=("t:old",))).runs == []
    assert store.runs.find(RunQuery("default", where=("metric.loss>0",))).runs[0].id == "new"
    assert store.artifacts.list("old") == [] and store.runs.events("old") == []
    assert store.blobs.missing([shared.digest]) == []
    assert found(store, policy) == set()


def test_a_family_stays_as_long_as_one_of_it(store: Store) -> None:
    submit(store, "parent")
    submit(store, "child", parent="parent")
    end(store, "parent", 5)
    assert found(store, Policy(runs=DAY)) == set()
    end(store, "child", 0.1)
    assert found(store, Policy(runs=DAY)) == set()
    submit(store, "lonely")
    end(store, "lonely", 5)
    assert store.retention.apply([Item("run", "parent", 0, "asked for by name")]) == 0
    assert store.runs.get("default", "parent")
    items = store.retention.candidates(Policy(runs=timedelta(0)), now())
    assert {item.id for item in items} == {"parent", "child", "lonely"}
    store.retention.apply(items)
    assert store.runs.find(RunQuery("default")).runs == []


def test_what_goes_on_does_not_go(store: Store) -> None:
    submit(store, "r1")
    store.runs.create([interactive("told")])
    store.retention.apply([Item("run", "r1", 0, ""), Item("run", "told", 0, ""), Item("log", "r1", 0, "")])
    store.retention.apply([Item("run", "nobody", 0, ""), Item("blob", "0" * 64, 0, ""), Item("leftover", "r1", 0, "")])
    assert store.runs.get("default", "r1").state is RunState.STARTING
    assert store.runs.get("default", "told").state is RunState.RUNNING


def test_live_logs_that_a_crash_left_go_after_the_end(store: Store) -> None:
    submit(store, "r1")
    store.logs.append("r1", 1, LOG, 0, b"lines")
    assert found(store, ALL) == set()
    digest, size = store.logs.seal("r1", 1, LOG)
    assert found(store, ALL) == set()  # the run goes on
    end(store, "r1", 0, Artifact(LOG, digest, size, now()))
    (item,) = store.retention.candidates(Policy(), now())
    assert (item.kind, item.id, item.bytes) == ("leftover", "r1", 5)
    store.retention.apply([item])
    assert store.logs.list("r1", 1) == {}
    assert content(store, digest) == b"lines"


def test_logs_that_were_not_sealed_stay(store: Store) -> None:
    submit(store, "r1")
    store.logs.append("r1", 1, LOG, 0, b"lines")
    end(store, "r1", 0)
    assert found(store, Policy()) == set()


def test_files_that_go_while_they_are_looked_at_are_no_trouble(store: Store) -> None:
    """Seen in a folder and gone a moment later: as a link is that leads nowhere."""
    digest, _ = store.blobs.put([b"bytes"])
    store.logs.append("gone", 1, "user_logs/a.txt", 0, b"text")
    for folder in (store.blobs.path(digest).parent, store.logs.folder / "gone" / "1"):
        (folder / ("0" * 64)).symlink_to("nowhere")
    found = store.retention.candidates(Policy(), datetime.now(UTC) + timedelta(days=2))
    assert [(item.kind, item.id) for item in found] == [("blob", digest)]


def test_after_everything_went_everything_can_come_again(store: Store, aged_snapshots: Callable[[], None]) -> None:
    source = store.blobs.put([b"print()"])
    files = [SnapshotFile("train.py", *source)]
    submit(store, "r1", snapshot=store.snapshots.put(files), key="k")
    end(store, "r1", 5, artifact(store, LOG, b"log"))
    for _ in range(2):
        aged_snapshots()
        age(store)
        apply(store, ALL)
    assert [path for path in store.blobs.folder.rglob("*") if path.is_file()] == []
    store.blobs.put([b"print()"])
    assert submit(store, "r1", snapshot=store.snapshots.put(files), key="k")[1]
