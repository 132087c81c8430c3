"""A follower gets everything once and in order: live, after the end, over a break, from another server."""

from __future__ import annotations

import base64
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import HOME, KEY, Event, Server, serving, states
from tests.store import makers
from windlass.core.entities import Artifact
from windlass.core.states import Reason, RunState, Step
from windlass.server.execution.outcome import BUILD_LOG, MAIN_LOG
from windlass.server.http import connection_limits
from windlass.server.security import principals
from windlass.server.security.run_tokens import run_token
from windlass.store import Ending, Store


def wait_for_followers(server: Server, count: int) -> None:
    deadline = time.monotonic() + 60
    while server.context.event_bus.subscription_count != count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


class FakeRun:
    """Plays the part of the reconciler: what the script prints arrives, and in the end is sealed."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id: str = server.submit()["id"]
        self.sizes: dict[str, int] = {}

    @property
    def store(self) -> Store:
        return self.server.store

    @property
    def path(self) -> str:
        return f"{HOME}/runs/{self.id}/stream"

    def write(self, data: bytes, path: str = MAIN_LOG) -> None:
        self.sizes[path] = self.store.logs.append(self.id, 1, path, self.sizes.get(path, 0), data)
        self.server.context.event_bus.publish(self.id)

    def start(self) -> None:
        step = Step(RunState.RUNNING, Reason.STARTED, "")
        self.store.runs.advance(self.id, expect=RunState.STARTING, step=step, fence=1)
        self.server.context.event_bus.publish(self.id)

    def end(self, gap: tuple[int, int] = (0, 0), expect: RunState = RunState.RUNNING) -> None:
        artifacts = []
        for path in self.sizes:
            digest, size = self.store.logs.seal(self.id, 1, path)
            at = gap if path == MAIN_LOG else (0, 0)
            artifacts.append(Artifact(path, digest, size, datetime.now(UTC), *at))
        step = Step(RunState.COMPLETED, Reason.EXITED, "exit code 0", 0)
        self.store.runs.advance(self.id, expect=expect, step=step, fence=1, ending=Ending(artifacts=artifacts))
        self.store.logs.drop(self.id, 1)
        self.server.context.event_bus.publish(self.id)


def log_of(events: list[Event], path: str = MAIN_LOG) -> bytes:
    """The bytes of a log, put together; fails if one is missing or comes twice."""
    data, expected = b"", None
    for event in events:
        if event.name == "log" and event.data["path"] == path:
            piece = base64.b64decode(event.data["data"])
            assert expected is None or event.data["offset"] == expected
            expected = event.data["offset"] + len(piece)
            assert event.id == f"{path}:{expected}"
            data += piece
    return data


def until(events: Iterator[Event], name: str) -> list[Event]:
    found = []
    for event in events:
        found.append(event)
        if event.name == name:
            return found
    raise AssertionError(f"the stream ended without {name}: {found}")


def test_a_follower_sees_states_log_and_end_as_they_happen(server: Server) -> None:
    run = FakeRun(server)
    with server.stream(f"{run.path}?log=auto") as events:
        seen = until(events, "state")
        run.start()
        seen += until(events, "state")
        for piece in (b"one\n", b"\xff\x00 not text", b"\r50%\r"):
            run.write(piece)
            seen += until(events, "log")
        run.end()
        seen += until(events, "end")
        assert list(events) == []
    assert states(seen) == ["Starting", "Running", "Completed"]
    assert log_of(seen) == b"one\n\xff\x00 not text\r50%\r"
    assert seen[-1].data["exit_code"] == 0


def requeue(run: FakeRun) -> None:
    """End the attempt as an eviction does, and dispatch the next one."""
    store, attempt = run.store, run.store.runs.get("default", run.id).attempt
    artifacts = []
    for path in run.sizes:
        digest, size = store.logs.seal(run.id, attempt, path)
        artifacts.append(Artifact(path, digest, size, datetime.now(UTC)))
    makers.requeue(store, run.id, expect=RunState.RUNNING, fence=attempt, slots=8, ending=Ending(artifacts=artifacts))
    store.logs.drop(run.id, attempt)
    run.sizes.clear()
    run.server.context.event_bus.publish(run.id)


def test_a_follower_reads_each_attempt_to_its_end_and_sees_where_the_next_one_begins(server: Server) -> None:
    run = FakeRun(server)
    run.start()
    run.write(b"first, ")
    with server.stream(f"{run.path}?log=auto") as events:
        seen = until(events, "log")
        run.write(b"the end of it\n")
        requeue(run)
        while "end of it" not in base64.b64decode(seen[-1].data.get("data", "")).decode():
            seen += until(events, "log")
        run.store.logs.append(run.id, 2, MAIN_LOG, 0, b"second\n")
        run.store.runs.request_cancel("default", run.id)
        server.context.event_bus.publish(run.id)
        then = until(events, "attempt")
        later = until(events, "log")
    assert log_of(seen) == b"first, the end of it\n"
    assert then[-1].data == {"attempt": 2}
    assert log_of(later) == b"second\n"


@pytest.mark.parametrize("is_final", [False, True])
def test_a_follower_that_comes_back_reads_the_rest_of_its_attempt_first(server: Server, is_final: bool) -> None:
    run = FakeRun(server)
    run.start()
    run.write(b"first attempt\n")
    requeue(run)
    digest, size = run.store.blobs.put([b"second\n"], None)
    if is_final:
        step = Step(RunState.COMPLETED, Reason.EXITED, "exit code 0", 0)
        ending = Ending(artifacts=[Artifact(MAIN_LOG, digest, size, datetime.now(UTC))])
        run.store.runs.advance(run.id, expect=RunState.STARTING, step=step, fence=2, ending=ending)
    else:
        run.store.logs.append(run.id, 2, MAIN_LOG, 0, b"second\n")
    with server.stream(f"{run.path}?log=auto&offset={MAIN_LOG}:6&attempt=1") as events:
        first = until(events, "attempt")
        second = until(events, "log")
    assert log_of(first) == b"attempt\n"
    assert log_of(second) == b"second\n"


def test_a_series_that_a_later_attempt_logs_again_is_sent_once_more(server: Server) -> None:
    run = FakeRun(server)
    run.start()
    points = [{"n": "loss", "v": float(step), "t": 1.0, "s": step} for step in range(3)]
    run.store.metrics.append(run.id, "m", 0, 3, points)
    with server.stream(f"{run.path}?metrics=true") as events:
        seen = [event for _ in range(3) for event in until(events, "metric")]
        requeue(run)
        run.store.metrics.append(run.id, "2/m", 0, 1, [{"n": "loss", "v": 10.0, "t": 2.0, "s": 1}], attempt=2)
        server.context.event_bus.publish(run.id)
        again = [event for _ in range(2) for event in until(events, "metric")]
    values = [[event.data["v"] for event in each if event.name == "metric"] for each in (seen, again)]
    assert values == [[0.0, 1.0, 2.0], [0.0, 10.0]]
    assert [event.data["i"] for event in again if event.name == "metric"] == [0, 1]


def test_a_late_follower_gets_the_same_from_what_is_kept(server: Server) -> None:
    run = FakeRun(server)
    run.start()
    content = bytes(range(256)) * 3000
    run.write(content)
    run.end()
    with server.stream(f"{run.path}?log=auto&events=true") as events:
        seen = list(events)
    assert log_of(seen) == content
    assert [event.name for event in seen][-1] == "end"
    assert [event.data["seq"] for event in seen if event.name == "event"] == [1, 2, 3]


@pytest.mark.parametrize("broken_at", [0, 1, 5, 300_000, 399_999])
def test_a_follower_resumes_by_offset_or_id(shared: Server, broken_at: int) -> None:
    run = FakeRun(shared)
    run.start()
    content = bytes(i % 251 for i in range(400_000))
    run.write(content)
    with shared.stream(f"{run.path}?log={MAIN_LOG}&offset={broken_at}") as events:
        first = until(events, "log")
    run.end()
    with shared.stream(f"{run.path}?log=auto&offset={first[-1].id}") as events:
        rest = list(events)
    assert content[:broken_at] + log_of(first) + log_of(rest) == content


def test_auto_goes_from_the_build_to_the_script(server: Server) -> None:
    run = FakeRun(server)
    run.write(b"building\n", BUILD_LOG)
    with server.stream(f"{run.path}?log=auto") as events:
        seen = until(events, "log")
        run.write(b"built\n", BUILD_LOG)
        run.start()
        run.write(b"hello\n")
        run.end()
        seen += list(events)
    assert log_of(seen, BUILD_LOG) == b"building\nbuilt\n"
    assert log_of(seen) == b"hello\n"
    order = [event.data["path"] for event in seen if event.name == "log"]
    assert order == sorted(order, key=[BUILD_LOG, MAIN_LOG].index)


def test_a_named_log_is_followed_before_it_exists(server: Server) -> None:
    run = FakeRun(server)
    run.start()
    with server.stream(f"{run.path}?log=logs/train.txt") as events:
        seen = until(events, "state")
        run.write(b"epoch 1\n", "logs/train.txt")
        seen += until(events, "log")
        run.end()
        seen += list(events)
    assert log_of(seen, "logs/train.txt") == b"epoch 1\n"


@pytest.mark.parametrize("offset", [0, 50, 99, 100, 150, 1099, 1100, 1120, 1150])
def test_a_gap_is_told_and_offsets_count_on(shared: Server, offset: int) -> None:
    run = FakeRun(shared)
    run.start()
    run.write(b"h" * 100 + b"t" * 50)
    run.end(gap=(100, 1000))
    with shared.stream(f"{run.path}?log=auto&offset={offset}") as events:
        seen = list(events)
    gaps = [event.data for event in seen if event.name == "gap"]
    missing = max(0, 1100 - max(100, offset))
    expected = [{"path": MAIN_LOG, "offset": max(100, offset), "length": missing}] if missing else []
    assert gaps == expected
    logs = [base64.b64decode(event.data["data"]) for event in seen if event.name == "log"]
    assert b"".join(logs) == b"h" * max(0, 100 - offset) + b"t" * (1150 - max(1100, offset))


def test_nothing_beyond_the_head_is_shown_before_it_is_in_order(tmp_path: Path) -> None:
    """At the end of a capped log its tail is put behind the head, before the gap is recorded."""
    with serving(migrated_sqlite(tmp_path), tmp_path, log_cap_bytes=4096) as server:
        run = FakeRun(server)
        run.start()
        run.write(b"h" * 3072)
        with server.stream(f"{run.path}?log=auto") as events:
            seen = until(events, "log")
            run.write(b"t" * 1024)
            run.end(gap=(3072, 500))
            seen += list(events)
    logs = [(event.data["offset"], base64.b64decode(event.data["data"])) for event in seen if event.name == "log"]
    assert logs == [(0, b"h" * 3072), (3572, b"t" * 1024)]


def test_metrics_come_once_and_resume_by_count(server: Server) -> None:
    run = FakeRun(server)
    run.start()
    metrics = f"{HOME}/runs/{run.id}/metrics"

    def log(offset: int, *values: Any) -> None:
        lines = [{"n": "loss:a", "v": value, "t": 1.0, "s": i} for i, value in enumerate(values, offset)]
        body = {"writer": "w", "offset": offset, "lines": lines}
        assert server.call("POST", metrics, body).status == 200

    log(0, 0.5, 0.4)
    with server.stream(f"{run.path}?metrics=true") as events:
        seen = [event for event in until(events, "metric") + until(events, "metric") if event.name == "metric"]
        log(2, 0.3)
        seen += [event for event in until(events, "metric") if event.name == "metric"]
    log(3, 0.2)
    run.end()
    with server.stream(f"{run.path}?metrics=true&seen=loss:a:3") as events:
        seen += [event for event in events if event.name == "metric"]
    assert [(event.data["i"], event.data["v"], event.data["s"]) for event in seen] == [
        (0, 0.5, 0), (1, 0.4, 1), (2, 0.3, 2), (3, 0.2, 3),
    ]  # fmt: skip


def test_events_resume_after_a_number(server: Server) -> None:
    run = FakeRun(server)
    run.start()
    run.end()
    with server.stream(f"{run.path}?events=true&after=2") as events:
        assert [event.data["seq"] for event in events if event.name == "event"] == [3]


def test_a_follower_goes_on_with_the_next_server(store_url: str, tmp_path: Path) -> None:
    with serving(store_url, tmp_path) as server:
        run = FakeRun(server)
        run.start()
        run.write(b"before ")
        with server.stream(f"{run.path}?log=auto") as events:
            seen = until(events, "log")
            assert server.call("POST", "/api/v1/shutdown").status == 202
            assert "end" not in [event.name for event in events], "the run goes on"
    with serving(store_url, tmp_path) as server:
        run.server = server
        run.write(b"after")
        run.end()
        with server.stream(f"{run.path}?log=auto&offset={seen[-1].id}") as events:
            seen += list(events)
    assert log_of(seen) == b"before after"
    assert seen[-1].name == "end"


def test_where_servers_share_a_store_a_follower_of_one_hears_of_the_other(postgres_url: str, tmp_path: Path) -> None:
    with serving(postgres_url, tmp_path) as one, serving(postgres_url, tmp_path) as other:
        run = FakeRun(other)
        with one.stream(f"{run.path}?log=auto") as events:
            seen = until(events, "state")
            run.start()
            run.write(b"far away")
            run.end()
            seen += list(events)
    assert log_of(seen) == b"far away" and seen[-1].name == "end"


def test_a_revoked_token_ends_an_open_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principals, "TRUST_SECONDS", 0.2)
    with serving(migrated_sqlite(tmp_path), tmp_path) as server:
        run = FakeRun(server)
        secret = server.store.tokens.issue("default", "guest", "reader", "owner")[1]
        with server.stream(f"{run.path}?log=auto", token=secret) as events:
            until(events, "state")
            server.store.tokens.revoke("default", "guest", "owner")  # as by another server: nobody tells this one
            time.sleep(0.25)
            run.write(b"not for you")
            assert list(events) == []
        assert server.call("GET", f"{HOME}/runs", token=secret).status == 401


def test_a_reader_that_does_not_read_holds_up_nobody(server: Server) -> None:
    run = FakeRun(server)
    run.start()
    lazy = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    lazy.request("GET", f"{run.path}?log=auto", headers={"Authorization": f"Bearer {server.token}"})
    content = b"x" * (8 << 20)
    with server.stream(f"{run.path}?log=auto") as events:
        run.write(content)
        run.end()
        assert log_of(list(events)) == content
    lazy.close()


def test_a_reader_that_does_not_read_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "READER_SECONDS", 0.3)
    with serving(migrated_sqlite(tmp_path), tmp_path) as server, socket.socket() as deaf:
        run = FakeRun(server)
        run.write(b"x" * (16 << 20))
        deaf.settimeout(60)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", server.port))
        words = [f"GET {run.path}?log=auto HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
        deaf.sendall("\r\n".join([*words, f"Authorization: Bearer {server.token}", "", ""]).encode())
        heard = b""
        while b"event: " not in heard:  # from then on it is one of those who follow, or has been
            heard += deaf.recv(64) or pytest.fail("it was never served")
        wait_for_followers(server, 0)


def test_many_followers_see_every_byte_and_leave_nothing_behind(shared: Server) -> None:
    run = FakeRun(shared)
    run.start()
    results: list[bytes] = []

    def follow() -> None:
        with shared.stream(f"{run.path}?log=auto") as events:
            results.append(log_of(list(events)))

    followers = [threading.Thread(target=follow) for _ in range(40)]
    for follower in followers:
        follower.start()
    content = b""
    for number in range(50):
        line = f"line {number}\n".encode()
        content += line
        run.write(line)
    run.end()
    for follower in followers:
        follower.join()
    assert results == [content] * 40
    wait_for_followers(shared, 0)  # those of other tests may be going only now


def test_followers_that_vanish_are_forgotten(shared: Server) -> None:
    run = FakeRun(shared)
    run.start()
    for _ in range(20):
        with shared.stream(f"{run.path}?log=auto") as events:
            until(events, "state")
    wait_for_followers(shared, 0)


@pytest.mark.parametrize(
    "query",
    [
        "log=auto&offset=-1", "log=auto&offset=x", "log=auto&offset=", "log=../x", "log=/etc/passwd",
        "log=auto&offset=../x:1", "metrics=maybe", "metrics=true&seen=loss", "metrics=true&seen=:1",
        "events=true&after=-1",         "log=auto&offset=" + "9" * 30, "log=a&log=b",
    ],
)  # fmt: skip
def test_a_stream_that_cannot_be_is_refused(shared: Server, query: str) -> None:
    run = FakeRun(shared)
    answer = shared.call("GET", f"{run.path}?{query}")
    assert answer.status == 400 and answer.code == "invalid_request"


def test_an_offset_beyond_the_end_waits_for_it(shared: Server) -> None:
    run = FakeRun(shared)
    run.start()
    run.write(b"short")
    run.end()
    with shared.stream(f"{run.path}?log=auto&offset=1000") as events:
        assert [event.name for event in events] == ["state", "end"]


def test_a_runs_own_token_follows_only_that_run(shared: Server) -> None:
    run, other = FakeRun(shared), FakeRun(shared)
    run.end(expect=RunState.STARTING)
    token = run_token(KEY, run.id, 1)
    with shared.stream(f"{run.path}?log=auto", token=token) as events:
        assert [event.name for event in events][-1] == "end"
    assert shared.call("GET", other.path, token=token).status == 404


def test_a_long_series_comes_in_pieces_without_gaps(shared: Server) -> None:
    run = FakeRun(shared)
    run.start()
    lines = [{"n": "loss", "v": i, "t": 1.0} for i in range(12_345)]
    shared.store.metrics.append(run.id, "metrics/1.jsonl", 0, 1, lines)
    run.end()
    with shared.stream(f"{run.path}?metrics=true&seen=loss:45") as events:
        seen = [(event.data["i"], event.data["v"]) for event in events if event.name == "metric"]
    assert seen == [(i, i) for i in range(45, 12_345)]
