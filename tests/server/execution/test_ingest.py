"""What is kept of a run's files at its end, and what is said of the others."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import Any, cast

import pytest

from tests.server.serving import HOME, Server
from windlass.core.errors import StorageFull
from windlass.drivers.base import Driver, Handle
from windlass.server.execution.ingest import LINES_AT_ONCE, AttemptFiles, RunIngest
from windlass.server.streaming.event_bus import EventBus


class Machine:
    """Has files; one that it may not read has nothing for us."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return self._files.get(path, b"")[offset : offset + limit]


def test_an_output_that_cannot_be_read_is_not_kept_as_an_empty_one(server: Server) -> None:
    store = server.store
    server.interactive(run_id="r")
    machine = Machine({"source/outputs/open.txt": b"abc", "source/outputs/empty.txt": b""})
    source = AttemptFiles(cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    files = [
        ("source/outputs/closed.txt", 5, None),
        ("source/outputs/empty.txt", 0, None),
        ("source/outputs/open.txt", 3, None),
    ]
    kept = RunIngest(store, EventBus(), 1 << 20).collect(source, files)
    assert [(artifact.path, artifact.size) for artifact in kept] == [("outputs/empty.txt", 0), ("outputs/open.txt", 3)]
    [told] = [event for event in store.runs.events("r") if event.kind == "left_out"]
    assert told.message.startswith("1 file is not kept") and "outputs/closed.txt" in told.message


def test_without_output_collection_only_what_was_printed_is_kept(server: Server) -> None:
    server.interactive(run_id="r")
    machine = Machine({"source/outputs/a": b"a", "source/logs/b": b"b", "user_logs/std_log.txt": b"c"})
    source = AttemptFiles(
        cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, watch=(), redactor=None, keeps_outputs=False
    )
    files = [("source/logs/b", 1, None), ("source/outputs/a", 1, None), ("user_logs/std_log.txt", 1, None)]
    kept = RunIngest(server.store, EventBus(), 1 << 20).collect(source, files, ["source/outputs/link"])
    assert [artifact.path for artifact in kept] == ["user_logs/std_log.txt"]
    assert not [event for event in server.store.runs.events("r") if event.kind == "left_out"]


class Endless(Machine):
    """Has more of every file, whatever it said."""

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return b"x" * limit


def test_of_a_file_no_more_is_taken_than_it_was_said_to_have(server: Server) -> None:
    server.interactive(run_id="r")
    source = AttemptFiles(cast("Driver[Any]", Endless({})), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    files = [("source/outputs/large", 3 << 20, None), ("user_logs/std_log.txt", 5, None)]
    kept = RunIngest(server.store, EventBus(), 1 << 20).collect(source, files)
    assert [(artifact.path, artifact.size) for artifact in kept] == [
        ("outputs/large", 3 << 20),
        ("user_logs/std_log.txt", 5),
    ]


LINE = b'{"n": "loss", "v": 1.0, "t": 1.0}\n'


class EndlessMetrics(Machine):
    """Has one more line of metrics, wherever it is read."""

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return (LINE * (limit // len(LINE) + 2))[offset % len(LINE) :][:limit]

    def clock_skew(self) -> float:
        return 0.0


def test_of_metrics_no_more_is_taken_than_they_were_said_to_have(server: Server) -> None:
    server.interactive(run_id="r")
    source = AttemptFiles(cast("Driver[Any]", EndlessMetrics({})), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    RunIngest(server.store, EventBus(), 1 << 20, run_cap=1 << 20).collect(
        source, [("metrics/a.jsonl", 10 * len(LINE), None)]
    )
    found = server.call("GET", f"{HOME}/runs/r/metrics").json["metrics"]
    assert len(found["loss"]["values"]) == 10


def test_metrics_that_grow_without_end_leave_a_turn_to_other_events(server: Server) -> None:
    server.interactive(run_id="r")
    source = AttemptFiles(cast("Driver[Any]", EndlessMetrics({})), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    assert RunIngest(server.store, EventBus(), 1 << 20).pull_some(source, "metrics/a.jsonl")
    assert LINES_AT_ONCE <= server.store.metrics.writer_offset("r", "metrics/a.jsonl") <= 2 * LINES_AT_ONCE


def test_large_outputs_wait_until_there_is_room_beside_the_others(server: Server) -> None:
    """The disk, whatever it has, has less free space than the reserve and more than half of it."""
    server.interactive(run_id="r")
    large, small = b"x" * (9 << 20), b"y" * 1000
    machine = Machine({"source/outputs/large": large, "source/outputs/small": small})
    source = AttemptFiles(cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    free = shutil.disk_usage(server.store.blobs.folder).free
    ingest = RunIngest(server.store, EventBus(), 1 << 20, reserve=free * 4 // 3)
    kept = ingest.collect(source, [("source/outputs/small", len(small), None)])
    assert [artifact.path for artifact in kept] == ["outputs/small"]
    with pytest.raises(StorageFull, match="no room for its outputs: they have 9 MB"):
        ingest.collect(source, [("source/outputs/large", len(large), None)])
    digest, _ = server.store.blobs.put([large])
    kept = ingest.collect(source, [("source/outputs/large", len(large), digest)])
    assert [artifact.digest for artifact in kept] == [digest], "what is there takes no room"


class Counting(Machine):
    """Says how many bytes were read, and has files of any size that are nothing but zeros."""

    def __init__(self, files: dict[str, bytes], sparse: dict[str, int]) -> None:
        super().__init__(files)
        self._sparse = sparse
        self.bytes_read = 0

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        data = super().read(handle, path, offset, limit)
        if path in self._sparse:
            data = bytes(max(0, min(limit, self._sparse[path] - offset)))
        self.bytes_read += len(data)
        return data

    def clock_skew(self) -> float:
        return 0.0


def source_of(machine: Machine) -> AttemptFiles:
    return AttemptFiles(cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, ("logs",))


def messages(server: Server, kind: str) -> list[str]:
    return [event.message for event in server.store.runs.events("r") if event.kind == kind]


def test_all_logs_of_a_run_together_have_a_limit(server: Server) -> None:
    server.interactive(run_id="r")
    logs = {f"source/logs/l{number}.txt": 900_000 for number in range(6)}
    source = source_of(Counting({}, logs))
    ingest = RunIngest(server.store, EventBus(), 8 << 20, run_cap=2_000_000)
    for path in logs:
        ingest.pull_some(source, path)
    assert sum(server.store.logs.list("r", 1).values()) == 2_000_000
    assert source.budget.notes == ["its logs have more than 1 MiB together: the rest is not kept"]
    kept = ingest.collect(source, [(path, size, None) for path, size in logs.items()])
    sizes = {artifact.path: (artifact.size, artifact.gap_offset, artifact.gap_length) for artifact in kept}
    whole, cut = (900_000, 0, 0), (200_000, 200_000, 700_000)
    assert sizes == {"logs/l0.txt": whole, "logs/l1.txt": whole, "logs/l2.txt": cut}
    assert len(messages(server, "log_capped")) == 1
    [lost] = messages(server, "left_out")
    assert lost.startswith("3 files are not kept, because of the limits on a run's logs") and "logs/l5.txt" in lost
    assert source.budget.notes[-1].startswith("3 files are not kept")


def test_logs_leave_the_disk_reserve_free(server: Server) -> None:
    """The disk has less free space than the reserve: of each run, the first megabyte is kept."""
    server.interactive(run_id="r")
    free = shutil.disk_usage(server.store.blobs.folder).free
    source = source_of(Counting({}, {"source/logs/a.txt": 8 << 20, "user_logs/std_log.txt": 1000}))
    ingest = RunIngest(server.store, EventBus(), 1 << 30, reserve=free * 4 // 3)
    ingest.pull_some(source, "user_logs/std_log.txt")
    ingest.pull_some(source, "source/logs/a.txt")
    assert 900_000 < sum(server.store.logs.list("r", 1).values()) <= 1 << 20
    kept = ingest.collect(source, [("source/logs/a.txt", 8 << 20, None), ("user_logs/std_log.txt", 1000, None)])
    assert {artifact.path: artifact.size + artifact.gap_length for artifact in kept} == {
        "logs/a.txt": 8 << 20,
        "user_logs/std_log.txt": 1000,
    }
    assert sum(artifact.size for artifact in kept) <= 1 << 20
    [told] = messages(server, "log_capped")
    assert "disk is nearly full" in told and "the run goes on" in told


@pytest.mark.parametrize(
    ("announced", "has", "why"),
    [(3, 200 << 30, "it has more than 3 bytes"), (1000, 10, "it has 10 of 1000 bytes"), (None, 3, "does not say how")],
)
def test_an_upload_is_what_its_call_announces(server: Server, announced: int | None, has: int, why: str) -> None:
    server.interactive(run_id="r")
    calls = [
        {"do": "upload", "path": "outputs/x", "file": "uploads/ab", "size": announced},
        {"do": "upload", "path": "outputs/y", "file": "uploads/cd", "size": 2},
    ]
    lines = b"".join(json.dumps(call).encode() + b"\n" for call in calls)
    machine = Counting({"calls/zz.jsonl": lines, "uploads/cd": b"ok"}, {"uploads/ab": has})
    RunIngest(server.store, EventBus(), 1 << 20).pull(source_of(machine), "calls/zz.jsonl")
    assert [artifact.path for artifact in server.store.artifacts.list("r")] == ["outputs/y"]
    assert machine.bytes_read < 5000
    [told] = messages(server, "warning")
    assert "outputs/x" in told and why in told


def test_an_upload_without_room_waits_and_the_end_says_so(server: Server) -> None:
    server.interactive(run_id="r")
    size = shutil.disk_usage(server.store.blobs.folder).total
    call = {"do": "upload", "path": "outputs/x", "file": "uploads/ab", "size": size}
    machine = Counting({"calls/zz.jsonl": json.dumps(call).encode() + b"\n"}, {"uploads/ab": size})
    source, ingest = source_of(machine), RunIngest(server.store, EventBus(), 1 << 20)
    ingest.pull(source, "calls/zz.jsonl")
    assert "nearly full" in source.budget.notes[0] and machine.bytes_read < 5000
    with pytest.raises(StorageFull, match="waits"):
        ingest.pull(source, "calls/zz.jsonl", 100)


def test_bad_calls_cannot_flood_the_events(server: Server) -> None:
    server.interactive(run_id="r")
    lines = json.dumps({"do": "x" * 50}).encode() + b"\n"
    RunIngest(server.store, EventBus(), 1 << 20).pull(
        source_of(Counting({"calls/a.jsonl": lines * 2000}, {})), "calls/a.jsonl"
    )
    told = messages(server, "warning")
    assert len(told) == 11 and told[-1] == "1990 more calls of the script could not be done"


def test_an_output_that_is_not_what_was_listed_is_not_kept(server: Server) -> None:
    server.interactive(run_id="r")
    listed = hashlib.sha256(b"x" * 1000).hexdigest()
    machine = Machine({"source/outputs/short": b"x" * 10, "source/outputs/other": b"y" * 1000})
    files = [("source/outputs/other", 1000, listed), ("source/outputs/short", 1000, listed)]
    source = source_of(machine)
    assert RunIngest(server.store, EventBus(), 1 << 20).collect(source, files) == []
    [told] = messages(server, "left_out")
    assert told.startswith("2 files are not kept, because the machine delivered other bytes than it had listed")
    assert source.budget.notes == [told.partition(": ")[0]]


def test_a_name_is_not_a_file_and_a_folder(server: Server) -> None:
    """Whichever comes first stays, by a call, by HTTP and at the end; all others are kept."""
    server.interactive(run_id="r")
    names = ["outputs/a", "outputs/a/inner", "outputs/b/inner", "outputs/b", "outputs/c"]
    calls = [{"do": "upload", "path": name, "file": "uploads/1", "size": 1} for name in names]
    lines = b"".join(json.dumps(call).encode() + b"\n" for call in calls)
    machine = Counting({"calls/a.jsonl": lines, "uploads/1": b"x"}, {})
    ingest = RunIngest(server.store, EventBus(), 1 << 20)
    ingest.pull(source_of(machine), "calls/a.jsonl")
    assert server.call("PUT", f"{HOME}/runs/r/files/outputs/c/inner", raw=b"x").status == 409
    listed = ["a/more", "b", "d/inner", "d", "e", "e/inner", "c"]
    files = [(f"source/outputs/{name}", 0, None) for name in listed]
    kept = ingest.collect(source_of(Machine({})), files)
    assert [artifact.path for artifact in kept] == ["outputs/d/inner", "outputs/e"]
    assert [artifact.path for artifact in server.store.artifacts.list("r")] == [
        "outputs/a", "outputs/b/inner", "outputs/c",
    ]  # fmt: skip
    assert [told.partition(" is ")[0] for told in messages(server, "warning")] == ["outputs/a/inner", "outputs/b"]
    [lost] = messages(server, "left_out")
    assert lost.startswith("4 files are not kept, because a name cannot be a file and a folder: 'outputs/a/more'")
