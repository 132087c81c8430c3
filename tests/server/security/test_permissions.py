"""Every route times every kind of caller, from the route table itself; nothing is let through by being forgotten."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.routing import Route as PlainRoute

from tests.databases import migrated_sqlite
from tests.faults.world import wait_for
from tests.server.serving import API, HOME, KEY, Server, serving
from windlass.core.states import Reason, RunState, Step
from windlass.server.http.request import ApiRequest
from windlass.server.http.routing import ROUTES, Route, RouteSpec, check_permissions
from windlass.server.security import principals
from windlass.server.security.run_tokens import run_token
from windlass.store import Ending

READS = {
    "api.read",
    "workspaces.read",
    "workspace.read",
    "runs.read",
    "targets.read",
    "environments.read",
    "models.read",
}
SUBMITS = {"runs.submit", "experiments.write", "targets.use", "secrets.use", "environments.write", "models.write"}
CHANGES_RUNS = {"runs.write", "runs.cancel"}
OPENS_SHELLS = {"runs.exec"}
SECRETS = {"secrets.write", "audit.read"}
MEMBERS = {"tokens.read", "tokens.write"}
SETTINGS = {"settings.read", "settings.write"}
SERVER = SETTINGS | {"server.read", "server.stop", "server.gc", "workspaces.create", "secrets.rotate", "quotas.write"}

# What each caller may do, as it was agreed; the code has a table of its own.
ALLOWED: dict[str, set[str]] = {
    "anonymous": set(),
    "wrong": set(),
    "revoked": set(),
    "expired": set(),
    "reader": READS,
    "contributor": READS | SUBMITS | CHANGES_RUNS | OPENS_SHELLS,
    "owner": READS | SUBMITS | CHANGES_RUNS | OPENS_SHELLS | SECRETS | MEMBERS | {"targets.write", "targets.exec"},
    "admin": READS | SERVER | {"runs.cancel", "targets.use", "targets.write", "audit.read"},
    "home": READS
    | SUBMITS
    | CHANGES_RUNS
    | OPENS_SHELLS
    | SECRETS
    | MEMBERS
    | SERVER
    | {"targets.write", "targets.exec"},
    "run": {"workspace.read", "runs.read", "runs.submit", "environments.read", "models.read", "models.write"}
    | CHANGES_RUNS,
}
BAD = {"anonymous", "wrong", "revoked", "expired"}
RUN_TOKEN_ROUTES = {
    ("GET", "/workspaces/{workspace}"),
    ("GET", "/workspaces/{workspace}/runs"),
    ("POST", "/workspaces/{workspace}/runs"),
    ("PUT", "/workspaces/{workspace}/blobs/{digest}"),
    ("POST", "/workspaces/{workspace}/blobs"),
    ("POST", "/workspaces/{workspace}/blobs/missing"),
    ("GET", "/workspaces/{workspace}/environments"),
    ("GET", "/workspaces/{workspace}/environments/{name}"),
    ("GET", "/workspaces/{workspace}/environments/{name}/versions"),
    ("GET", "/workspaces/{workspace}/models"),
    ("POST", "/workspaces/{workspace}/models"),
    ("GET", "/workspaces/{workspace}/models/{name}"),
    ("PATCH", "/workspaces/{workspace}/models/{name}/{version}"),
    ("GET", "/workspaces/{workspace}/models/{name}/{version}/files/{path}"),
}
# A script writes its run, does not take away what was written, and opens no shells.
NOT_FOR_RUNS = {
    ("DELETE", "/workspaces/{workspace}/runs/{id}"),
    ("POST", "/workspaces/{workspace}/runs/{id}/channels"),
    ("GET", "/workspaces/{workspace}/channels/{id}/output"),
    ("POST", "/workspaces/{workspace}/channels/{id}/input"),
    ("PUT", "/workspaces/{workspace}/channels/{id}/terminal"),
    ("DELETE", "/workspaces/{workspace}/channels/{id}"),
}
# Where an empty object says too little to get as far as the run.
BODIES: dict[str, Any] = {
    "end": {"state": "Completed"},
    "metrics": {"writer": "w", "offset": 0, "lines": []},
    "snapshot": {"files": []},
}
# Routes with query parameters that are required.
QUERIES = {"lines": "?path=f.txt", "search": "?path=f.txt&text=x"}


@dataclass
class Cast:
    server: Server
    tokens: dict[str, str | None]
    own: str  # a run of the contributor
    run: str  # the run whose token is used

    def call(self, caller: str, spec: RouteSpec, **parts: str) -> int:
        values = {
            "workspace": "default",
            "id": self.run,
            "name": "thing",
            "path": "f.txt",
            "digest": "0" * 64,
            "version": "1",
            "kind": "ssh",
        }
        path = spec.template.format(**{**values, **parts}) + QUERIES.get(spec.path.rpartition("/")[2], "")
        body = BODIES.get(spec.path.rpartition("/")[2], {}) if spec.body_type in ("json", "metrics") else None
        return self.server.call(spec.method, path, body, token=self.tokens[caller], head_only=True).status


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cast]:
    home = tmp_path_factory.mktemp("home")
    with serving(migrated_sqlite(home), home) as server:
        server.store.workspaces.create("other")
        tokens: dict[str, str | None] = {role: server.make_token(role) for role in ("reader", "contributor", "owner")}
        tokens |= {"admin": server.make_token("admin", None), "home": server.token, "anonymous": None}
        tokens["stranger"] = server.make_token("owner", "other")
        tokens["wrong"] = "w" * 43
        tokens["revoked"] = server.store.tokens.issue("default", "gone", "owner", "home")[1]
        server.store.tokens.revoke("default", "gone", "home")
        past = datetime.now(UTC) - timedelta(seconds=1)
        tokens["expired"] = server.store.tokens.create("late", "owner", None, past)[1]
        contributor = tokens["contributor"]
        assert contributor is not None
        run = server.submit(token=contributor)["id"]
        tokens["run"] = run_token(KEY, run, 1)
        yield Cast(server, tokens, server.submit(token=contributor)["id"], run)


def _routes() -> list[RouteSpec]:
    # The one that would stop the server under test is tried for those who may not.
    return list(ROUTES.values())


def test_a_runs_token_is_not_for_a_new_run_with_its_id(lone: Server) -> None:
    """Members choose ids of runs, and delete their own."""
    id = lone.interactive(run_id="train-1")["id"]
    token = run_token(KEY, id, 1, lone.store.runs.get("default", id).created_at)
    lone.call("POST", f"{HOME}/runs/{id}/end", {"state": "Completed"})
    assert lone.call("DELETE", f"{HOME}/runs/{id}").status == 200
    made = lone.call("POST", "/api/v1/workspaces", {"name": "another"})
    assert made.status == 201, made.raw
    again = {"experiment": "demo", "type": "interactive", "run_id": id}
    assert lone.call("POST", "/api/v1/workspaces/another/runs", again).status == 201
    assert lone.call("GET", f"/api/v1/workspaces/another/runs/{id}", token=token).status == 401


@pytest.mark.parametrize("caller", sorted(ALLOWED))
def test_each_route_lets_in_exactly_those_who_may(cast: Cast, caller: str) -> None:
    for spec in _routes():
        path = spec.template.removeprefix(API)
        may = spec.permission == principals.OPEN or spec.permission in ALLOWED[caller]
        if caller == "run" and spec.permission != principals.OPEN:
            is_for_runs = "{id}" in path or (spec.method, path) in RUN_TOKEN_ROUTES
            may = may and is_for_runs and (spec.method, path) not in NOT_FOR_RUNS
        if may and spec.permission == "server.stop":
            continue
        status = cast.call(caller, spec)
        refused = {401, 429} if caller in BAD else {403}
        known_refusal = (spec.method, path) == ("GET", "/workspaces/{workspace}/runs") and caller == "run"
        if known_refusal:
            assert status == 403, "without its parent a run may not list"
        else:
            assert (status in refused) != may, (caller, spec.method, path, status)


def test_another_workspace_is_not_found_whatever_is_asked(cast: Cast) -> None:
    for spec in _routes():
        if "{workspace}" in spec.path:
            assert cast.call("stranger", spec) == 404, spec
            assert cast.call("stranger", spec, workspace="nowhere") == 404, spec
        elif spec.permission in SERVER:
            assert cast.call("stranger", spec) == 403, spec


def test_a_foreign_workspace_looks_like_none(cast: Cast) -> None:
    foreign = cast.server.call("GET", f"{HOME}/runs/{cast.own}", token=cast.tokens["stranger"])
    absent = cast.server.call("GET", f"{API}/workspaces/nowhere/runs/{cast.own}", token=cast.tokens["stranger"])
    assert foreign.json["error"]["message"].replace("default", "nowhere") == absent.json["error"]["message"]
    assert [
        w["name"]
        for w in cast.server.call("GET", f"{API}/workspaces", token=cast.tokens["stranger"]).json["workspaces"]
    ] == ["other"]


def test_a_contributor_changes_only_own_runs(cast: Cast) -> None:
    others = cast.server.submit()["id"]
    for spec in _routes():
        if "{id}" not in spec.path:
            continue
        status = cast.call("contributor", spec, id=others)
        opens_shell = spec.path.endswith("/runs/{id}/channels")
        assert (status == 403) == (spec.permission in CHANGES_RUNS or opens_shell), (spec, status)
    child = {"experiment": "demo", "type": "interactive", "parent": others}
    assert cast.server.call("POST", f"{HOME}/runs", child, token=cast.tokens["contributor"]).status == 403


def test_a_runs_token_is_good_for_that_run_and_its_descendants_only(cast: Cast) -> None:
    for spec in _routes():
        if "{id}" in spec.path:
            is_for_runs = (spec.method, spec.template.removeprefix(API)) not in NOT_FOR_RUNS
            assert cast.call("run", spec, id=cast.own) == (404 if is_for_runs else 403), spec
    server, token = cast.server, cast.tokens["run"]
    child = {"experiment": "demo", "type": "interactive", "parent": cast.run}
    first = server.call("POST", f"{HOME}/runs", child, token=token)
    assert first.status == 201
    second = server.call("POST", f"{HOME}/runs", {**child, "parent": first.json["id"]}, token=token)
    assert second.status == 201
    assert (
        server.call("POST", f"{HOME}/runs/{second.json['id']}/end", {"state": "Completed"}, token=token).status == 200
    )
    assert server.call("POST", f"{HOME}/runs", {**child, "parent": cast.own}, token=token).status == 404
    assert server.call("POST", f"{HOME}/runs", {**child, "parent": None}, token=token).status == 403
    listed = server.call("GET", f"{HOME}/runs?parent={cast.run}", token=token)
    assert [run["id"] for run in listed.json["runs"]] == [first.json["id"]]
    assert server.call("GET", f"{HOME}/runs?parent={cast.own}", token=token).status == 404


def test_a_runs_token_reads_what_it_is_part_of_and_no_more(cast: Cast) -> None:
    server, contributor = cast.server, str(cast.tokens["contributor"])
    top = server.submit(token=contributor)["id"]
    middle = server.submit(token=contributor, parent=top)["id"]
    sibling = server.submit(token=contributor, parent=middle)["id"]
    own = server.submit(token=contributor, parent=middle)["id"]
    token = run_token(KEY, own, 1)
    for above in (top, middle):
        assert server.call("GET", f"{HOME}/runs/{above}", token=token).json["id"] == above
        assert server.call("GET", f"{HOME}/runs/{above}/metrics", token=token).status == 200
        assert server.call("PATCH", f"{HOME}/runs/{above}", {"name": "mine"}, token=token).status == 404
        assert server.call("POST", f"{HOME}/runs/{above}/cancel", token=token).status == 404
        child = {"experiment": "demo", "type": "interactive", "parent": above}
        assert server.call("POST", f"{HOME}/runs", child, token=token).status == 404
    assert server.call("GET", f"{HOME}/runs/{sibling}", token=token).status == 404
    for above in (top, middle):
        assert server.call("GET", f"{HOME}/runs?parent={above}", token=token).status == 404
    assert server.call("GET", f"{HOME}/runs?parent={own}", token=token).json["runs"] == []


def test_a_runs_children_go_to_its_own_target(cast: Cast) -> None:
    server = cast.server
    server.store.targets.ensure("default", "elsewhere", "local", {}, None, True)
    body = server.submission(parent=cast.run)
    assert server.call("POST", f"{HOME}/runs", body, token=cast.tokens["run"]).status == 201
    away = {**body, "spec": {"script": "train.py", "target": "elsewhere"}}
    assert server.call("POST", f"{HOME}/runs", away, token=cast.tokens["run"]).status == 403


def test_a_run_that_reads_itself_is_brought_up_to_date_first(cast: Cast) -> None:
    cast.server.reconciler.pulled.clear()
    cast.server.call("GET", f"{HOME}/runs/{cast.run}/metrics", token=cast.tokens["run"])
    cast.server.call("GET", f"{HOME}/runs/{cast.run}/metrics")
    assert cast.server.reconciler.pulled == [cast.run]


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Server]:
    with serving(migrated_sqlite(tmp_path), tmp_path) as server:
        yield server


def test_a_runs_token_dies_with_the_attempt_and_an_hour_after_the_end(lone: Server) -> None:
    def status(run: str, attempt: int) -> int:
        return lone.call("GET", f"{HOME}/runs/{run}", token=run_token(KEY, run, attempt)).status

    def ended(hours: float) -> str:
        run: str = lone.submit()["id"]
        step = Step(RunState.COMPLETED, Reason.EXITED, "exit code 0", 0)
        ending = Ending(ended_at=datetime.now(UTC) - timedelta(hours=hours))
        lone.store.runs.advance(run, expect=RunState.STARTING, step=step, fence=1, ending=ending)
        return run

    assert status(ended(0.9), 1) == 200
    assert status(ended(1.1), 1) == 401
    run = lone.submit()["id"]
    assert status(run, 2) == 401
    assert lone.call("GET", f"{HOME}/runs/{run}", token=run_token(b"x" * 32, run, 1)).status == 401


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "bearer",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer " + "x" * 5000,
    ],
)
def test_what_is_not_the_token_is_no_token(shared: Server, header: str) -> None:
    headers = {"Authorization": header.format(token=shared.token)}
    answer = shared.call("GET", f"{HOME}/runs", token=None, headers=headers)
    assert answer.status == 401 and answer.code == "denied"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_in_the_address_is_refused(shared: Server) -> None:
    assert shared.call("GET", f"{HOME}/runs?token={shared.token}", token=None).status == 401
    assert shared.call("GET", f"{HOME}/runs?access_token={shared.token}").status == 400


def test_two_tokens_are_refused(shared: Server) -> None:
    twice = f"Authorization: Bearer {shared.token}\r\n" * 2
    head = f"GET {HOME}/runs HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\n{twice}Connection: close\r\n\r\n"
    assert b" 400 " in shared.send(head.encode()).split(b"\r\n")[0]


def test_many_wrong_tokens_are_slowed_down_and_the_right_one_is_not(lone: Server) -> None:
    lone.call("GET", f"{HOME}/runs")
    with ThreadPoolExecutor(8) as threads:  # enough in a second, on a slow machine too
        guesses = threads.map(
            lambda i: lone.call("GET", f"{HOME}/runs", token=f"wrong{i}"), range(principals.WRONG_PER_SECOND * 6)
        )
        assert {guess.status for guess in guesses} == {401, 429}
    assert lone.call("GET", f"{HOME}/runs").status == 200


def test_a_valid_token_that_is_new_to_the_server_is_served_among_many_wrong_ones(lone: Server) -> None:
    tokens = [lone.make_token("reader", principal=f"reader{number}") for number in range(30)]
    statuses: list[int] = []
    is_over = threading.Event()

    def guess() -> None:
        while not is_over.is_set():
            statuses.append(lone.call("GET", f"{HOME}/runs", token=secrets.token_hex(8)).status)

    threads = [threading.Thread(target=guess) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_for("the first refusal", lambda: 429 in statuses)
        assert {lone.call("GET", f"{HOME}/runs", token=token).status for token in tokens} == {200}
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert set(statuses) == {401, 429}


def test_a_route_without_a_known_permission_stops_the_start() -> None:
    def function(request: ApiRequest) -> Response:
        return Response()

    def made(permission: str) -> Route:
        spec = RouteSpec("GET", "/api/v1/x", permission, 200, None, (), "", False, False)
        return Route(function, spec, None, "GET")  # type: ignore[arg-type]

    check_permissions([made("runs.read")])
    undeclared: list[Callable[[], Any]] = [
        lambda: made(""),
        lambda: made("runs.everything"),
        lambda: PlainRoute("/x", function),
    ]
    for make in undeclared:
        with pytest.raises(RuntimeError, match="declares no permission"):
            check_permissions([make()])


def test_a_run_lists_no_strangers_by_asking_for_those_without_a_parent(cast: Cast) -> None:
    found = cast.server.call("GET", f"{HOME}/runs?parent=none", token=cast.tokens["run"])
    assert (found.status, "only the children of that run" in found.json["error"]["message"]) == (403, True)
