"""Runs come in once, are found, described, canceled and ended."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.serving import HOME, Server
from windlass.core.states import Reason, RunState, Step


def test_a_submitted_run_is_stored_leased_and_dispatched(server: Server) -> None:
    run = server.submit(name="first", tags={"team": "blue"}, properties={"git": "abc"})
    assert run["state"] == "Starting" and run["number"] == 1 and run["target"] == "local"
    assert run["tags"] == {"team": "blue"} and run["properties"] == {"git": "abc"}
    [leased] = server.reconciler.dispatched
    assert leased.run.id == run["id"] and leased.spec.script == "train.py" and leased.nonce
    assert leased.spec.snapshot == run["snapshot"]


def test_requests_that_come_together_have_each_their_own_answer(server: Server) -> None:
    good, missing = server.submission(), {**server.submission(), "parent": "nobody"}
    wrong = {**server.submission(), "spec": {"target": 5}}
    large = {**server.submission(), "tags": {f"key{number}": "x" * 200 for number in range(500)}}
    with ThreadPoolExecutor(24) as threads:
        asked = [body for _ in range(12) for body in (good, missing, wrong, large)]
        answers = list(threads.map(lambda body: server.call("POST", f"{HOME}/runs", body), asked))
    assert [answer.status for answer in answers] == [201, 404, 400, 201] * 12
    numbers = [answer.json["number"] for answer in answers if answer.status == 201]
    assert sorted(numbers) == list(range(1, 25))
    assert {leased.run.number for leased in server.reconciler.dispatched} == set(numbers)


def test_a_run_for_a_target_that_is_not_there_is_not_found(server: Server) -> None:
    body = server.submission()
    body["spec"]["target"] = "gone"
    answer = server.call("POST", f"{HOME}/runs", body)
    assert (answer.status, answer.json["error"]["message"]) == (404, "There is no target gone.")


def test_the_same_key_makes_one_run(server: Server) -> None:
    body = server.submission()
    key = {"Idempotency-Key": "once"}
    first = server.call("POST", f"{HOME}/runs", body, headers=key)
    again = server.call("POST", f"{HOME}/runs", body, headers=key)
    assert (first.status, again.status) == (201, 200)
    assert first.json["id"] == again.json["id"]
    assert len(server.reconciler.dispatched) == 1
    other = server.call("POST", f"{HOME}/runs", {**body, "name": "other"}, headers=key)
    assert other.status == 409 and other.code == "conflict"


def test_a_key_with_several_children_makes_them_once(server: Server) -> None:
    parent = server.interactive()
    body = {
        "experiment": "demo",
        "type": "interactive",
        "parent": parent["id"],
        "count": 3,
        "tags": [{"i": "0"}, {"i": "1"}],
    }
    key = {"Idempotency-Key": "children"}
    first = server.call("POST", f"{HOME}/runs", body, headers=key)
    again = server.call("POST", f"{HOME}/runs", body, headers=key)
    assert (first.status, again.status) == (201, 200)
    ids = [run["id"] for run in first.json["runs"]]
    assert len(set(ids)) == 3 and ids == [run["id"] for run in again.json["runs"]]
    assert [run["tags"] for run in first.json["runs"]] == [{"i": "0"}, {"i": "1"}, {}]
    listed = server.call("GET", f"{HOME}/runs?parent={parent['id']}").json["runs"]
    assert {run["id"] for run in listed} == set(ids)


def test_missing_bytes_are_named_then_accepted(server: Server) -> None:
    digest = "0" * 64
    body = {**server.submission(), "files": [{"path": "train.py", "digest": digest, "size": 9}]}
    answer = server.call("POST", f"{HOME}/runs", body)
    assert answer.status == 409 and answer.code == "snapshot_incomplete"
    assert answer.json["error"]["details"]["missing"] == [digest]
    assert server.call("GET", f"{HOME}/runs").json["runs"] == []


def test_a_known_snapshot_needs_no_manifest(server: Server) -> None:
    digest = server.submit()["snapshot"]
    body = {"experiment": "demo", "spec": {"script": "train.py", "snapshot": digest}}
    assert server.call("POST", f"{HOME}/runs", body).json["snapshot"] == digest
    lost = server.call("POST", f"{HOME}/runs", {**body, "spec": {"script": "train.py", "snapshot": "1" * 64}})
    assert lost.code == "snapshot_incomplete" and lost.json["error"]["details"]["manifest"] is True
    absent = server.call("POST", f"{HOME}/runs", {**body, "spec": {"script": "other.py", "snapshot": digest}})
    assert absent.status == 400 and "other.py" in absent.json["error"]["message"]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"script": "missing.py"}, 400),
        ({"script": "/etc/passwd"}, 400),
        ({"script": "../train.py"}, 400),
        ({"script": "train.py", "target": "nowhere"}, 404),
        ({"script": "train.py", "arguments": ["a\0b"]}, 400),
        ({"script": "train.py", "arguments": ["x" * 200_000]}, 413),
        ({"script": "train.py", "environment_variables": {"A=B": "1"}}, 400),
        ({"script": "train.py", "environment_variables": {"LD_PRELOAD": "x"}}, 400),
        ({"script": "train.py", "resources": {"nodes": 0}}, 400),
        ({"script": "train.py", "resources": {"nodes": "4"}}, 400),
        ({"script": "train.py", "resources": {"gpus": 1}}, 422),
        ({"script": "train.py", "max_run_duration_seconds": -1}, 400),
        ({"script": "train.py", "max_run_duration_seconds": 10**18}, 400),
        ({"script": "train.py", "colour": "red"}, 400),
        ({}, 400),
    ],
)
def test_what_cannot_run_is_refused_and_leaves_nothing(shared: Server, spec: dict[str, Any], status: int) -> None:
    before = len(shared.call("GET", f"{HOME}/runs").json["runs"])
    answer = shared.call("POST", f"{HOME}/runs", shared.submission(spec=spec))
    assert answer.status == status, answer.raw
    assert answer.code
    assert len(shared.call("GET", f"{HOME}/runs").json["runs"]) == before


def test_a_manifest_that_cannot_be_a_tree_is_refused(shared: Server) -> None:
    digest, size = shared.store.blobs.put([b"x"])
    file = {"digest": digest, "size": size}
    for paths in (["../x"], ["/x"], ["a", "a"], ["a", "a/b"], ["a\\b"], ["x/../y"]):
        files = [{"path": path, **file} for path in [*paths, "train.py"]]
        answer = shared.call("POST", f"{HOME}/runs", {**shared.submission(), "files": files})
        assert answer.status == 400, (paths, answer.raw)


def test_runs_wait_for_a_slot_and_more_slots_admit_them(server: Server) -> None:
    changed = server.call("PATCH", f"{HOME}/targets/local", {"slots": 1})
    assert changed.json["slots"] == 1
    first, second = server.submit(), server.submit()
    assert (first["state"], second["state"]) == ("Starting", "Queued")
    assert second["reason"] == "waiting_for_slot" and "1 slot" in second["message"]
    target = server.call("GET", f"{HOME}/targets/local").json
    assert (target["active_runs"], target["queued_runs"]) == (1, 1)
    server.call("PATCH", f"{HOME}/targets/local", {"slots": None})
    assert server.reconciler.admitted[-1] == "local"


def test_details_show_what_was_asked_for(server: Server) -> None:
    run = server.submit()
    shown = server.call("GET", f"{HOME}/runs/{run['id']}").json
    assert shown["spec"]["script"] == "train.py" and shown["target_kind"] == "local"
    assert shown["log_files"] == [] and shown["events_url"].endswith("/events")
    own = server.interactive()
    assert server.call("GET", f"{HOME}/runs/{own['id']}").json["spec"] is None


def test_an_unknown_run_is_not_found(server: Server) -> None:
    answer = server.call("GET", f"{HOME}/runs/nothing_1_ab")
    assert answer.status == 404 and answer.code == "not_found"


def test_describe_changes_tags_and_keeps_properties(server: Server) -> None:
    run = server.interactive(properties={"commit": "1"}, tags={"old": "1"})
    path = f"{HOME}/runs/{run['id']}"
    change = {"name": "better", "tags": {"new": "2", "bare": None}, "remove_tags": ["old"], "properties": {"seed": "7"}}
    changed = server.call("PATCH", path, change).json
    assert changed["name"] == "better" and changed["tags"] == {"new": "2", "bare": None}
    assert changed["properties"] == {"commit": "1", "seed": "7"}
    refused = server.call("PATCH", path, {"properties": {"commit": "2"}})
    assert refused.status == 409 and refused.code == "conflict"
    assert server.call("GET", path).json["properties"]["commit"] == "1"


def test_cancel_is_a_durable_wish_and_idempotent(server: Server) -> None:
    run = server.submit()
    path = f"{HOME}/runs/{run['id']}"
    first = server.call("POST", f"{path}/cancel")
    again = server.call("POST", f"{path}/cancel")
    assert first.status == again.status == 200
    assert first.json["status"] == "CancelRequested" and first.json["state"] == "Starting"
    assert server.reconciler.woken == [run["id"], run["id"]]
    events = server.call("GET", f"{path}/events").json["events"]
    assert [event["kind"] for event in events].count("cancel") == 1


def test_an_eviction_is_durable_and_idempotent(server: Server) -> None:
    run = server.submit()
    path = f"{HOME}/runs/{run['id']}"
    for why in ("the node leaves", "again"):
        assert server.call("POST", f"{path}/evict?why={quote(why)}").json["state"] == "Starting"
    assert server.reconciler.woken == [run["id"], run["id"]]
    events = server.call("GET", f"{path}/events").json["events"]
    told = [event["message"] for event in events if event["kind"] == "eviction"]
    assert told == ["an eviction was requested: the node leaves"]
    assert server.call("POST", f"{path}/evict?why=").status == 400
    interactive = server.interactive()
    assert server.call("POST", f"{HOME}/runs/{interactive['id']}/evict").json["state"] == "Running"


def test_an_interactive_run_is_canceled_at_once(server: Server) -> None:
    run = server.interactive()
    assert server.call("POST", f"{HOME}/runs/{run['id']}/cancel").json["state"] == "Canceled"


def test_an_interactive_run_ends_by_its_own_word(server: Server) -> None:
    run = server.interactive()
    assert run["state"] == "Running"
    path = f"{HOME}/runs/{run['id']}/end"
    ended = server.call("POST", path, {"state": "Failed", "error": {"code": "user", "message": "no data"}}).json
    assert ended["state"] == "Failed" and ended["error"] == {"code": "user", "message": "no data"}
    later = server.call("POST", path, {"state": "Completed"}).json
    assert later["state"] == "Failed", "final never changes"


def test_a_submitted_run_does_not_end_by_word_alone(server: Server) -> None:
    run = server.submit()
    path = f"{HOME}/runs/{run['id']}"
    answer = server.call("POST", f"{path}/end", {"state": "Failed", "error": {"message": "bad data"}})
    assert answer.status == 200 and answer.json["state"] == "Starting"
    said = server.call("GET", f"{path}/events").json["events"][-1]
    assert said["kind"] == "failed_by_script" and said["message"] == "bad data"


def test_a_heartbeat_brings_a_silent_run_back(server: Server) -> None:
    run = server.interactive()
    silent = Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, "not heard of")
    server.store.runs.advance(run["id"], expect=RunState.RUNNING, step=silent, fence=None)
    beaten = server.call("POST", f"{HOME}/runs/{run['id']}/heartbeat").json
    assert beaten["state"] == "Running"


def test_pages_follow_each_other_without_gaps(server: Server) -> None:
    ids = [server.interactive()["id"] for _ in range(7)]
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        page = server.call("GET", f"{HOME}/runs?limit=3&sort=created_at{cursor}").json
        seen += [run["id"] for run in page["runs"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == ids


def test_runs_are_filtered_and_sorted_by_metric(server: Server) -> None:
    for loss in (0.3, 0.1, 0.2):
        run = server.interactive(tags={"sweep": "a"})
        line = {"n": "loss", "v": loss, "t": 1.0}
        server.call("POST", f"{HOME}/runs/{run['id']}/metrics", {"writer": "w", "offset": 0, "lines": [line]})
    server.interactive()
    path = f"{HOME}/runs?tag=sweep:a&where=metric.loss%3C0.25&sort=metric.loss&metrics=loss"
    found = server.call("GET", path).json["runs"]
    assert [run["metrics"]["loss"] for run in found] == [0.1, 0.2]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=1000000000", "limit=x", "cursor=forged", "sort=secret", "sort=token",
        "where=metric.loss", "where=" + "(" * 1000, "since=2026-02-30", "since=2026-01-01T00:00:00%2B99:99",
        "since=0001-01-01T00:00:00%2B14:00", "limit=1&limit=2", "unknown=1", "state=Nowhere", "search=%00",
        "token=abc", "experiment=" + "x" * 5000,
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_is_refused(shared: Server, query: str) -> None:
    answer = shared.call("GET", f"{HOME}/runs?{query}")
    assert answer.status == 400 and answer.code == "invalid_request", answer.raw


@pytest.mark.parametrize("search", ["%25", "_", "'", "%27;%20DROP%20TABLE%20runs;--", "(a%2B)%2B$", "%C3%9F"])
def test_a_search_finds_only_what_it_says(shared: Server, search: str) -> None:
    shared.interactive(name="plain")
    answer = shared.call("GET", f"{HOME}/runs?search={search}&experiment=nothing")
    assert answer.status == 200 and answer.json == {"runs": [], "next": None}


def test_usage_is_read_from_the_runs_samples(server: Server) -> None:
    run = server.submit()
    samples = [{"at": 1.0, "rss_mb": 10}, {"at": 2.0, "rss_mb": 20}]
    text = "".join(json.dumps(sample) + "\n" for sample in samples).encode() + b'{"at": 3.0, "rs'
    server.store.logs.append(run["id"], 1, "system_logs/usage.jsonl", 0, text)
    assert server.call("GET", f"{HOME}/runs/{run['id']}/usage").json == {"samples": samples, "summary": None}


def test_a_plan_stores_nothing(server: Server) -> None:
    body = {**server.submission(), "files": [{"path": "train.py", "digest": "0" * 64, "size": 9}]}
    answer = server.call("POST", f"{HOME}/plan", body)
    assert answer.status == 200
    assert answer.json == {"text": "python train.py", "target": "local", "kind": "local"}
    assert server.call("GET", f"{HOME}/runs").json["runs"] == []


def test_a_run_is_started_although_its_client_is_gone(server: Server) -> None:
    body = json.dumps(server.submission()).encode()
    head = (
        f"POST {HOME}/runs HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    server.reconciler.may_plan.clear()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + body)
        assert server.reconciler.planning.wait(60)
    server.reconciler.may_plan.set()
    deadline = time.monotonic() + 60
    while not server.reconciler.dispatched:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    [run] = server.call("GET", f"{HOME}/runs").json["runs"]
    assert server.reconciler.dispatched[0].run.id == run["id"]
