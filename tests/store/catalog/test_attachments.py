"""Attachments: a target, its credentials and the audit entry are written in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from tests.store.makers import finish, replayed, running, submit, with_slots
from windlass.core.entities import Target
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.core.states import Reason, RunState
from windlass.store import Store
from windlass.store.access.secrets import Sealed, SealedCredential

CONFIG = {"address": "10.0.0.7", "port": 22, "username": "jane", "login": "password"}


def box(name: str = "box", by: str = "owner", needs: tuple[str, ...] = (), **changes: Any) -> Target:
    return Target(name, "ssh", {**CONFIG, **changes}, datetime.now(UTC), True, 4, by, depends_on=needs)


def password(name: str = "box", version: int = 1, content: bytes = b"sealed") -> SealedCredential:
    return SealedCredential(f"target/{name}/password", version, Sealed(content, "key-1"))


def secret_names(store: Store) -> list[str]:
    there = [
        f"target/{target}/{what}" for target in ("box", "gate", "box2", "Box") for what in ("password", "private-key")
    ]
    return [name for name in there if store.secrets.find("default", name)]


def acts(store: Store) -> list[tuple[str, str]]:
    return [(entry.act, entry.object) for entry in reversed(store.audit.list("default"))]


def test_a_target_is_added_with_its_credentials_and_an_audit_entry(store: Store) -> None:
    there = store.attachments.add("default", box(), [password()])
    assert there == store.targets.get("default", "box")
    assert (there.config, there.slots, there.attached_by) == (CONFIG, 4, "owner")
    kept = store.secrets.get("default", "target/box/password")
    assert (kept.sealed, kept.granted_to, kept.created_by) == (b"sealed", "nobody", "owner")
    assert acts(store) == [("secret.set", "target/box/password"), ("target.attach", "box")]
    assert store.audit.verify().is_whole


def test_of_two_with_one_name_one_is_attached_and_the_other_leaves_nothing(store: Store) -> None:
    store.attachments.add("default", box(), [password()])
    with pytest.raises(AlreadyExists, match="There is a target box already") as refusal:
        store.attachments.add("default", box(by="other", address="10.0.0.8"), [password(version=2, content=b"other")])
    assert "--update" in refusal.value.hint
    assert store.targets.get("default", "box").attached_by == "owner"
    assert store.secrets.get("default", "target/box/password").sealed == b"sealed"
    assert len(acts(store)) == 2


def test_many_who_attach_at_once_leave_one_whole_target(store: Store) -> None:
    outcomes: list[str] = []

    def attach(number: int) -> None:
        try:
            store.attachments.add("default", box(by=f"user{number}"), [password(content=f"of {number}".encode())])
            outcomes.append(f"user{number}")
        except AlreadyExists:
            pass

    threads = [threading.Thread(target=attach, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = outcomes
    assert store.targets.get("default", "box").attached_by == winner
    assert store.secrets.get("default", "target/box/password").sealed == f"of {winner.removeprefix('user')}".encode()


def test_attached_anew_it_has_only_the_new_credentials(store: Store) -> None:
    known = store.attachments.add("default", box(), [password()])
    key = SealedCredential("target/box/private-key", 1, Sealed(b"key", "key-1"))
    new = replace(known, config={**CONFIG, "login": "key"}, quarantine=None)
    there = store.attachments.replace("default", known, new, [key], moves=False)
    assert there.config["login"] == "key"
    assert secret_names(store) == ["target/box/private-key"]
    assert acts(store)[2:] == [
        ("secret.delete", "target/box/password"),
        ("secret.set", "target/box/private-key"),
        ("target.replace", "box"),
    ]


def test_one_that_was_changed_meanwhile_is_not_replaced(store: Store) -> None:
    known = store.attachments.add("default", box(), [])
    store.targets.update("default", "box", config={**CONFIG, "port": 2222})
    with pytest.raises(Conflict, match="changed in this moment"):
        store.attachments.replace("default", known, known, [], moves=False)
    with pytest.raises(Conflict, match="changed in this moment"):
        store.attachments.change("default", known, {"slots": 1}, "owner", "target.change")
    known = store.targets.update("default", "box", pin="another")
    store.targets.update("default", "box", pin="a third")
    with pytest.raises(Conflict, match="changed in this moment"):
        store.attachments.change("default", known, {"quarantine": "another"}, "server", "target.quarantine")


def test_credentials_are_renewed_under_runs_but_the_machine_is_not_moved_away_from_them(store: Store) -> None:
    known = store.attachments.add("default", box(), [password()])
    submit(store, "r1", target="box")
    store.attachments.replace("default", known, known, [password(version=2)], moves=False)
    moved = replace(known, config={**CONFIG, "address": "10.0.0.8"})
    with pytest.raises(
        Conflict, match=r"^1 run goes on there or waits for it: box cannot be .*\n.*cancel it, or wait\.$"
    ):
        store.attachments.replace("default", known, moved, [password(version=3)], moves=True)
    assert store.secrets.get("default", "target/box/password").version == 2


def test_a_change_is_in_the_audit_log(store: Store) -> None:
    known = store.attachments.add("default", box(), [])
    there = store.attachments.change("default", known, {"slots": 2, "inventory": {"cores": 8}}, "jane", "target.change")
    assert (there.slots, there.inventory) == (2, {"cores": 8})
    [entry, _] = store.audit.list("default")
    assert (entry.principal, entry.act, entry.object, entry.details) == ("jane", "target.change", "box", {"slots": 2})


def test_detached_it_is_gone_with_its_credentials_and_no_others(store: Store) -> None:
    store.attachments.add("default", box(), [password()])
    store.attachments.add("default", box("gate"), [password("gate")])
    store.attachments.add("default", box("box2"), [password("box2")])
    assert store.attachments.remove("default", "box", "owner", force=False, where="10.0.0.7") == []
    with pytest.raises(NotFound):
        store.targets.get("default", "box")
    assert secret_names(store) == ["target/gate/password", "target/box2/password"]
    assert acts(store)[-2:] == [("secret.delete", "target/box/password"), ("target.detach", "box")]
    with pytest.raises(NotFound):
        store.attachments.remove("default", "box", "owner", force=False, where="")


def test_names_that_differ_in_their_letters_case_have_their_own_credentials(store: Store) -> None:
    store.attachments.add("default", box(), [password()])
    store.attachments.add("default", box("Box"), [password("Box")])
    assert secret_names(store) == ["target/box/password", "target/Box/password"]
    store.attachments.remove("default", "box", "owner", force=False, where="")
    assert secret_names(store) == ["target/Box/password"]


def test_a_target_with_runs_stays(store: Store) -> None:
    store.attachments.add("default", box(), [password()])
    submit(store, "r1", target="box", slots=1)
    submit(store, "r2", target="box", slots=1)
    with pytest.raises(Conflict, match="2 runs go on there or wait for it") as refusal:
        store.attachments.remove("default", "box", "owner", force=False, where="")
    assert refusal.value.details == {"runs": 2}
    assert secret_names(store) == ["target/box/password"]


def test_a_machine_through_which_others_are_reached_stays(store: Store) -> None:
    store.attachments.add("default", box("gate"), [])
    store.attachments.add("default", box(needs=("gate",)), [])
    store.attachments.add("default", box("box2", needs=("gate",)), [])
    with pytest.raises(Conflict, match="box, box2 depend on gate: it cannot be detached") as refusal:
        store.attachments.remove("default", "gate", "owner", force=False, where="")
    assert refusal.value.details == {"targets": ["box", "box2"]}
    store.attachments.remove("default", "box2", "owner", force=False, where="")
    with pytest.raises(Conflict, match="box depends on gate"):
        store.attachments.remove("default", "gate", "owner", force=False, where="")
    store.attachments.remove("default", "gate", "owner", force=True, where="")
    assert store.targets.get("default", "box").depends_on == ("gate",)


def test_a_target_is_not_attached_behind_one_that_was_detached_meanwhile(store: Store) -> None:
    known = store.attachments.add("default", box("box2"), [])
    with pytest.raises(NotFound, match="There is no target gate"):
        store.attachments.add("default", box(needs=("gate",)), [password()])
    with pytest.raises(NotFound):
        store.targets.get("default", "box")
    with pytest.raises(NotFound, match="There is no target gate"):
        store.attachments.replace("default", known, box("box2", needs=("gate",)), [], moves=False)
    assert secret_names(store) == []


def test_a_target_behind_one_that_is_being_detached_is_attached_before_or_refused(store: Store) -> None:
    for turn in range(10):
        gate, name = f"gate{turn}", f"box{turn}"
        store.attachments.add("default", box(gate), [])
        outcomes: list[str] = []

        def act(what: str, do: Callable[[], object], outcomes: list[str] = outcomes) -> None:
            try:
                do()
                outcomes.append(what)
            except (Conflict, NotFound):
                pass

        attach = partial(store.attachments.add, "default", box(name, needs=(gate,)), [])
        detach = partial(store.attachments.remove, "default", gate, "owner", False, "")
        threads = [threading.Thread(target=act, args=each) for each in (("attached", attach), ("detached", detach))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 1


def test_by_force_its_runs_end_and_their_events_say_what_was_left(store: Store) -> None:
    store.attachments.add("default", box(), [])
    submit(store, "r1", target="box", slots=1)
    running(store, "r1")
    submit(store, "r2", target="box", slots=1)
    left = store.attachments.remove("default", "box", "owner", force=True, where="jane@10.0.0.7")
    assert [run.id for run in left] == ["r1", "r2"]
    first, second = store.runs.get("default", "r1"), store.runs.get("default", "r2")
    assert (first.state, first.reason) == (RunState.FAILED, Reason.GAVE_UP)
    assert (second.state, second.reason) == (RunState.FAILED, Reason.REJECTED)
    [entry] = [event for event in store.runs.events("r1") if event.kind == "left"]
    assert "jane@10.0.0.7" in entry.message and entry.data == {"where": "jane@10.0.0.7", "job": "r1.1"}
    assert replayed(store, "r1")[0] is replayed(store, "r2")[0] is RunState.FAILED
    [detached, *_] = store.audit.list("default")
    assert detached.details == {"kind": "ssh", "left": ["r1", "r2"]}


def test_a_detached_target_takes_no_runs(store: Store) -> None:
    store.attachments.add("default", box(), [])
    store.attachments.remove("default", "box", "owner", force=False, where="")
    with pytest.raises(NotFound, match="There is no target box"):
        submit(store, "late", target="box", slots=1)
    with pytest.raises(NotFound):
        store.runs.get("default", "late")


def test_a_submit_to_a_target_that_is_being_detached_comes_before_or_is_refused(store: Store) -> None:
    store.attachments.add("default", box(), [])
    taken: list[str] = []

    def go_on(number: int) -> None:
        try:
            for turn in range(100):
                taken.append(submit(store, f"r{number}.{turn}", target="box", slots=1)[0].id)
        except NotFound:
            pass

    threads = [threading.Thread(target=go_on, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while len(taken) < 8:
        threads[0].join(0.001)
    left = store.attachments.remove("default", "box", "owner", force=True, where="")
    for thread in threads:
        thread.join()
    assert {run.id for run in left} == set(taken) and store.targets.counts("default") == {}


def test_no_attempt_is_cleaned_up_on_a_removed_target(store: Store) -> None:
    store.attachments.add("default", box(), [])
    submit(store, "r1", target="box")
    store.runs.save_handle("r1", 1, {"kind": "ssh", "native_id": "r1.1"}, fence=1)
    finish(store, "r1")
    assert store.runs.uncleaned(datetime(2100, 1, 1, tzinfo=UTC), 10)
    store.attachments.remove("default", "box", "owner", force=False, where="")
    assert store.runs.uncleaned(datetime(2100, 1, 1, tzinfo=UTC), 10) == []


# targets that are created and deleted


def created(store: Store, **changes: Any) -> Target:
    new = replace(box(), kind="farm", is_attached=False, slots=None, provisioning_state="Creating", **changes)
    return store.attachments.add("default", new, [password()])


def test_a_target_in_creation_is_listed_until_it_is_there(store: Store) -> None:
    known = created(store)
    assert store.targets.under_way() == [("default", known)]
    assert store.attachments.provision("default", known, "Creating", "2 of 4 nodes", "server")
    known = store.targets.get("default", "box")
    assert known.provisioning_message == "2 of 4 nodes"
    assert store.attachments.provision("default", known, "Succeeded", "", "server")
    assert store.targets.under_way() == []
    assert acts(store)[1:] == [("target.create", "box"), ("target.provision", "box")]


def test_what_was_found_of_a_target_that_was_changed_meanwhile_is_not_stored(store: Store) -> None:
    known = created(store)
    store.attachments.begin_deletion("default", "box", "owner", force=False)
    assert not store.attachments.provision("default", known, "Succeeded", "", "server")
    assert store.targets.get("default", "box").provisioning_state == "Deleting"


def test_runs_wait_for_a_target_in_creation_and_start_when_it_is_there(store: Store) -> None:
    known = created(store)
    run, _, leased = submit(store, "r1", target="box", slots=None)
    assert (run.state, run.message, leased) == (RunState.QUEUED, "box is being created", None)
    store.attachments.provision("default", known, "Succeeded", "", "server")
    [admitted] = store.runs.admit("default", "box", "owner", with_slots(None), 30)
    assert admitted.run.id == "r1"


@pytest.mark.parametrize(("state", "word"), [("Failed", "its provisioning failed. No quota."), ("Deleting", "deleted")])
def test_runs_are_refused_by_a_target_that_is_not_and_will_not_be_there(store: Store, state: str, word: str) -> None:
    created(store)
    store.targets.update("default", "box", provisioning_state=state, provisioning_message="No quota.")
    with pytest.raises(Conflict, match=word):
        submit(store, "r1", target="box", slots=None)


def test_a_target_is_deleted_without_runs_or_by_force(store: Store) -> None:
    known = created(store)
    store.attachments.provision("default", known, "Succeeded", "", "server")
    submit(store, "r1", target="box", slots=1)
    submit(store, "r2", target="box", slots=1)
    with pytest.raises(Conflict, match="box cannot be deleted"):
        store.attachments.begin_deletion("default", "box", "owner", force=False)
    ended = store.attachments.begin_deletion("default", "box", "owner", force=True)
    assert [(run.id, run.state, run.reason) for run in ended] == [
        ("r1", RunState.FAILED, Reason.GAVE_UP),
        ("r2", RunState.FAILED, Reason.REJECTED),
    ]
    assert "was deleted while it was going on" in ended[0].message
    assert secret_names(store) == ["target/box/password"], "the driver needs it to delete the target"
    store.attachments.finish_deletion("default", "box", "server")
    assert secret_names(store) == [] and store.targets.under_way() == []
    assert acts(store)[-3:] == [
        ("target.delete", "box"),
        ("secret.delete", "target/box/password"),
        ("target.deleted", "box"),
    ]
