"""Runs are deleted and archived by those who may, and only when they have ended."""

from __future__ import annotations

from typing import Any

from tests.server.serving import HOME, Server
from windlass.core.states import Reason, RunState, Step
from windlass.store import Ending


def ended(server: Server, token: str = "", **changes: Any) -> str:
    """A run that has ended, with a live log that is still there."""
    id: str = server.submit(token=token, **changes)["id"]
    server.store.logs.append(id, 1, "user_logs/std_log.txt", 0, b"hello\n")
    step = Step(RunState.COMPLETED, Reason.EXITED, "exit code 0", 0)
    server.store.runs.advance(id, expect=RunState.STARTING, step=step, fence=1, ending=Ending())
    return id


def test_a_deleted_run_is_gone(server: Server) -> None:
    run = ended(server)
    answer = server.call("DELETE", f"{HOME}/runs/{run}")
    assert (answer.status, answer.json) == (200, {"deleted": [run]})
    for path in ("", "/events", "/files", "/metrics", "/stream", "/files/user_logs/std_log.txt"):
        assert server.call("GET", f"{HOME}/runs/{run}{path}").status == 404, path
    assert not (server.store.logs.folder / run).exists()
    assert server.call("GET", f"{HOME}/runs?archived=all").json["runs"] == []
    again = server.call("DELETE", f"{HOME}/runs/{run}")
    assert (again.status, again.code) == (404, "not_found")


def test_logs_that_a_killed_server_has_left_are_no_part_of_a_new_run(server: Server) -> None:
    """It was killed when the rows of a run were deleted, and its logs were not. A member of any workspace may choose
    the same id.
    """
    logs, path, key = server.store.logs, "user_logs/std_log.txt", {"Idempotency-Key": "once"}
    logs.append("again", 1, path, 0, b"of the deleted run\n")
    body = server.submission(run_id="again")
    assert server.call("POST", f"{HOME}/runs", body, headers=key).status == 201
    assert logs.list("again", 1) == {}
    logs.append("again", 1, path, 0, b"of the new run\n")
    assert server.call("POST", f"{HOME}/runs", body, headers=key).status == 200
    assert server.call("GET", f"{HOME}/runs/again/lines?path={path}").json["lines"] == ["of the new run"]


def test_active_runs_and_parents_are_refused(server: Server) -> None:
    active = server.submit()["id"]
    refused = server.call("DELETE", f"{HOME}/runs/{active}")
    assert (refused.status, refused.code) == (409, "conflict")
    parent = server.interactive()["id"]
    child = server.interactive(parent=parent)["id"]
    for run in (parent, child):
        server.call("POST", f"{HOME}/runs/{run}/end", {"state": "Completed"})
    refused = server.call("DELETE", f"{HOME}/runs/{parent}")
    assert refused.status == 409 and "has 1 child run" in refused.json["error"]["message"]
    assert server.call("DELETE", f"{HOME}/runs/{parent}?children=true").json == {"deleted": [parent, child]}


def test_members_delete_their_own_runs_and_owners_all(server: Server) -> None:
    ann, bob = (server.make_token("contributor", principal=name) for name in ("ann", "bob"))
    reader = server.make_token("reader")
    run = ended(server, token=ann)
    for token in (bob, reader):
        assert server.call("DELETE", f"{HOME}/runs/{run}", token=token).status == 403
        assert server.call("PATCH", f"{HOME}/runs/{run}", {"archived": True}, token=token).status == 403
    assert server.call("DELETE", f"{HOME}/runs/{run}", token=ann).status == 200
    assert server.call("DELETE", f"{HOME}/runs/{ended(server, token=ann)}").status == 200
    entries = server.call("GET", f"{HOME}/audit").json["entries"]
    assert [entry["principal"] for entry in entries if entry["act"] == "run.delete"] == ["owner", "ann"]


def test_nobody_deletes_the_runs_of_others_below_their_own(server: Server) -> None:
    ann = server.make_token("contributor", principal="ann")
    parent = server.interactive(token=ann)["id"]
    child = server.interactive(parent=parent)["id"]  # the owner's
    for run in (child, parent):
        server.call("POST", f"{HOME}/runs/{run}/end", {"state": "Completed"})
    assert server.call("DELETE", f"{HOME}/runs/{parent}?children=true", token=ann).status == 403
    assert server.call("GET", f"{HOME}/runs/{child}").status == 200


def test_archived_runs_are_left_out_until_they_are_asked_for(server: Server) -> None:
    run, other = ended(server), ended(server)
    archived = server.call("PATCH", f"{HOME}/runs/{run}", {"archived": True})
    assert archived.status == 200 and archived.json["archived_at"]

    def listed(query: str) -> list[str]:
        return [each["id"] for each in server.call("GET", f"{HOME}/runs{query}").json["runs"]]

    assert (listed(""), listed("?archived=only"), listed("?archived=all")) == ([other], [run], [other, run])
    assert server.call("GET", f"{HOME}/runs?archived=maybe").status == 400
    assert server.call("GET", f"{HOME}/runs/{run}").status == 200
    assert server.call("PATCH", f"{HOME}/runs/{run}", {"archived": False}).json["archived_at"] is None
    active = server.submit()["id"]
    assert server.call("PATCH", f"{HOME}/runs/{active}", {"archived": True}).status == 409
