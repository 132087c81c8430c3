"""The stored log of a run with secrets: masked as it grows and at its end, whatever the machine and the server do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import Server, serving
from windlass.core.entities import Artifact
from windlass.drivers.base import Driver, Handle
from windlass.server.execution.ingest import AttemptFiles, RunIngest
from windlass.server.security.log_redaction import Redactor, SecretVariants
from windlass.server.streaming.event_bus import EventBus

LOG = "user_logs/std_log.txt"
CANARY = "the-canary-sings"
STARS = "*" * len(CANARY)


class Machine:
    """Has files that grow, and counts how much of them was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.sent = 0

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        data = self.files.get(path, b"")[offset : offset + limit]
        self.sent += len(data)
        return data

    def seen(self) -> list[tuple[str, int, str | None]]:
        return [(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in sorted(self.files.items())]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(migrated_sqlite(tmp_path), tmp_path) as running:
        running.interactive(run_id="r")
        yield running


def ingest(server: Server, cap: int = 1 << 20) -> RunIngest:
    return RunIngest(server.store, EventBus(), cap)


def source(machine: Machine, *values: str) -> AttemptFiles:
    driver = cast("Driver[Any]", machine)
    return AttemptFiles(
        driver, Handle("fake", "r.1", "n"), "r", 1, ("logs",), Redactor(SecretVariants(values or [CANARY]))
    )


def read(server: Server, artifact: Artifact) -> bytes:
    with server.store.blobs.open(artifact.digest) as file:
        return file.read()


def live(server: Server) -> bytes:
    return server.store.logs.read("r", 1, LOG)


def masked_event(server: Server) -> dict[str, Any]:
    [told] = [event for event in server.store.runs.events("r") if event.kind == "masked"]
    return dict(told.data["files"])


def check_nowhere(server: Server) -> None:
    """Not in any file of the server, the ones that nothing refers to included."""
    for path in server.context.settings.home.rglob("*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path


def test_a_follower_never_sees_the_beginning_of_a_value(server: Server) -> None:
    machine, at = Machine(), ingest(server)
    watched = source(machine)
    text = f"first\n{CANARY}\nthen {CANARY}{CANARY}\nlast"
    for end in range(1, len(text) + 1):
        machine.files[LOG] = text[:end].encode()
        at.pull_some(watched, LOG)
        assert live(server) == text.replace(CANARY, STARS)[: len(live(server))].encode()
    [kept] = at.collect(watched, machine.seen())
    assert read(server, kept) == text.replace(CANARY, STARS).encode()
    assert masked_event(server) == {LOG: 3}
    check_nowhere(server)


def test_a_log_that_was_followed_is_not_fetched_again(server: Server) -> None:
    machine, at = Machine(), ingest(server)
    machine.files = {LOG: b""}
    watched = source(machine)
    for _ in range(50):
        machine.files[LOG] += b"x" * 1000 + CANARY.encode()
        at.pull_some(watched, LOG)
    at.collect(watched, machine.seen())
    assert machine.sent < 1.2 * len(machine.files[LOG])
    check_nowhere(server)


def test_another_server_goes_on_where_the_first_one_was_killed(server: Server) -> None:
    text = f"a {CANARY} b {CANARY} c"
    for end in range(1, len(text)):
        machine = Machine()
        machine.files = {LOG: text[:end].encode()}
        server.store.logs.drop("r", 1)
        ingest(server).pull_some(source(machine), LOG)
        machine.files[LOG] = text.encode()
        [kept] = ingest(server).collect(source(machine), machine.seen())
        assert read(server, kept) == text.replace(CANARY, STARS).encode()
    check_nowhere(server)


def test_a_log_that_was_written_anew_is_kept_as_it_is_in_the_end(server: Server) -> None:
    machine, at = Machine(), ingest(server)
    machine.files = {LOG: b"something else that is quite long"}
    watched = source(machine)
    at.pull_some(watched, LOG)
    machine.files[LOG] = f"{CANARY} and something else again".encode()
    [kept] = at.collect(watched, machine.seen())
    assert read(server, kept) == f"{STARS} and something else again".encode()
    check_nowhere(server)


def test_short_logs_that_come_home_at_once_are_masked(server: Server) -> None:
    machine = Machine()
    machine.files = {LOG: f"{CANARY}\n".encode(), "source/logs/a.txt": CANARY.encode(), "user_logs/empty.txt": b""}
    kept = ingest(server).collect(source(machine), machine.seen())
    assert {a.path: read(server, a) for a in kept} == {
        LOG: f"{STARS}\n".encode(),
        "logs/a.txt": STARS.encode(),
        "user_logs/empty.txt": b"",
    }
    assert masked_event(server) == {LOG: 1, "logs/a.txt": 1}
    check_nowhere(server)


def test_our_own_numbers_are_not_masked(server: Server) -> None:
    """A value may look like one of them, and a line without it is none that can be read."""
    machine, at = Machine(), ingest(server)
    line = b'{"at": 1790000000.1, "rss_mb": 12345678}\n'
    machine.files = {"usage.jsonl": line}
    watched = source(machine, "12345678")
    at.pull_some(watched, "usage.jsonl")
    [kept] = at.collect(watched, machine.seen())
    assert read(server, kept) == line


def test_outputs_are_the_scripts_own(server: Server) -> None:
    machine = Machine()
    machine.files = {"source/outputs/x.txt": CANARY.encode(), LOG: b"nothing"}
    kept = ingest(server).collect(source(machine), machine.seen())
    assert {a.path: read(server, a) for a in kept} == {"outputs/x.txt": CANARY.encode(), LOG: b"nothing"}
    assert not [event for event in server.store.runs.events("r") if event.kind == "masked"]


@pytest.mark.parametrize("shift", range(0, 2 * len(CANARY), 3))
@pytest.mark.parametrize("is_followed", [True, False])
def test_a_log_beyond_its_cap_shows_no_half_of_a_value(server: Server, shift: int, is_followed: bool) -> None:
    """At the end of what is kept of its beginning, and at the beginning of what is kept of its end."""
    cap = 4096
    head, tail = cap - cap // 4, cap // 4
    size = 20_000
    data = bytearray(b"." * size)
    for place in (head - shift, size - tail - shift):
        data[place : place + len(CANARY)] = CANARY.encode()
    machine, at = Machine(), ingest(server, cap)
    machine.files = {LOG: bytes(data)}
    watched = source(machine)
    if is_followed:
        at.pull_some(watched, LOG)
    machine.files[LOG] = bytes(data[:head]) + bytes(size - tail - head) + bytes(data[-tail:])
    [kept] = at.collect(watched, [(LOG, size, None)])
    stored = read(server, kept)
    assert (kept.gap_offset, kept.gap_length, len(stored)) == (head, size - cap, cap)
    assert set(stored) <= set(b".*"), "a part of a value is left"
    assert stored.count(b".") >= cap - 4 * len(CANARY)


def test_a_value_that_fills_the_log_does_not_stop_it(server: Server) -> None:
    machine, at = Machine(), ingest(server)
    machine.files = {LOG: b"a" * 300_000}
    watched = source(machine, "aaaa")
    at.pull_some(watched, LOG)
    assert len(live(server)) > 299_990
    [kept] = at.collect(watched, machine.seen())
    assert read(server, kept) == b"*" * 300_000


def test_runs_without_secrets_are_read_as_before(server: Server) -> None:
    machine, at = Machine(), ingest(server)
    machine.files = {LOG: f"{CANARY}\n".encode()}
    plain = AttemptFiles(cast("Driver[Any]", machine), Handle("fake", "r.1", "n"), "r", 1, ("logs",))
    at.pull_some(plain, LOG)
    [kept] = at.collect(plain, machine.seen())
    assert read(server, kept) == f"{CANARY}\n".encode()
    assert kept.digest == machine.seen()[0][2] and machine.sent == len(machine.files[LOG])
