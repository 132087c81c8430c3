"""Submit: once per key, numbered, into a slot or into the queue."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.store.makers import (
    LEASE,
    OWNER,
    finish,
    interactive,
    make_workspace,
    new_run,
    replayed,
    running,
    submit,
    with_slots,
)
from windlass.core.entities import RunSpec, Target
from windlass.core.errors import AlreadyExists, Conflict, InvalidRequest, NotFound, SnapshotIncomplete
from windlass.core.states import Intent, Reason, RunState
from windlass.store import Capacity, NewRun, Store
from windlass.store.runs.records import Submitted


def test_a_run_is_stored_as_submitted(store: Store) -> None:
    spec = RunSpec(
        script="train.py", arguments=("a b", "$(id)", "é"), target="local", definition={"Script": "x", "n": [1, None]}
    )
    new = NewRun(
        "r1", "default", "demo", "azureml.scriptrun", "key", "hash", "ann", spec, None, "my run",
        {"a": "b", "bare": None}, {"p": "q"}, None, "nonce",
    )  # fmt: skip
    run, is_new, leased = store.runs.submit(new, OWNER, with_slots(None), LEASE)
    assert is_new and leased is not None
    assert store.runs.get("default", "r1") == run == leased.run
    assert (run.state, run.reason, run.number, run.attempt) == (RunState.STARTING, Reason.ACCEPTED, 1, 1)
    assert (run.name, run.submitted_by, run.type, run.target) == ("my run", "ann", "azureml.scriptrun", "local")
    assert (run.tags, run.properties) == ({"a": "b", "bare": None}, {"p": "q"})
    assert (run.parent, run.root, run.intent) == (None, "r1", Intent.RUN)
    assert store.runs.spec("r1") == spec == leased.spec
    assert (leased.fence, leased.nonce, leased.handle) == (1, "nonce", None)
    assert [attempt.nonce for attempt in store.runs.attempts("r1")] == ["nonce"]
    assert replayed(store, "r1") == (RunState.STARTING, Reason.ACCEPTED, "")


def test_the_same_key_is_the_same_run(store: Store) -> None:
    first, _, _ = submit(store, "r1", key="k", body_hash="h")
    again, is_new, leased = submit(store, "r2", key="k", body_hash="h")
    assert (again, is_new, leased) == (first, False, None)
    assert [experiment.name for experiment in store.experiments.list("default")] == ["demo"]
    assert submit(store, "r3", key="other")[0].number == 2  # the repeated one took no number


def test_the_same_key_with_another_body_is_a_conflict(store: Store) -> None:
    submit(store, "r1", key="k", body_hash="h")
    with pytest.raises(Conflict, match="another request, which made run r1"):
        submit(store, "r2", key="k", body_hash="other")
    with pytest.raises(NotFound):
        store.runs.get("default", "r2")


def test_a_key_belongs_to_its_workspace(store: Store) -> None:
    make_workspace(store, "team")
    submit(store, "r1", key="k")
    assert submit(store, "r2", key="k", workspace="team")[1]


def test_sixteen_at_once_with_one_key_make_one_run(store: Store) -> None:
    start = threading.Barrier(16)

    def attempt(number: int) -> tuple[str, bool]:
        start.wait()
        run, is_new, _ = submit(store, f"r{number}", key="k", body_hash="h")
        return run.id, is_new

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(attempt, range(16)))
    assert len({id for id, _ in answers}) == 1
    assert [is_new for _, is_new in answers].count(True) == 1
    assert store.targets.counts("default") == {"local": (1, 0)}


def test_sixteen_at_once_get_numbers_without_gap_and_keep_to_the_slots(store: Store) -> None:
    start = threading.Barrier(16)

    def attempt(number: int) -> int:
        start.wait()
        return submit(store, f"r{number}", key=f"k{number}", slots=3)[0].number

    with ThreadPoolExecutor(16) as pool:
        numbers = list(pool.map(attempt, range(16)))
    assert sorted(numbers) == list(range(1, 17))
    assert store.targets.counts("default") == {"local": (3, 13)}


def test_submits_that_come_together_are_queued_as_if_one_by_one(store: Store) -> None:
    held, together = [submit(store, "held", slots=1)], ["a", "b", "c", "d"]
    held += _submit_together(store, 1, [new_run(id, priority=int(id == "c"), experiment=f"of-{id}") for id in together])
    made = {run.id: run for run, _, _ in held}
    assert [leased is not None for _, _, leased in held] == [True, False, False, False, False, False]
    has = "1 run is running on local, which has 1 slot"
    assert made["first"].message == f"{has}; 0 are ahead"
    said = [made[id].message for id in together]
    assert said == [f"{has}; 1 is ahead", f"{has}; 2 are ahead", f"{has}; 0 are ahead", f"{has}; 4 are ahead"]
    assert [made[id].number for id in together] == [1, 1, 1, 1]
    for id in together:
        assert store.runs.get("default", id) == made[id]
        assert replayed(store, id) == (RunState.QUEUED, Reason.WAITING_FOR_SLOT, made[id].message)
    order = [leased.run.id for leased in store.runs.admit("default", "local", OWNER, with_slots(9), LEASE)]
    assert order == ["c", "first", "a", "b", "d"]


def test_submits_that_come_together_keep_to_the_slots(store: Store) -> None:
    made = _submit_together(store, 3, [new_run(f"r{number}") for number in range(6)])
    assert [leased is not None for _, _, leased in made] == [True, True, True, False, False, False, False]
    assert [leased.allocation for _, _, leased in made if leased is not None] == [
        store.node_usage.allocation(run.id) for run, _, leased in made if leased is not None
    ]
    assert [run.number for run, _, _ in made] == [1, 2, 3, 4, 5, 6, 7]
    assert made[-1][0].message == "3 runs are running on local, which has 3 slots; 3 are ahead"


def test_children_that_come_together_share_the_slot_of_their_parent_one_by_one(store: Store) -> None:
    submit(store, "parent", slots=2)
    made = _submit_together(store, 2, [new_run("a", parent="parent"), new_run("b", parent="parent"), new_run("c")])
    assert [leased is not None for _, _, leased in made] == [True, True, False, False]


def test_a_submit_that_is_refused_takes_no_others_with_it(store: Store) -> None:
    submit(store, "before", key="k", body_hash="h")
    news = [
        new_run("a"),
        new_run("again", key="k", body_hash="h"),
        new_run("other", key="k", body_hash="other"),
        new_run("orphan", parent="nobody"),
        new_run("b"),
    ]
    first, a, again, other, orphan, b = _answers_together(store, None, news)
    assert [future.result()[0].number for future in (first, a, b)] == [2, 3, 4]
    assert (again.result()[0].id, again.result()[1]) == ("before", False)
    assert isinstance(other.exception(), Conflict) and isinstance(orphan.exception(), NotFound)
    assert store.targets.counts("default") == {"local": (4, 0)}


def test_a_run_id_is_taken_once(store: Store) -> None:
    submit(store, "r1", key="k")
    with pytest.raises(AlreadyExists, match="run r1"):
        submit(store, "r1", key="other")
    with pytest.raises(AlreadyExists):
        store.runs.create([interactive("r1")])


def test_what_a_run_needs_must_be_there(store: Store) -> None:
    with pytest.raises(NotFound, match="parent"):
        submit(store, "r1", parent="nobody")
    with pytest.raises(SnapshotIncomplete):
        submit(store, "r1", snapshot="0" * 64)
    with pytest.raises(InvalidRequest):
        store.runs.submit(interactive("r1"), OWNER, with_slots(None), LEASE)
    assert store.targets.counts("default") == {}


def test_a_parent_of_another_workspace_is_not_found(store: Store) -> None:
    make_workspace(store, "team")
    submit(store, "theirs", workspace="team")
    with pytest.raises(NotFound):
        submit(store, "r1", parent="theirs")


def test_without_a_slot_a_run_waits_and_says_why(store: Store) -> None:
    submit(store, "r1", slots=1)
    second, _, leased = submit(store, "r2", slots=1)
    assert leased is None
    assert (second.state, second.reason) == (RunState.QUEUED, Reason.WAITING_FOR_SLOT)
    assert second.message == "1 run is running on local, which has 1 slot; 0 are ahead"
    third = submit(store, "r3", slots=1)[0]
    assert third.message == "1 run is running on local, which has 1 slot; 1 is ahead"
    assert replayed(store, "r3") == (third.state, third.reason, third.message)


def test_no_run_overtakes_the_queue(store: Store) -> None:
    """A slot may be free for a moment while runs wait; a new one goes behind them."""
    submit(store, "r1", slots=1)
    submit(store, "r2", slots=1)
    assert submit(store, "r3", slots=2)[2] is None
    assert [leased.run.id for leased in store.runs.admit("default", "local", OWNER, with_slots(2), LEASE)] == ["r2"]


def test_targets_do_not_share_slots(store: Store) -> None:
    submit(store, "r1", slots=1)
    assert submit(store, "r2", target="other", slots=1)[2] is not None


def test_higher_priority_goes_first_then_first_come(store: Store) -> None:
    submit(store, "first", slots=1)
    for id, priority in (("low", -1), ("a", 0), ("b", 0), ("high", 5), ("c", 0)):
        submit(store, id, priority=priority, slots=1)
    order = []
    running_now = "first"
    while True:
        _, admitted = finish(store, running_now, slots=1)
        if not admitted:
            break
        assert [leased.run.state for leased in admitted] == [RunState.STARTING]
        running_now = admitted[0].run.id
        order.append(running_now)
    assert order == ["high", "a", "b", "c", "low"]


def test_more_slots_admit_more(store: Store) -> None:
    for number in range(5):
        submit(store, f"r{number}", slots=1)
    admitted = store.runs.admit("default", "local", "server-2", with_slots(3), LEASE)
    assert [(leased.run.id, leased.fence) for leased in admitted] == [("r1", 1), ("r2", 1)]
    assert store.runs.admit("default", "local", "server-2", with_slots(3), LEASE) == []
    assert [leased.run.id for leased in store.runs.admit("default", "local", "server-2", with_slots(None), LEASE)] == [
        "r3",
        "r4",
    ]
    assert replayed(store, "r4") == (RunState.STARTING, Reason.ACCEPTED, "")


def test_fewer_slots_stop_no_runs(store: Store) -> None:
    for number in range(3):
        submit(store, f"r{number}", slots=2)
    assert store.runs.admit("default", "local", OWNER, with_slots(0), LEASE) == []
    _, admitted = finish(store, "r0", slots=1)
    assert admitted == []


def test_a_parent_lends_its_slot_to_its_children(store: Store) -> None:
    submit(store, "parent", slots=1)
    child, _, leased = submit(store, "child", parent="parent", slots=1)
    assert leased is not None and (child.parent, child.root) == ("parent", "parent")
    assert submit(store, "second", parent="parent", slots=1)[2] is None
    _, admitted = finish(store, "child", slots=1)
    assert [leased.run.id for leased in admitted] == ["second"]
    assert submit(store, "stranger", slots=1)[2] is None
    _, admitted = finish(store, "second", slots=1)
    assert admitted == []  # the parent has its slot back
    _, admitted = finish(store, "parent", slots=1)
    assert [leased.run.id for leased in admitted] == ["stranger"]


def test_a_grandchild_runs_in_one_slot(store: Store) -> None:
    submit(store, "a", slots=1)
    submit(store, "b", parent="a", slots=1)
    run, _, leased = submit(store, "c", parent="b", slots=1)
    assert leased is not None and run.root == "a"


def test_a_child_elsewhere_lends_nothing(store: Store) -> None:
    submit(store, "parent", slots=1)
    submit(store, "child", parent="parent", target="other", slots=1)
    store.runs.create([interactive("told", parent="parent")])
    assert submit(store, "stranger", slots=1)[2] is None


def test_the_slot_goes_on_in_the_transaction_that_ends_a_run(store: Store) -> None:
    submit(store, "r1", slots=1)
    submit(store, "r2", slots=1)
    running(store, "r1")
    run, admitted = finish(store, "r1", expect=RunState.RUNNING, slots=1)
    assert run.state is RunState.COMPLETED
    assert [(leased.run.id, leased.fence, leased.nonce) for leased in admitted] == [("r2", 1, "nonce of r2")]
    assert store.targets.counts("default") == {"local": (1, 0)}


def test_runs_of_two_experiments_and_priorities_queue_for_one_slot(store: Store) -> None:
    earlier, _, _ = submit(store, "r0", key="k", target="other")
    news = [new_run("r1"), new_run("r2", experiment="other"), new_run("r3", priority=1), new_run("r4")]
    runs = [store.runs.submit(new, OWNER, with_slots(1), LEASE)[0] for new in news]
    assert [run.state for run in runs] == [RunState.STARTING, *[RunState.QUEUED] * 3]
    assert [run.number for run in runs] == [2, 1, 3, 4]
    assert [run.message.rpartition("; ")[2] for run in runs[1:]] == ["0 are ahead", "0 are ahead", "2 are ahead"]
    for run, new in zip(runs, news, strict=True):
        assert store.runs.get("default", new.id) == run
        assert store.runs.spec(new.id) == new.spec
        assert replayed(store, new.id) == (run.state, run.reason, run.message)
        assert [attempt.nonce for attempt in store.runs.attempts(new.id)] == [new.nonce]
    assert earlier.number == 1


def test_a_run_that_cannot_be_inserted_says_why(store: Store) -> None:
    earlier, _, _ = submit(store, "r0", key="k", body_hash="h")
    assert store.runs.submit(new_run("r1", key="k", body_hash="h"), OWNER, with_slots(None), LEASE) == (
        earlier,
        False,
        None,
    )
    refused = [
        (new_run("r2", key="k", body_hash="other"), Conflict, "was used for another request"),
        (new_run("r3", parent="nobody"), NotFound, "no run nobody"),
        (new_run("r6", workspace="nowhere"), NotFound, "There is no"),
        (new_run("r7", snapshot="0" * 64), SnapshotIncomplete, "is not here"),
        (new_run("r8", target="gone"), NotFound, "There is no target gone."),
    ]
    for new, error, text in refused:
        with pytest.raises(error, match=text):
            store.runs.submit(new, OWNER, with_slots(None), LEASE)


def test_a_long_queue_is_not_counted_through(store: Store) -> None:
    for number in range(120):
        store.runs.submit(new_run(f"r{number}"), OWNER, with_slots(1), LEASE)
    run, _, leased = submit(store, "last", slots=1)
    assert leased is None and run.message.endswith("; 100 or more are ahead")


def test_a_slot_that_was_left_is_free_before_its_run_has_ended(store: Store) -> None:
    submit(store, "r1", slots=1)
    submit(store, "r2", slots=1)
    assert store.runs.admit("default", "local", OWNER, with_slots(1), LEASE) == []
    first = store.runs.get("default", "r1")
    [leased] = store.runs.free_allocation(first, 1, OWNER, with_slots(1), LEASE)
    assert leased.run.id == "r2"
    submit(store, "r3", slots=1)
    assert store.runs.free_allocation(first, 1, OWNER, with_slots(1), LEASE) == []


def test_the_next_runs_are_known_before_there_is_a_slot(store: Store) -> None:
    for number in range(1, 5):
        submit(store, f"r{number}", slots=1, priority=number // 4)
    assert [leased.run.id for leased in store.runs.waiting("default", "local", 2)] == ["r4", "r2"]
    [leased] = store.runs.waiting("default", "local", 2, {"r4"})
    assert (leased.run.id, leased.fence, leased.nonce) == ("r2", 0, "nonce of r2")
    assert store.runs.get("default", "r2").state is RunState.QUEUED
    assert store.runs.waiting("default", "elsewhere", 2) == []


def test_interactive_runs_run_at_once(store: Store) -> None:
    first, second = store.runs.create([interactive("a", tags={"x": "1"}), interactive("b", parent="a")])
    assert (first.state, first.target, first.started_at) == (RunState.RUNNING, "", first.created_at)
    assert (first.number, second.number, second.root) == (1, 2, "a")
    assert store.runs.get("default", "b") == second
    assert replayed(store, "a")[0] is RunState.RUNNING
    with pytest.raises(NotFound):
        store.runs.spec("a")
    assert store.runs.lease(OWNER, LEASE, 10) == []


def test_interactive_runs_come_once_and_together(store: Store) -> None:
    news = [interactive(f"r{n}", key=f"k/{n}") for n in range(3)]
    made = store.runs.create(news)
    assert store.runs.create([interactive(f"other{n}", key=f"k/{n}") for n in range(3)]) == made
    with pytest.raises(NotFound):
        store.runs.create([interactive("x"), interactive("y", parent="nobody")])
    with pytest.raises(NotFound):
        store.runs.get("default", "x")


def test_texts_that_databases_cannot_keep_are_replaced(store: Store) -> None:
    new = new_run("r1", name="nul\0 and \ud800", tags={"k\0": "v\0"}, properties={"p": "\udfff"})
    run, _, _ = store.runs.submit(new, OWNER, with_slots(None), LEASE)
    assert run.name == "nul\ufffd and ?"
    assert run.tags == {"k\ufffd": "v\ufffd"}
    assert store.runs.get("default", "r1") == run
    with pytest.raises(NotFound):
        store.runs.get("default", "r\0")


def _submit_together(store: Store, slots: int | None, news: list[NewRun]) -> list[Submitted]:
    return [future.result() for future in _answers_together(store, slots, news)]


def _answers_together(store: Store, slots: int | None, news: list[NewRun]) -> list[Future[Submitted]]:
    """Submit the run `first`, and these while it is inserted."""
    is_inserting, go_on = threading.Event(), threading.Event()

    def capacity_of(workspace: str, target: Target) -> Capacity:
        is_inserting.set()
        assert go_on.wait(60)
        return Capacity(slots)

    with ThreadPoolExecutor(len(news) + 1) as pool:
        futures = [pool.submit(store.runs.submit, new_run("first"), OWNER, capacity_of, LEASE)]
        assert is_inserting.wait(60)
        for count, new in enumerate(news, 1):
            futures.append(pool.submit(store.runs.submit, new, OWNER, capacity_of, LEASE))
            while store.runs._submits["default", "local"].count_waiting() < count:
                time.sleep(0.001)
        go_on.set()
    return futures
