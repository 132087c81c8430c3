"""Carries out a plan: submits, cancels and watches the runs, strikes, and lets everything settle at the end."""

from __future__ import annotations

import heapq
import http.client
import itertools
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos import processes
from tests.chaos.arena import Arena
from tests.chaos.journal import Journal
from tests.chaos.plan import Plan, PlannedRun, Strike, Victim
from tests.chaos.processes import Process

FINAL = ("Completed", "Failed", "Canceled")
# How long nothing may come of the runs that are left, once everything is up again. Under load all takes longer.
SETTLE_SECONDS = 240.0
CLEAN_SECONDS = 240.0
_LOOK_EVERY = 1.0
Json = dict[str, Any]


@dataclass
class Submission:
    """A run of the plan, and what the client knows of it."""

    plan: PlannedRun
    id: str = ""
    acknowledged_at: float = 0.0
    is_cancel_sent: bool = False
    last: Json | None = None  # as it was seen last
    final: Json | None = None  # as it was when its end was seen first
    final_at: float = 0.0
    final_clock: float = 0.0  # the same, as scripts tell the time
    trouble: str = ""  # why the client gave up
    followed: bytearray = field(default_factory=bytearray)  # of its log, if it is followed
    has_followed: bool = False  # to the end


class Trial:
    def __init__(self, plan: Plan, arena: Arena, journal: Journal) -> None:
        self.plan = plan
        self.arena = arena
        self.journal = journal
        self.submissions = [Submission(run) for run in plan.runs]
        self.troubles: list[str] = []  # of the test itself: a server that does not come up
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._clients: list[threading.Thread] = []
        self._starters: list[threading.Thread] = []
        self._stopped: set[Process] = set()
        self._is_over = threading.Event()

    def run(self) -> None:
        self.arena.start()
        began = self.journal.now()
        for submission in self.submissions:
            self._plan(began + submission.plan.at, partial(self._start, self._client, submission))
        for strike in self.plan.strikes:
            self._plan(began + strike.at, partial(self._strike, strike))
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            self._work_off(began + self.plan.seconds)
            self._recover()
            self._settle()
        finally:
            self._is_over.set()
            watcher.join(60)

    # ---- the agenda ----

    def _plan(self, at: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (at, next(self._order), act))

    def _work_off(self, until: float) -> None:
        while self._agenda:
            at, _, act = heapq.heappop(self._agenda)
            if at > until:
                heapq.heappush(self._agenda, (at, 0, act))
                return
            time.sleep(max(0.0, at - self.journal.now()))
            act()

    # ---- runs ----

    def _start(self, act: Callable[[Submission], None], submission: Submission) -> None:
        client = threading.Thread(target=act, args=(submission,), daemon=True)
        self._clients.append(client)
        client.start()

    def _client(self, submission: Submission) -> None:
        """What a user does: submit, and cancel what is to be canceled."""
        try:
            submission.id = self.arena.submit(submission.plan)["id"]
            submission.acknowledged_at = self.journal.now()
            self.journal.write(f"{submission.id} is {submission.plan}")
            if submission.plan.is_followed:
                self._start(self._follow, submission)
            if submission.plan.cancel_after is not None:
                time.sleep(submission.plan.cancel_after)
                submission.is_cancel_sent = True
                self.journal.write(f"{submission.id} is to be canceled")
                self.arena.cancel(submission.id, submission.plan.server)
        except Exception:
            submission.trouble = traceback.format_exc()

    def _follow(self, submission: Submission) -> None:
        """Read a run's log as the SDK does: when the stream breaks off, go on at the next server where it ended."""
        server = submission.plan.server
        while not submission.has_followed and not self._is_over.is_set():
            server = (server + 1) % len(self.arena.homes)
            try:
                self._follow_for_a_while(submission, self.arena.homes[server])
            except (OSError, http.client.HTTPException, ValueError, AssertionError):
                time.sleep(
                    0.2
                )  # the server is down, or broke off in the middle of a line, or says that later is better

    def _follow_for_a_while(self, submission: Submission, home: Path) -> None:
        followed = submission.followed
        for event, offset, data in self.arena.world.follow(submission.id, len(followed), home):
            if event == "end":
                submission.has_followed = True
                return
            if (event, offset) != ("log", len(followed)):
                submission.trouble = (
                    f"the stream of its log went on with a {event} at {offset} after {len(followed)} bytes"
                )
                submission.has_followed = True
                return
            followed += data

    def _watch(self) -> None:
        """Note the end of each run when it is first seen."""
        while not self._is_over.wait(_LOOK_EVERY):
            for submission in self.submissions:
                if submission.id and submission.final is None and not self._is_over.is_set():
                    self._look_at(submission)

    def _look_at(self, submission: Submission) -> None:
        server = (submission.plan.server + int(self.journal.now())) % len(self.arena.homes)
        try:
            submission.last = run = self.arena.call("GET", f"/runs/{submission.id}", server=server, seconds=3)
        except OSError:
            return
        except AssertionError as e:  # an acknowledged run that the server does not know
            submission.trouble = str(e)
            return
        if run["state"] in FINAL:
            submission.final, submission.final_at, submission.final_clock = run, self.journal.now(), time.time()
            self.journal.write(f"{submission.id} is {run['state']}: {run['reason']} {run['message']}")

    # ---- strikes ----

    def _strike(self, strike: Strike) -> None:
        if strike.victim is Victim.SERVER:
            self._strike_server(strike)
            return
        candidates: list[tuple[Process, str]]
        if strike.victim is Victim.HOST:
            candidates = list(self.arena.hosts())
        elif strike.victim is Victim.CONNECTION:
            candidates = [(process, "box") for process in self.arena.connections()]
        else:
            candidates = self.arena.of_runs("supervisor" if strike.victim is Victim.SUPERVISOR else "process")
        if not candidates:
            self.journal.write(f"{strike}: there is none")
            return
        process, whose = candidates[int(strike.pick * len(candidates))]
        is_of_run = strike.victim in (Victim.SUPERVISOR, Victim.SCRIPT)
        if not processes.send(process, signal.SIGSTOP if strike.is_stop else signal.SIGKILL):
            self.journal.write(f"{strike}: pid {process.pid} of {whose} has just ended")
            return
        run, place = (whose, "") if is_of_run else (None, whose)
        self.journal.hit(f"{strike}: pid {process.pid} of {whose}", strike.victim, strike.is_stop, run, place)
        if strike.is_stop:
            self._continue_later(process, strike)

    def _strike_server(self, strike: Strike) -> None:
        number = int(strike.pick * len(self.arena.homes))
        process = self.arena.server(number)
        if process is None or process in self._stopped:
            self.journal.write(f"{strike}: server {number} is down already")
        elif strike.is_stop:
            processes.send(process, signal.SIGSTOP)
            self.journal.hit(f"{strike}: server {number} (pid {process.pid})", strike.victim, True, None, str(number))
            self._continue_later(process, strike)
        else:
            self.arena.kill_server(number)
            self.journal.hit(f"{strike}: server {number} (pid {process.pid})", strike.victim, False, None, str(number))
            self._plan(self.journal.now() + strike.seconds, lambda: self._start_server(number))

    def _start_server(self, number: int) -> None:
        starter = threading.Thread(target=self._do_start_server, args=(number,), daemon=True)
        self._starters.append(starter)
        starter.start()

    def _do_start_server(self, number: int) -> None:
        try:
            self.arena.start_server(number)
        except Exception:
            self.troubles.append(f"server {number} did not come up again:\n{traceback.format_exc()}")

    def _continue_later(self, process: Process, strike: Strike) -> None:
        self._stopped.add(process)

        def go_on() -> None:
            self._stopped.discard(process)
            is_there = processes.send(process, signal.SIGCONT)
            self.journal.write(f"strike {strike.number}: pid {process.pid} {'goes on' if is_there else 'is gone'}")

        self._plan(self.journal.now() + strike.seconds, go_on)

    # ---- the end ----

    def _recover(self) -> None:
        """Let go of all that was stopped by a strike, and have all servers up."""
        self.journal.write("no more strikes")
        while self._agenda:
            _, _, act = heapq.heappop(self._agenda)
            act()
        for starter in self._starters:
            starter.join(180)

    def _settle(self) -> None:
        """Until every run has ended, or none has for so long that none will."""
        left, since = len(self.submissions), time.monotonic()
        while left and not self.troubles:
            now_left = sum(one.final is None and not one.trouble for one in self.submissions)
            if now_left != left:
                left, since = now_left, time.monotonic()
            if time.monotonic() - since > SETTLE_SECONDS:
                self.journal.write(f"{left} runs do not end")
                return
            time.sleep(0.2)
        for client in self._clients:
            client.join(120)
