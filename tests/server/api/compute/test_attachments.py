"""Attaching: tried first, kept whole or not at all, forgotten whole. The machines are stand-ins here."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.server.machines import Machine, make_host_key
from tests.server.serving import HOME, Answer, Server
from windlass.core.entities import Artifact
from windlass.core.states import RunState
from windlass.drivers.openssh import keys

TARGETS = f"{HOME}/targets"
CREDENTIAL = f"{HOME}/kinds/ssh/workspace-credential"
PASSWORD = "hunter2 canary"


def body(name: str = "box", **changes: Any) -> dict[str, Any]:
    config = {"address": "10.0.0.7", "username": "jane", "login": "password", **changes.pop("config", {})}
    return {"name": name, "kind": "ssh", "config": config, "credentials": {"password": PASSWORD}, **changes}


def attach(server: Server, name: str = "box", **changes: Any) -> Answer:
    return server.call("POST", TARGETS, body(name, **changes))


def attached(server: Server, name: str = "box", **changes: Any) -> dict[str, Any]:
    answer = attach(server, name, **changes)
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.json
    return found


@pytest.fixture
def machine(server: Server) -> Machine:
    return server.reconciler.machines.add()


def names(server: Server) -> list[str]:
    """Of those that were attached."""
    return [target["name"] for target in server.call("GET", TARGETS).json["targets"] if target["attached_by"]]


def kept(server: Server, what: str = "password", name: str = "box") -> str | None:
    """What the key store has, opened as a driver would."""
    if server.store.secrets.find("default", f"target/{name}/{what}") is None:
        return None
    return server.context.secret_store.of_target("default", name).get(f"target/{name}/{what}").get_secret_value()


def acts(server: Server) -> list[str]:
    told = [entry for entry in reversed(server.store.audit.list("default")) if entry.act != "secret.use"]
    return [f"{entry.principal} {entry.act} {entry.object}" for entry in told]


def test_a_machine_is_identified_without_any_credential(server: Server, machine: Machine) -> None:
    question = {"kind": "ssh", "config": {"address": "10.0.0.7", "username": "jane"}}
    seen = server.call("POST", f"{HOME}/probe", question)
    assert seen.status == 200
    identity = {
        "pin": machine.host_key,
        "shown_as": keys.fingerprint(machine.host_key),
        "what": "host key",
        "how_to_compare": "look",
        "details": {"accepts": ["publickey", "password"]},
    }
    assert seen.json == {"identity": identity, "location": "jane@10.0.0.7", "endpoint": "10.0.0.7:22"}
    assert machine.heard == [] and names(server) == []


def test_it_is_attached_with_its_first_host_key_and_what_it_offers(server: Server, machine: Machine) -> None:
    target = attached(server)
    told = {"address": "10.0.0.7", "port": None, "username": "jane", "login": "password", "python": "python3"}
    assert told.items() <= target["config"].items()
    shown = keys.fingerprint(machine.host_key)
    assert (target["pin"], target["pin_confirmed"], target["pin_shown_as"]) == (machine.host_key, False, shown)
    assert (target["location"], target["depends_on"]) == ("jane@10.0.0.7", [])
    assert (target["provisioning_state"], target["provisioning_message"]) == ("Succeeded", "")
    assert target.pop("notes") == [f"pinned the first host key that 10.0.0.7:22 showed: {shown}"]
    assert target["inventory"] == machine.inventory
    assert (target["slots"], target["attached_by"], target["quarantine"]) == (8, "owner", None)
    assert server.call("GET", f"{TARGETS}/box").json == target
    assert kept(server) == PASSWORD
    assert acts(server) == ["owner secret.set target/box/password", "owner target.attach box"]
    assert server.reconciler.forgotten == ["box"]


def test_a_small_machine_takes_a_few_runs_at_once_all_the_same(server: Server, machine: Machine) -> None:
    machine.inventory["cores"] = 1
    assert attached(server)["slots"] == 4
    machine.inventory["cores"] = 10**9
    assert attached(server, "huge")["slots"] == 100_000
    assert attached(server, "two", slots=2)["slots"] == 2


def test_a_host_key_that_somebody_compared_is_kept_as_such(server: Server, machine: Machine) -> None:
    target = attached(server, pin=f"{machine.host_key} a comment", pin_confirmed=True)
    assert (target["pin"], target["pin_confirmed"], target["notes"]) == (machine.host_key, True, [])
    assert attached(server, "other", pin_confirmed=True)["pin_confirmed"] is False


PRIVATE, PUBLIC = keys.make_key_pair("")
REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "another machine": ({"pin": make_host_key()}, 409, "conflict", "Nothing was sent there"),
    "wrong password": ({"credentials": {"password": "x"}}, 502, "login_refused", "does not let us in"),
    "no such machine": ({"config": {"address": "10.0.0.9"}}, 503, "target_unreachable", "Connection refused"),
    "no credentials": ({"credentials": {}}, 422, "credentials_needed", "needs password, and got none"),
    "the wrong ones": ({"config": {"login": "key"}}, 400, "invalid_request", "needs private-key, and got password"),
    "too many": ({"credentials": {"password": "x", "private_key": PRIVATE}}, 400, "invalid_request", "needs password"),
    "a passphrase for nothing": (
        {"credentials": {"password": "x", "passphrase": "y"}}, 400, "invalid_request", "no private key"
    ),
    "a public key": (
        {"credentials": {"private_key": "ssh-ed25519 AAAA"}}, 400, "invalid_request", "This is a public key"
    ),
    "a password of two lines": ({"credentials": {"password": "a\nb"}}, 400, "invalid_request", "cannot be typed"),
    "an unknown credential": ({"credentials": {"pin": "x"}}, 400, "invalid_request", "credentials.pin"),
    "no host key": ({"pin": "no key"}, 400, "invalid_request", "Not a host's public key"),
    "two ports": ({"config": {"address": "10.0.0.7:22", "port": 23}}, 400, "invalid_request", "names port 22"),
    "an unknown setting": ({"config": {"colour": "red"}}, 400, "invalid_request", "config.colour"),
    "an option as address": ({"config": {"address": "-oProxyCommand=x"}}, 400, "invalid_request", "An address is"),
    "no kind": ({"kind": "teapot"}, 404, "not_found", "no kind of target 'teapot'"),
    "an inner kind": ({"kind": "dummy", "config": {}}, 422, "not_supported", "are not attached"),
    "this computer": ({"kind": "local", "config": {}}, 422, "not_supported", "are not attached"),
    "a reserved name": ({"name": "local"}, 409, "conflict", "this server's own"),
    "the other one": ({"name": "docker"}, 409, "conflict", "this server's own"),
    "a name that is none": ({"name": "-rf"}, 400, "invalid_request", "A target's name"),
}  # fmt: skip


@pytest.mark.parametrize("which", REFUSED)
def test_what_cannot_be_attached_leaves_nothing(server: Server, machine: Machine, which: str) -> None:
    changes, status, code, word = REFUSED[which]
    answer = attach(server, **changes)
    assert (answer.status, answer.code) == (status, code), answer.raw
    assert word in answer.json["error"]["message"]
    assert PASSWORD not in answer.raw.decode()
    assert names(server) == [] and kept(server) is None and acts(server) == []


def test_to_another_machine_than_the_one_that_was_meant_nothing_is_sent(server: Server, machine: Machine) -> None:
    attach(server, pin=make_host_key())
    assert machine.heard == []


def test_a_machine_where_nothing_can_run_is_refused_with_the_lines_that_help(server: Server, machine: Machine) -> None:
    machine.trouble = "The disk of ~/.windlass/ssh is full: 3 MB are free."
    machine.inventory["problems"] = [{"message": "Only 3 MB are free.", "fix": "df -h"}]
    answer = attach(server)
    assert (answer.status, answer.code) == (502, "target_rejected")
    assert answer.json["error"]["hint"] == "df -h"
    assert answer.json["error"]["details"] == {"problems": machine.inventory["problems"]}
    assert names(server) == []


# names that are taken


def test_the_same_request_again_gets_the_same_answer_and_another_does_not(server: Server, machine: Machine) -> None:
    first = attached(server)
    assert attached(server) == {**first, "notes": []}
    for changes in ({"credentials": {"password": "other"}}, {"config": {"docker": True}}):
        answer = attach(server, **changes)
        assert (answer.status, answer.code) == (409, "already_exists")
        assert "--update" in answer.json["error"]["hint"]
    token = server.make_token("owner", principal="somebody else")
    assert server.call("POST", TARGETS, body(), token=token).status == 409
    assert kept(server) == PASSWORD and len(acts(server)) == 2


def test_of_many_at_once_one_is_attached(server: Server, machine: Machine) -> None:
    answers: list[int] = []

    def one(number: int) -> None:
        token = server.make_token("owner", principal=f"user{number}")
        answers.append(server.call("POST", TARGETS, body(), token=token).status)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 409, 409, 409, 409, 409]
    winner = server.call("GET", f"{TARGETS}/box").json["attached_by"]
    assert acts(server) == [f"{winner} secret.set target/box/password", f"{winner} target.attach box"]


def test_attached_anew_it_has_the_new_credentials_only(server: Server, machine: Machine) -> None:
    attached(server, slots=2)
    machine.authorized.add(" ".join(PUBLIC.split()[:2]))
    machine.password = "changed"
    key: dict[str, Any] = {"config": {"login": "key"}, "credentials": {"private_key": PRIVATE}, "exist_ok": True}
    target = attached(server, **key)
    assert (target["config"]["login"], target["slots"]) == ("key", 2)
    assert kept(server) is None
    assert keys.public_of(kept(server, "private-key") or "") == keys.public_of(PRIVATE)
    assert acts(server)[-1] == "owner target.replace box"


def test_attached_anew_it_must_be_the_same_machine_unless_another_key_is_named(
    server: Server, machine: Machine
) -> None:
    attached(server)
    machine.host_key, machine.heard = make_host_key(), []
    answer = attach(server, exist_ok=True)
    assert (answer.status, answer.code) == (409, "conflict")
    assert "windlass compute trust box" in answer.json["error"]["hint"] and machine.heard == []
    assert attach(server, exist_ok=True, config={"port": 22}).status == 409, "the usual port is no other machine"
    unseen = attach(server, exist_ok=True, pin=machine.host_key)
    assert unseen.status == 409 and machine.heard == [], "named by a program, and compared by nobody"
    assert "windlass compute trust box" in unseen.json["error"]["hint"]
    assert attached(server, exist_ok=True, pin=machine.host_key, pin_confirmed=True)["pin"] == machine.host_key
    again = attached(server, exist_ok=True, pin=machine.host_key)
    assert again["pin_confirmed"] is True, "it was compared before"


def test_it_is_not_replaced_by_one_of_another_kind(server: Server, machine: Machine) -> None:
    server.store.targets.ensure("default", "other", "dummy", {"folder": "x"}, None, True)
    answer = attach(server, "other", exist_ok=True)
    assert (answer.status, answer.code) == (409, "conflict")


def test_under_runs_only_the_way_there_may_change(server: Server, machine: Machine) -> None:
    attached(server)
    server.submit(spec={"script": "train.py", "target": "box"})
    moved = server.reconciler.machines.add("10.0.0.8", host_key=machine.host_key)
    assert attached(server, exist_ok=True, config={"address": moved.address})["config"]["address"] == "10.0.0.8"
    answer = attach(server, exist_ok=True, config={"address": moved.address, "root": "/data/windlass"})
    assert (answer.status, answer.code) == (409, "conflict")
    assert answer.json["error"]["details"] == {"runs": 1}


# the workspace's key


def test_the_workspaces_key_is_made_once(server: Server) -> None:
    first = server.call("GET", CREDENTIAL)
    assert first.status == 200
    kind, key, comment = first.json["public"].split()
    assert (kind, comment) == ("ssh-ed25519", "windlass-default")
    assert server.call("GET", CREDENTIAL).json == first.json
    assert server.call("GET", CREDENTIAL.replace("ssh", "local")).status == 422
    assert server.store.secrets.get("default", "workspace/ssh-key").version == 1


def test_many_who_ask_first_get_one_key(server: Server) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(server.call("GET", CREDENTIAL).json["public"])) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1


def workspace_key(server: Server) -> str:
    return " ".join(server.call("GET", CREDENTIAL).json["public"].split()[:2])


def test_with_a_password_the_workspaces_key_is_installed_and_the_password_is_not_kept(
    server: Server, machine: Machine
) -> None:
    target = attached(server, config={"login": "workspace-key"})
    assert machine.authorized == {workspace_key(server)}
    assert target["inventory"]["cores"] == 8
    assert kept(server) is None and kept(server, "private-key") is None
    assert machine.heard == ["password", "workspace-key"]


def test_without_one_it_is_attached_all_the_same_and_says_what_to_do(server: Server, machine: Machine) -> None:
    target = attached(server, config={"login": "workspace-key"}, credentials={})
    [problem] = target["inventory"]["problems"]
    assert "jane@10.0.0.7" in problem["message"] and workspace_key(server) in problem["fix"]
    machine.authorized.add(workspace_key(server))
    again = attached(server, config={"login": "workspace-key"}, credentials={}, exist_ok=True)
    assert again["inventory"] == machine.inventory


def test_a_password_that_cannot_install_the_key_attaches_nothing(server: Server, machine: Machine) -> None:
    answer = attach(server, config={"login": "workspace-key"}, credentials={"password": "x"})
    assert (answer.status, answer.code) == (502, "login_refused")
    assert names(server) == []


def test_who_shares_a_server_does_not_use_the_keys_of_its_account(server: Server, machine: Machine) -> None:
    answer = attach(server, config={"login": "agent"}, credentials={})
    if server.store.is_shared:
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert "are not for its users" in answer.json["error"]["message"]
    else:
        assert answer.status == 201


# trust


def test_a_machine_that_was_set_up_anew_is_trusted_after_a_look(server: Server, machine: Machine) -> None:
    old = attached(server)["pin"]
    machine.host_key = make_host_key()
    server.store.targets.update("default", "box", quarantine="its host key changed")
    seen = server.call("POST", f"{TARGETS}/box/probe")
    assert seen.json["identity"]["pin"] == machine.host_key != old
    assert server.call("POST", f"{TARGETS}/box/trust", {"pin": old}).status == 409
    assert server.call("POST", f"{TARGETS}/box/trust", {"pin": "no key"}).status == 400
    assert server.store.targets.get("default", "box").quarantine
    trusted = server.call("POST", f"{TARGETS}/box/trust", {"pin": machine.host_key})
    assert trusted.status == 200
    assert trusted.json["quarantine"] is None
    assert (trusted.json["pin"], trusted.json["pin_confirmed"]) == (machine.host_key, True)
    assert acts(server)[-1] == "owner target.trust box"
    assert server.reconciler.forgotten[-1] == "box"


def test_there_is_nothing_to_trust_on_this_computer(server: Server) -> None:
    for path, asked in (("trust", {"pin": make_host_key()}), ("probe", None)):
        assert server.call("POST", f"{TARGETS}/local/{path}", asked).status == 422


# changes


def test_settings_change_in_place(server: Server, machine: Machine) -> None:
    before = attached(server)["config"]
    problems = [{"message": "no engine", "fix": "start it"}]
    inventory = {"cores": 4, "docker": {"missing": "no engine"}, "problems": problems}
    server.store.targets.update("default", "box", inventory=inventory)
    changes = {
        "python": "/opt/python/bin/python3",
        "docker": True,
        "base_image": "python:3.11",
        "allow_privileged": True,
    }
    changed = server.call("PATCH", f"{TARGETS}/box", {"slots": 3, "config": changes})
    assert changed.status == 200
    assert changed.json["config"] == {**before, **changes} and changed.json["slots"] == 3
    assert changed.json["inventory"] == {"cores": 4}  # the rest may be otherwise now
    assert server.reconciler.forgotten[-1] == "box" and server.reconciler.admitted == ["box"]
    assert acts(server)[-1] == "owner target.change box"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"address": "10.0.0.8"}, "--update"),
        ({"login": "agent"}, "--update"),
        ({"colour": "red"}, "colour"),
        ({"python": "python3; id"}, "A program's path"),
        ({"docker": "perhaps"}, "config.docker"),
    ],
)
def test_what_it_was_attached_by_stays(server: Server, machine: Machine, changes: dict[str, Any], word: str) -> None:
    before = attached(server)
    del before["notes"]
    answer = server.call("PATCH", f"{TARGETS}/box", {"config": changes})
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert word in answer.json["error"]["message"] + answer.json["error"]["hint"]
    assert server.call("GET", f"{TARGETS}/box").json == before


def test_settings_of_the_servers_own_targets_change_too(server: Server) -> None:
    changed = server.call("PATCH", f"{TARGETS}/local", {"config": {"python": "/usr/bin/python3"}})
    assert changed.status == 200
    assert changed.json["config"]["python"] == "/usr/bin/python3"
    assert ("root" in changed.json["config"]) == server.store.is_shared


# detach


def test_detached_it_is_gone_with_what_opened_it(server: Server, machine: Machine) -> None:
    attached(server)
    gone = server.call("DELETE", f"{TARGETS}/box")
    assert (gone.status, gone.json) == (200, {"name": "box", "left": []})
    assert names(server) == [] and kept(server) is None
    assert acts(server)[-2:] == ["owner secret.delete target/box/password", "owner target.detach box"]
    assert server.call("DELETE", f"{TARGETS}/box").status == 404
    assert server.reconciler.forgotten[-1] == "box"


def test_the_servers_own_targets_stay(server: Server) -> None:
    answer = server.call("DELETE", f"{TARGETS}/local?force=true")
    assert (answer.status, answer.code) == (409, "conflict")
    assert server.call("GET", f"{TARGETS}/local").status == 200


def test_with_runs_it_stays_unless_it_is_forced(server: Server, machine: Machine) -> None:
    attached(server)
    run = server.submit(spec={"script": "train.py", "target": "box"})["id"]
    answer = server.call("DELETE", f"{TARGETS}/box")
    assert (answer.status, answer.code) == (409, "conflict")
    assert answer.json["error"]["details"] == {"runs": 1} and kept(server) == PASSWORD
    gone = server.call("DELETE", f"{TARGETS}/box?force=true")
    assert gone.json == {"name": "box", "left": [run]}
    assert server.store.runs.get("default", run).state is RunState.FAILED
    events = server.call("GET", f"{HOME}/runs/{run}/events").json["events"]
    assert any("jane@10.0.0.7:~/.windlass/ssh" in event["message"] for event in events)


def test_what_a_run_has_logged_outlives_the_target_that_is_detached_by_force(server: Server, machine: Machine) -> None:
    attached(server)
    run = server.submit(spec={"script": "train.py", "target": "box"})["id"]
    server.store.logs.append(run, 1, "user_logs/std_log.txt", 0, b"epoch 1\n")
    server.store.logs.append(run, 1, "logs/own.txt", 0, b"its own\n")
    digest, size = server.store.blobs.put([b"uploaded before"])
    server.store.artifacts.add(run, Artifact("logs/own.txt", digest, size, datetime.now(UTC)))
    assert server.call("DELETE", f"{TARGETS}/box?force=true").json["left"] == [run]
    shown = server.call("GET", f"{HOME}/runs/{run}/files/user_logs/std_log.txt")
    assert (shown.status, shown.raw) == (200, b"epoch 1\n")
    assert server.call("GET", f"{HOME}/runs/{run}/files/logs/own.txt").raw == b"uploaded before"
