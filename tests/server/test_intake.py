"""What is kept of a run's files at its end, and what is said of the others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.server.serving import Server
from windlass.core.errors import StorageFull
from windlass.drivers.base import Driver, Handle
from windlass.server.hub import Hub
from windlass.server.intake import Intake, Source


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
    source = Source(cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    files = [
        ("source/outputs/closed.txt", 5, None),
        ("source/outputs/empty.txt", 0, None),
        ("source/outputs/open.txt", 3, None),
    ]
    kept = Intake(store, Hub(), 1 << 20).collect(source, files)
    assert [(artifact.path, artifact.size) for artifact in kept] == [("outputs/empty.txt", 0), ("outputs/open.txt", 3)]
    [told] = [event for event in store.runs.events("r") if event.kind == "left_out"]
    assert told.message.startswith("1 file is not kept") and "outputs/closed.txt" in told.message


def test_without_output_collection_only_what_was_printed_is_kept(server: Server) -> None:
    server.interactive(run_id="r")
    machine = Machine({"source/outputs/a": b"a", "source/logs/b": b"b", "user_logs/std_log.txt": b"c"})
    source = Source(
        cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, watch=(), masker=None, keeps_outputs=False
    )
    files = [("source/logs/b", 1, None), ("source/outputs/a", 1, None), ("user_logs/std_log.txt", 1, None)]
    kept = Intake(server.store, Hub(), 1 << 20).collect(source, files, ["source/outputs/link"])
    assert [artifact.path for artifact in kept] == ["user_logs/std_log.txt"]
    assert not [event for event in server.store.runs.events("r") if event.kind == "left_out"]


class Endless(Machine):
    """Has more of every file, whatever it said."""

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return b"x" * limit


def test_of_a_file_no_more_is_taken_than_it_was_said_to_have(server: Server) -> None:
    server.interactive(run_id="r")
    source = Source(cast("Driver[Any]", Endless({})), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    files = [("source/outputs/large", 3 << 20, None), ("user_logs/std_log.txt", 5, None)]
    kept = Intake(server.store, Hub(), 1 << 20).collect(source, files)
    assert [(artifact.path, artifact.size) for artifact in kept] == [
        ("outputs/large", 3 << 20),
        ("user_logs/std_log.txt", 5),
    ]


def test_large_outputs_wait_until_there_is_room_beside_the_others(server: Server) -> None:
    """Of the disk, whatever it has, nothing is left for them."""
    server.interactive(run_id="r")
    large, small = b"x" * (9 << 20), b"y" * 1000
    machine = Machine({"source/outputs/large": large, "source/outputs/small": small})
    source = Source(cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    intake = Intake(server.store, Hub(), 1 << 20, reserve=1 << 60)
    kept = intake.collect(source, [("source/outputs/small", len(small), None)])
    assert [artifact.path for artifact in kept] == ["outputs/small"]
    with pytest.raises(StorageFull, match="no room for its outputs: they have 9 MB"):
        intake.collect(source, [("source/outputs/large", len(large), None)])
    digest, _ = server.store.blobs.put([large])
    kept = intake.collect(source, [("source/outputs/large", len(large), digest)])
    assert [artifact.digest for artifact in kept] == [digest], "what is there takes no room"
