"""Kinds that only the server knows: their options and help, how they are attached, created, shown and deleted."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.shell_completion import ShellComplete

from tests.cli.boxes import BOX, KINDS, KITCHEN, sent, server
from tests.cli.fake import FakeSession, W, a_run, windlass
from windlass.cli.compute import credentials, managed
from windlass.cli.context import CommandContext
from windlass.cli.root import ROOT
from windlass.client.http.session import Session
from windlass.core.errors import Conflict, CredentialsNeeded, NotFound, TargetUnreachable

ADDED = f"POST {W}/targets"
POT = {**BOX, "name": "pot", "kind": "teapot", "config": {"url": "u"}, "location": "http://pot", "pin": None}
NOT_PINNED = {"identity": None, "location": "http://pot", "endpoint": "http://pot"}
MADE = {
    **BOX,
    "name": "hall",
    "kind": "kitchen",
    "config": {"max_nodes": 4, "idle_seconds_before_scaledown": 120},
    "pin": None,
    "location": "",
    "inventory": None,
}
NODES = {
    "nodes": [
        {
            "id": "stove-1",
            "state": "running",
            "resources": {"cores": 4, "memory_mb": 8000},
            "runs": ["demo_1763268000_3f9a1c2b"],
            "message": "",
        },
        {"id": "stove-2", "state": "unusable", "resources": {}, "runs": [], "message": "It does not answer."},
    ]
}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There is no person at a terminal, and a token in a file."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setattr(managed, "_POLL_SECONDS", (0.0,))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("s3cret\n")


def pots(**more: Any) -> FakeSession:
    return server(**{f"POST {W}/probe": NOT_PINNED, ADDED: POT, f"GET {W}/targets/pot": NotFound("none"), **more})


def kitchens(*views: Any, **more: Any) -> FakeSession:
    """GET of the target has these answers, one after the other; the last one again and again."""
    left = list(views) or [MADE]

    def view(body: Any, query: Any) -> Any:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    answers = {ADDED: MADE, f"GET {W}/targets/hall": view, f"GET {W}/targets/hall/nodes": NODES}
    return server(**{**answers, f"GET {W}/runs": {"runs": [], "next": None}, **more})


def attach(session: FakeSession, *words: str) -> int:
    return windlass(session, "compute", "attach", "teapot", "pot", *words)


# options


def test_help_has_the_options_of_the_kind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert windlass(pots(), "compute", "attach", "teapot", "--help") == 0
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines())
    words = " ".join(said.split())
    assert "A teapot that brews." in words
    assert "--url TEXT Where it is. [required]" in words and words.index("--url") < words.index("--cups")
    assert "--token-file FILE The token of its API. Read from FILE. --token-stdin" in words and "--ask-token" in words
    assert "--certificate-file FILE The certificate of the client." in words and "--certificate-stdin" not in words
    assert "--cups INTEGER RANGE How many cups at once. [default: 2] [x>=1]" in words
    assert "--leaf [green|black] The tea." in words
    assert "--is-hot / --no-is-hot" in words
    assert "recipe" not in words and "--write-files" not in words
    assert "--pin FINGERPRINT|accept" in words and "--slots N" in words


def test_kinds_are_listed_where_they_belong(capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(pots(), "compute", "attach", "--help") == 0
    said = capsys.readouterr().out
    assert "A teapot that brews." in said and "kitchen" not in said and "local" not in said
    assert windlass(pots(), "compute", "create") == 0
    said = capsys.readouterr().out
    assert "A kitchen with stoves." in said and "teapot" not in said


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (("--cups", "3", "--leaf", "green"), {"cups": 3, "leaf": "green"}),
        (("--no-is-hot", "--strength", "0.5"), {"is_hot": False, "strength": 0.5}),
        (("--additions", "milk", "--additions", "salt"), {"additions": ["milk", "salt"]}),
        (("--tags", "a=b", "--tags", "c=d=e"), {"tags": {"a": "b", "c": "d=e"}}),
        (("--config-slots", "x", "--slots", "2"), {"slots": "x"}),
        (("--leaf", "green"), {"leaf": "green"}),
    ],
)
def test_options_become_the_configuration(words: tuple[str, ...], config: dict[str, Any]) -> None:
    session = pots()
    assert attach(session, "--url", "u", "--token-file", "token", *words) == 0
    body = sent(session)
    assert body["config"] == {"url": "u", **config}
    assert (body["credentials"], body["pin"], body["pin_confirmed"]) == ({"api_token": "s3cret"}, None, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing option '--url'"),
        (("--url", "u", "--cups", "0"), "0 is not in the range"),
        (("--url", "u", "--leaf", "red"), "'red' is not one of 'green', 'black'"),
        (("--url", "u", "--strength", "0"), "0.0 is not in the range"),
        (("--url", "u", "--token", "x"), "No such option"),
        (("--url", "u"), "There is no terminal to ask for the api token."),
        (("--url", "u", "--secret-recipe", "x"), "No such option"),
        (("--url", "u", "--token-file", "token", "--pin", "SHA256:x"), "nothing to compare with --pin"),
    ],
)
def test_mistakes_are_told(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = pots()
    assert attach(session, *words) == 2
    assert said in capsys.readouterr().err and ADDED not in [what for what, _, _ in session.asked]


def test_credentials_that_the_kind_needs_are_named_or_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def needing(body: Any, query: Any) -> Any:
        if "certificate" not in body["credentials"]:
            raise CredentialsNeeded("It needs a certificate, too.", details={"fields": ["certificate"]})
        return POT

    session = pots(**{ADDED: needing})
    assert attach(session, "--url", "u") == 2
    assert "Add --token-file FILE or --token-stdin" in capsys.readouterr().err
    assert attach(session, "--url", "u", "--token-file", "token") == 2
    assert "Add --certificate-file FILE" in capsys.readouterr().err
    monkeypatch.setattr(credentials, "can_ask", lambda: True)
    monkeypatch.setattr(credentials, "ask_secret", lambda prompt: f"typed at {prompt}")
    assert attach(session, "--url", "u") == 0
    assert session.asked[-1][1]["credentials"] == {
        "api_token": "typed at Api token of http://pot: ",
        "certificate": "typed at Certificate of http://pot: ",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("attach kitchen x", "windlass compute create kitchen NAME"),
        ("create teapot x", "windlass compute attach teapot NAME"),
        ("attach docker x", "The target docker is always there"),
        ("create local x", "The target local is always there"),
        ("attach kubernetes x", "windlass compute attach ssh"),
        ("attach remote x", "Did you mean `windlass compute attach ssh`?"),
        ("attach RemoteDocker x", "Did you mean `windlass compute attach ssh --docker`?"),
        ("create dsvm x", "Did you mean `windlass compute attach ssh`?"),
        ("attach shs x", "Did you mean `windlass compute attach ssh`?"),
        ("attach spoon x", "has no kind spoon"),
        ("create spoon x", "There is: kitchen."),
    ],
)
def test_other_words_for_a_kind_are_explained(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(server(), "compute", *line.split()) == 2
    assert said in capsys.readouterr().err


def test_a_word_of_azure_is_a_kind_once_the_server_has_it() -> None:
    kinds = {"kinds": [{**kind, "kind": "kubernetes"} if kind["kind"] == "teapot" else kind for kind in KINDS["kinds"]]}
    session = pots(**{f"GET {W}/kinds": kinds})
    words = ("compute", "attach", "kubernetes", "pot", "--url", "u", "--token-file", "token")
    assert windlass(session, *words) == 0
    assert sent(session)["kind"] == "kubernetes"


# managed kinds


def test_a_target_is_created_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    creating = {**MADE, "provisioning_state": "Creating", "provisioning_message": "2 of 4 stoves"}
    session = kitchens(creating, creating, MADE, **{ADDED: {**creating, "provisioning_message": ""}})
    line = ("compute", "create", "kitchen", "hall", "--max-nodes", "4", "--idle-seconds", "60", "--slots", "2")
    assert windlass(session, *line) == 0
    body = sent(session)
    assert (body["kind"], body["config"]) == ("kitchen", {"max_nodes": 4, "idle_seconds_before_scaledown": 60})
    said = capsys.readouterr()
    assert said.err == "Creating hall ...\nCreating hall ... 2 of 4 stoves\n"
    assert said.out == "Created hall\nRun something there: windlass submit -c hall train.py\n"


def test_a_target_that_cannot_be_created_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {**MADE, "provisioning_state": "Failed", "provisioning_message": "There is no gas."}
    session = kitchens(failed, **{ADDED: {**MADE, "provisioning_state": "Creating"}})
    assert windlass(session, "compute", "create", "kitchen", "hall", "--max-nodes", "4") == 7
    said = capsys.readouterr().err
    assert "hall: There is no gas." in said and "windlass compute delete hall" in said


def test_a_target_need_not_be_waited_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    session = kitchens(**{ADDED: {**MADE, "provisioning_state": "Creating"}})
    assert windlass(session, "compute", "create", "kitchen", "hall", "--max-nodes", "4", "--no-wait") == 0
    assert capsys.readouterr().out == "Creating hall\nHow far it is: windlass compute show hall\n"
    monkeypatch.setattr(credentials, "can_ask", lambda: True)
    assert windlass(kitchens(), "compute", "create", "kitchen", "hall", "--max-nodes", "4") == 6, "the name is taken"


def test_it_is_shown_with_its_nodes(at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    at_terminal(80)
    updating = {**MADE, "provisioning_state": "Updating", "provisioning_message": "3 of 4 stoves"}
    assert windlass(kitchens(updating), "compute", "show", "hall") == 0
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "Provisioning Updating Message 3 of 4 stoves Created by owner" in " ".join(said.split())
    rows = [line.split() for line in said.splitlines()]
    assert ["NODE", "STATE", "RESOURCES", "RUNS", "MESSAGE"] in rows
    assert ["stove-1", "running", "cores", "4,", "memory", "8.0", "GB", "3f9a1c2b"] in rows
    assert ["stove-2", "unusable", "It", "does", "not", "answer."] in rows
    assert windlass(kitchens(), "compute", "show", "hall", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {**MADE, **NODES, "queue": []}


def test_it_is_shown_with_its_queue(at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    at_terminal(80)
    why = "2 of 4 nodes idle, 3 needed; 1 starting since 12 s"
    runs = [a_run(state="Queued", message=why, target="hall")]
    session = kitchens(**{f"GET {W}/runs": {"runs": runs, "next": None}})
    assert windlass(session, "compute", "show", "hall") == 0
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "Queue\n" in said and f"3f9a1c2b hall 2026-01-31 {why}" in " ".join(said.split())
    assert "and 1 more: windlass runs -s Queued" in said
    asked = next(query for path, _, query in session.asked if path == f"GET {W}/runs")
    assert (asked["target"], asked["state"], asked["sort"]) == ("hall", "Queued", "created_at")


def test_settings_are_shown_unless_the_location_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    pot = {**POT, "config": {"url": "http://pot", "tags": {"a": "b", "c": "d"}, "additions": ["milk"], "leaf": None}}
    assert windlass(server(**{f"GET {W}/targets/pot": pot}), "compute", "show", "pot") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "Where http://pot" in lines and "tags a=b, c=d" in lines and "additions milk" in lines
    assert not any(line.startswith(("url", "leaf")) for line in lines)
    assert windlass(kitchens({**MADE, "location": "floor 4"}), "compute", "show", "hall") == 0
    assert "max nodes 4" in " ".join(capsys.readouterr().out.split())


def test_it_is_shown_without_nodes_where_these_are_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    session = kitchens(**{f"GET {W}/targets/hall/nodes": TargetUnreachable("The kitchen does not answer.")})
    assert windlass(session, "compute", "show", "hall") == 0
    said = capsys.readouterr()
    assert "Its nodes are not known: The kitchen does not answer." in said.err and "NODE" not in said.out
    assert windlass(kitchens(**{f"GET {W}/targets/hall/nodes": {"nodes": []}}), "compute", "show", "hall") == 0
    assert "Nodes: none now\n" in capsys.readouterr().out


def test_the_list_has_the_provisioning_state(capsys: pytest.CaptureFixture[str]) -> None:
    creating = {**MADE, "provisioning_state": "Creating"}
    assert windlass(server(**{f"GET {W}/targets": {"targets": [creating, MADE]}}), "compute", "list") == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert "creating" in first and "succeeded" not in second.lower()


def test_it_is_deleted_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    gone, deleting = f"DELETE {W}/targets/hall", {**MADE, "provisioning_state": "Deleting"}
    session = kitchens(MADE, deleting, NotFound("gone"), **{gone: deleting})
    assert windlass(session, "compute", "delete", "hall", "--force") == 0
    assert [query for what, _, query in session.asked if what == gone] == [{"force": "true"}]
    assert capsys.readouterr().out == "Deleted hall.\n"
    assert windlass(kitchens(**{gone: deleting}), "compute", "delete", "hall", "--no-wait") == 0
    assert capsys.readouterr().out == "hall is being deleted.\n"
    failed = {**MADE, "provisioning_state": "Failed", "provisioning_message": "A stove is stuck."}
    assert windlass(kitchens(MADE, failed, **{gone: deleting}), "compute", "delete", "hall") == 7
    assert "A stove is stuck." in capsys.readouterr().err
    assert windlass(kitchens(**{gone: Conflict("1 run goes on there", "h")}), "compute", "delete", "hall") == 6


def test_detach_and_delete_name_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(kitchens(), "compute", "detach", "hall") == 2
    assert "windlass compute delete hall" in capsys.readouterr().err
    assert windlass(server(), "compute", "delete", "box") == 2
    assert "windlass compute detach box" in capsys.readouterr().err


# changes


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (("hall", "--max-nodes", "8"), {"config": {"max_nodes": 8}}),
        (("--max-nodes", "8", "hall"), {"config": {"max_nodes": 8}}),
        (("--slots", "2", "hall", "--idle-seconds", "9"),
         {"slots": 2, "config": {"idle_seconds_before_scaledown": 9}}),
    ],
)  # fmt: skip
def test_an_update_has_the_options_of_the_targets_kind(words: tuple[str, ...], body: dict[str, Any]) -> None:
    patch = f"PATCH {W}/targets/hall"
    session = kitchens(**{patch: {**MADE, "provisioning_state": "Updating"}})
    assert windlass(session, "compute", "update", *words) == 0
    assert sent(session, patch) == body


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (("--leaf", ""), None),
        (("--is-hot", "--cups", "1"), {"is_hot": True, "cups": 1}),
        (("--no-is-hot",), {"is_hot": False}),
        (("--url", "other"), None),
    ],
)
def test_only_what_may_change_is_changed(words: tuple[str, ...], config: dict[str, Any] | None) -> None:
    patch = f"PATCH {W}/targets/pot"
    session = server(**{f"GET {W}/targets/pot": POT, patch: POT})
    assert windlass(session, "compute", "update", "pot", *words) == (2 if config is None else 0)
    if config is not None:
        assert sent(session, patch) == {"config": config}


def test_help_of_an_update_has_the_settings_of_the_target_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(kitchens(), "compute", "update", "hall", "--help") == 0
    said = capsys.readouterr().out
    assert "--max-nodes" in said and "--idle-seconds" in said and "--cups" not in said
    assert windlass(FakeSession({}), "compute", "update", "--help") == 0
    said = capsys.readouterr().out
    assert "--slots" in said and "--max-nodes" not in said, "no server is asked"


def test_kinds_without_a_workspace_credential_have_no_public_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(server(), "compute", "public-key", "teapot") == 3
    assert "There is: ssh." in capsys.readouterr().err
    assert windlass(server(**{f"GET {W}/kinds": {"kinds": [KITCHEN]}}), "compute", "public-key") == 2


def completed(session: FakeSession, line: str) -> list[str]:
    *words, incomplete = line.split(" ")
    call = CommandContext(cast(Session, session))
    found = ShellComplete(ROOT, {"obj": call}, "windlass", "_WINDLASS_COMPLETE").get_completions(words, incomplete)
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("compute attach ", ["ssh", "teapot"]),
        ("compute create k", ["kitchen"]),
        ("compute attach teapot pot --to", ["--token-file", "--token-stdin"]),
        ("compute attach teapot pot --leaf b", ["black"]),
        ("compute create kitchen hall --idle", ["--idle-seconds"]),
        ("compute update hall --max", ["--max-nodes"]),
        ("compute public-key ", ["ssh"]),
    ],
)
def test_kinds_and_their_options_are_completed(line: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", "http://127.0.0.1:1")
    assert completed(kitchens(), line) == found
    assert completed(FakeSession({}), line) == [], "silent without a server"
