"""Leases: one owner at a time, each with a higher fence, and only its changes are accepted."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.sampling import examples
from tests.store.makers import (
    LEASE,
    OWNER,
    ended,
    finish,
    interactive,
    make_workspace,
    new_run,
    replayed,
    running,
    submit,
)
from windlass.core.errors import Conflict
from windlass.core.states import FINAL, Intent, Reason, RunState, Step
from windlass.store import Store

EXPIRED = -1.0


def test_a_valid_lease_is_not_given_to_another_owner(store: Store) -> None:
    submit(store, "r1")
    assert store.runs.lease("server-2", LEASE, 10) == []


def test_a_lease_that_ran_out_is_taken_with_a_higher_fence(store: Store) -> None:
    submit(store, "r1", lease=EXPIRED)
    store.runs.save_handle("r1", 1, {"native_id": "7"}, fence=1)
    (leased,) = store.runs.lease("server-2", LEASE, 10)
    assert (leased.run.id, leased.fence, leased.handle) == ("r1", 2, {"native_id": "7"})
    assert (leased.spec, leased.nonce) == (new_run("r1").spec, "nonce of r1")
    assert store.runs.renew(OWNER, LEASE) == set()
    assert store.runs.renew("server-2", LEASE) == {"r1"}


def test_a_lease_that_ran_out_but_was_not_taken_is_renewed(store: Store) -> None:
    submit(store, "r1", lease=EXPIRED)
    assert store.runs.renew(OWNER, LEASE) == {"r1"}
    assert store.runs.lease("server-2", LEASE, 10) == []
    running(store, "r1", fence=1)


def test_only_what_is_held_is_renewed(store: Store) -> None:
    for name in ("held", "unheard"):
        submit(store, name, lease=EXPIRED)
    submit(store, "theirs", owner="server-2")
    assert store.runs.renew(OWNER, LEASE, ["held", "theirs", "gone"]) == {"held"}
    assert store.runs.renew(OWNER, LEASE, []) == set()
    assert [leased.run.id for leased in store.runs.lease("server-3", LEASE, 10)] == ["unheard"]


def test_what_is_released_is_free(store: Store) -> None:
    submit(store, "r1")
    submit(store, "r2", owner="server-2")
    store.runs.release(OWNER)
    assert [leased.run.id for leased in store.runs.lease("server-3", LEASE, 10)] == ["r1"]


def test_only_dispatched_runs_are_leased(store: Store) -> None:
    submit(store, "active", slots=1, lease=EXPIRED)
    submit(store, "waiting", slots=1)
    submit(store, "over", target="other")
    finish(store, "over")
    store.runs.create([interactive("told")])
    assert [leased.run.id for leased in store.runs.lease("server-2", LEASE, 10)] == ["active"]


def test_no_more_than_asked_are_leased(store: Store) -> None:
    for number in range(5):
        submit(store, f"r{number}", lease=EXPIRED)
    assert [leased.run.id for leased in store.runs.lease("a", LEASE, 2)] == ["r0", "r1"]
    assert [leased.run.id for leased in store.runs.lease("b", LEASE, 10)] == ["r2", "r3", "r4"]


def test_runs_on_targets_that_cannot_be_reached_are_left(store: Store) -> None:
    make_workspace(store, "team")
    submit(store, "mine", lease=EXPIRED)
    submit(store, "far", target="other", lease=EXPIRED)
    submit(store, "theirs", workspace="team", lease=EXPIRED)
    leased = store.runs.lease("server-2", LEASE, 10, elsewhere=[("default", "other"), ("team", "local")])
    assert [each.run.id for each in leased] == ["mine"]
    assert {each.run.id for each in store.runs.lease("server-3", LEASE, 10)} == {"far", "theirs"}


def test_an_owner_finds_the_runs_that_are_to_be_stopped(store: Store) -> None:
    submit(store, "r1")
    submit(store, "r2", owner="server-2")
    submit(store, "r3")
    assert store.runs.stop_requests(OWNER) == {}
    for id in ("r1", "r2"):
        store.runs.request_cancel("default", id)
    store.runs.request_eviction("default", "r3", "the node leaves")
    assert store.runs.stop_requests(OWNER) == {
        "r1": (Intent.CANCEL, None),
        "r3": (Intent.RUN, "the node leaves"),
    }
    assert store.runs.stop_requests("server-2") == {"r2": (Intent.CANCEL, None)}
    finish(store, "r1")
    assert list(store.runs.stop_requests(OWNER)) == ["r3"]


def test_a_server_alone_takes_over_everything(sqlite_store: Store) -> None:
    submit(sqlite_store, "r1")
    submit(sqlite_store, "r2", lease=EXPIRED)
    taken = sqlite_store.runs.take_over("server-2", LEASE)
    assert [(leased.run.id, leased.fence) for leased in taken] == [("r1", 2), ("r2", 2)]
    with pytest.raises(Conflict):
        finish(sqlite_store, "r1", fence=1)


def test_a_server_among_others_takes_over_what_is_free(postgres_store: Store) -> None:
    submit(postgres_store, "r1")
    submit(postgres_store, "r2", lease=EXPIRED)
    assert [leased.run.id for leased in postgres_store.runs.take_over("server-2", LEASE)] == ["r2"]
    assert postgres_store.runs.renew(OWNER, LEASE) == {"r1"}


def test_many_who_lease_at_once_share_the_runs(store: Store) -> None:
    for number in range(30):
        submit(store, f"r{number}", lease=EXPIRED)
    with ThreadPoolExecutor(6) as pool:
        shares = list(pool.map(lambda owner: store.runs.lease(f"s{owner}", LEASE, 10), range(6)))
    taken = [leased.run.id for share in shares for leased in share]
    rest = [leased.run.id for leased in store.runs.lease("late", LEASE, 100)]
    assert sorted(taken + rest) == sorted(f"r{number}" for number in range(30))


@dataclass
class Held:
    """What the model knows of a run."""

    fence: int
    owner: str | None
    is_expired: bool
    state: RunState


class LeaseMachine(RuleBasedStateMachine):
    """Three servers that may pause at any moment, for any time, and then act upon what they believe."""

    counter = itertools.count()
    OWNERS = ("a", "b", "c")

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.name = next(self.counter)
        self.runs: dict[str, Held] = {}
        self.believed: dict[str, dict[str, int]] = {owner: {} for owner in self.OWNERS}

    owners = st.sampled_from(OWNERS)

    @rule(owner=owners, is_expired=st.booleans())
    def submit(self, owner: str, is_expired: bool) -> None:
        id = f"m{self.name}-{len(self.runs)}"
        submit(self.store, id, owner=self._named(owner), lease=EXPIRED if is_expired else LEASE)
        self.runs[id] = Held(1, owner, is_expired, RunState.STARTING)
        self.believed[owner][id] = 1

    @rule(owner=owners, is_expired=st.booleans(), limit=st.integers(1, 3))
    def lease(self, owner: str, is_expired: bool, limit: int) -> None:
        free = [id for id, held in self.runs.items() if self._is_active(id) and (held.owner is None or held.is_expired)]
        leased = self.store.runs.lease(self._named(owner), EXPIRED if is_expired else LEASE, limit)
        assert [each.run.id for each in leased] == free[:limit]
        for each in leased:
            held = self.runs[each.run.id]
            assert each.fence == held.fence + 1
            self.runs[each.run.id] = Held(each.fence, owner, is_expired, held.state)
            self.believed[owner][each.run.id] = each.fence

    @rule(owner=owners, is_expired=st.booleans())
    def renew(self, owner: str, is_expired: bool) -> None:
        """With `is_expired` this is a pause beyond the lease."""
        mine = {id for id, held in self.runs.items() if self._is_active(id) and held.owner == owner}
        assert self.store.runs.renew(self._named(owner), EXPIRED if is_expired else LEASE) == mine
        for id in mine:
            self.runs[id].is_expired = is_expired

    @rule(owner=owners)
    def release(self, owner: str) -> None:
        self.store.runs.release(self._named(owner))
        for held in self.runs.values():
            if held.owner == owner:
                held.owner = None

    @rule(owner=owners, data=st.data(), step=st.sampled_from(["handle", "run", "end"]))
    def act(self, owner: str, data: Any, step: str) -> None:
        """A server acts with the fence it once got: that must be accepted only if no other server got a higher one."""
        if not self.believed[owner]:
            return
        id = data.draw(st.sampled_from(sorted(self.believed[owner])))
        fence, held = self.believed[owner][id], self.runs[id]
        is_right = fence == held.fence and self._is_active(id)
        if step == "run":
            is_right = is_right and held.state is RunState.STARTING
        try:
            self._act(id, step, fence, held)
        except Conflict:
            assert not is_right
        else:
            assert is_right

    def _act(self, id: str, step: str, fence: int, held: Held) -> None:
        if step == "handle":
            self.store.runs.save_handle(id, 1, {"fence": fence}, fence)
        elif step == "run":
            step_to = Step(RunState.RUNNING, Reason.STARTED, "")
            held.state = self.store.runs.advance(id, expect=RunState.STARTING, step=step_to, fence=fence).state
        else:
            expect = held.state if held.state not in FINAL else RunState.RUNNING
            held.state = self.store.runs.advance(id, expect=expect, step=ended(), fence=fence).state
            held.owner = None

    @invariant()
    def states_are_what_the_events_say(self) -> None:
        for id, held in list(self.runs.items())[-2:]:
            assert self.store.runs.get("default", id).state is held.state is replayed(self.store, id)[0]

    def teardown(self) -> None:
        for id, held in self.runs.items():
            if self._is_active(id):
                self.store.runs.advance(id, expect=held.state, step=ended(), fence=None)

    def _is_active(self, id: str) -> bool:
        return self.runs[id].state not in FINAL

    def _named(self, owner: str) -> str:
        return f"{owner}{self.name}"


def test_fences_hold_whatever_servers_do(store: Store) -> None:
    run_state_machine_as_test(
        lambda: LeaseMachine(store),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples(40 if store.is_shared else 240),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
