"""Events of a target over HTTP: in pages, the newest first, also after the target was removed."""

from __future__ import annotations

from tests.server.serving import HOME, Server


def test_events_are_read_in_pages(server: Server) -> None:
    for number in range(5):
        server.store.target_events.add("default", "local", "test", f"number {number}")
    first = server.call("GET", f"{HOME}/targets/local/events?limit=3").json
    assert [event["message"] for event in first["events"]] == ["number 4", "number 3", "number 2"]
    assert {event["kind"] for event in first["events"]} == {"test"}
    then = server.call("GET", f"{HOME}/targets/local/events?limit=3&before={first['next']}").json
    assert [event["message"] for event in then["events"]] == ["number 1", "number 0"]
    assert then["next"] is None


def test_a_target_without_events_has_an_empty_page(shared: Server) -> None:
    assert shared.call("GET", f"{HOME}/targets/docker/events").json == {"events": [], "next": None}
    assert shared.call("GET", f"{HOME}/targets/nowhere/events").code == "not_found"


def test_what_became_of_a_deleted_cluster_can_be_read(server: Server) -> None:
    body = {"name": "small", "kind": "cluster", "config": {"vm_size": "STANDARD_D2_V2"}}
    assert server.call("POST", f"{HOME}/targets", body).status == 201
    assert server.call("DELETE", f"{HOME}/targets/small").status == 200
    server.store.attachments.finish_deletion("default", "small", "server")
    assert server.call("GET", f"{HOME}/targets/small").status == 404
    events = server.call("GET", f"{HOME}/targets/small/events").json["events"]
    assert [event["kind"] for event in events] == ["deleted", "deleting", "created"]
