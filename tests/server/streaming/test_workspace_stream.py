"""The stream of a workspace: what changed is announced once, after a restart and by other servers too."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import HOME, Event, Server, serving
from windlass.server.streaming import event_bus, workspace_stream
from windlass.server.streaming.event_bus import RecentChanges

STREAM = f"{HOME}/stream"


def first(events: Iterator[Event], name: str, within: float = 60.0) -> Event:
    deadline = time.monotonic() + within
    for event in events:
        if event.name == name:
            return event
        assert time.monotonic() < deadline
    raise AssertionError(f"the stream ended without {name}")


def until_all(events: Iterator[Event], wanted: set[str]) -> Event:
    """The event after which all of these runs were announced."""
    seen: set[str] = set()
    while not seen >= wanted:
        event = first(events, "runs")
        seen |= set(event.data["ids"])
    assert seen == wanted
    return event


def after(event: Event) -> str:
    return f"{STREAM}?after={quote(event.id)}"


def test_what_happens_to_runs_is_announced(server: Server) -> None:
    with server.stream(STREAM) as events:
        first(events, "targets")  # a new stream begins with it
        run = server.submit()["id"]
        until_all(events, {run})
        server.call("PATCH", f"{HOME}/runs/{run}", {"name": "new"})
        until_all(events, {run})
        notebook = server.interactive()["id"]
        until_all(events, {notebook})
        lines = {"writer": "w", "offset": 0, "lines": [{"n": "loss", "v": 1.0, "t": 1.0}]}
        server.call("POST", f"{HOME}/runs/{notebook}/metrics", lines)
        until_all(events, {notebook})
        server.call("POST", f"{HOME}/runs/{notebook}/end", {"state": "Completed"})
        until_all(events, {notebook})
        assert server.call("DELETE", f"{HOME}/runs/{notebook}").status == 200
        until_all(events, {notebook})


def test_changes_of_targets_are_announced(server: Server) -> None:
    with server.stream(STREAM) as events:
        first(events, "targets")
        server.call("PATCH", f"{HOME}/targets/local", {"slots": 3})
        first(events, "targets")
        server.store.targets.update("default", "local", quarantine="it showed another key")
        first(events, "targets")


def test_another_workspace_is_not_announced(server: Server) -> None:
    server.store.workspaces.create("team")
    server.store.targets.ensure("team", "local", "local", {}, 5, True)
    with server.stream(STREAM) as events:
        first(events, "targets")
        body = {"experiment": "demo", "type": "interactive"}
        assert server.call("POST", f"{HOME.replace('default', 'team')}/runs", body).status == 201
        mine = server.interactive()["id"]
        until_all(events, {mine})


def test_a_stream_continues_where_another_ended(server: Server) -> None:
    run = server.interactive()["id"]
    with server.stream(STREAM) as events:
        last = until_all(events, {run})
        last = first(events, "targets")
    missed = [server.interactive()["id"] for _ in range(3)]
    with server.stream(after(last)) as events:
        event = next(events)
        assert event.name == "runs" and set(event.data["ids"]) - {run} == set(missed)
        later = server.interactive()["id"]
        until_all(events, {later})


def test_a_new_stream_begins_with_the_changes_of_a_moment_ago(server: Server) -> None:
    """The client has read its lists before it opened the stream."""
    run = server.interactive()["id"]
    with server.stream(STREAM) as events:
        until_all(events, {run})


def test_after_many_changes_any_run_may_have_changed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_stream, "MOST_IDS", 2)
    with server.stream(STREAM) as events:
        last = first(events, "targets")
    for _ in range(3):
        server.interactive()
    with server.stream(after(last)) as events:
        assert next(events).data == {"ids": None}


def test_after_a_restart_any_run_may_have_changed(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    with serving(url, tmp_path) as server, server.stream(STREAM) as events:
        last = first(events, "targets")
        server.context.event_bus.close()
        assert list(events) == [], "it ends when the server stops"
    with serving(url, tmp_path) as server:
        for position in (last.id, "nonsense", "0.0", last.id.replace(".", "x")):
            with server.stream(f"{STREAM}?after={quote(position)}") as events:
                assert first(events, "runs").data == {"ids": None}
        with server.stream(after(last)) as events:
            event = next(events)
            assert (event.name, event.data) == ("runs", {"ids": None})
            server.interactive()
            assert next(events).name == "runs", "the targets are as they were"


def test_a_stream_ends_with_its_token(server: Server) -> None:
    token = server.make_token("reader", principal="gone")
    with server.stream(STREAM, token=token) as events:
        first(events, "targets")
        assert server.call("DELETE", f"{HOME}/tokens/gone").status == 204
        assert [event for event in events if event.name == "runs"] == []


def test_changes_that_follow_each_other_are_put_together(server: Server) -> None:
    """At most four events a second, fewer if it goes on."""
    with server.stream(STREAM) as events:
        first(events, "targets")
        run, started, count = server.interactive()["id"], time.monotonic(), 0
        for number in range(60):
            server.call("PATCH", f"{HOME}/runs/{run}", {"name": f"n{number}"})
        last = server.interactive()["id"]
        seen: set[str] = set()
        while last not in seen:
            seen |= set(first(events, "runs").data["ids"])
            count += 1
        assert count <= 2 + 4 * (time.monotonic() - started)


@pytest.fixture
def two_servers(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    with serving(postgres_url, tmp_path / "a") as one, serving(postgres_url, tmp_path / "b") as other:
        yield one, other


def test_changes_by_another_server_are_announced(two_servers: tuple[Server, Server]) -> None:
    one, other = two_servers
    with one.stream(STREAM) as events:
        first(events, "targets")
        run = other.interactive()["id"]
        until_all(events, {run})
        other.call("POST", f"{HOME}/runs/{run}/end", {"state": "Completed"})
        until_all(events, {run})
        other.call("PATCH", f"{HOME}/targets/local", {"slots": 3})
        first(events, "targets")
        other.call("DELETE", f"{HOME}/runs/{run}")
        last = until_all(events, {run})
    missed = other.interactive()["id"]
    with other.stream(after(last)) as events:
        assert missed in first(events, "runs").data["ids"]


def test_positions_in_recent_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = RecentChanges()
    assert changes.since(0) == ([], 0)
    for id in ("a", "b", "a"):
        changes.add(id)
    assert changes.since(0) == (["a", "b"], 3)
    assert changes.since(2) == (["a"], 3)
    assert changes.since(9) == (None, 3), "a position that is still to come is that of another server"
    assert (changes.before(0.0), changes.before(1000.0)) == (3, 0)
    changes.add(None)
    assert changes.since(2) == (None, 4)
    for number in range(event_bus.MOST_CHANGES):
        changes.add(str(number))
    assert changes.since(3)[0] is None
    assert len(changes.since(4)[0] or ()) == event_bus.MOST_CHANGES


def test_every_event_has_a_position(server: Server) -> None:
    with server.stream(STREAM) as events:
        server.interactive()
        seen = [next(events), next(events)]
    assert all(re.fullmatch(r"([0-9a-f]{8}|shared)\.\d+\.\d+\.[0-9a-f]{16}", event.id) for event in seen)
