"""Judges a chaos run: what became of each run against its ledger, and what is left alive.

The numbers in brackets are those of the invariants: (I1) an acknowledged run is there, (I2) one key is one run, (I3,
I4) a script is started at most once, (I5) its exit status is the true one, (I7) an end does not change, (I8) the log is
the printed one to the byte, (I9) nothing is alive afterwards, (I14) each metric is there once, (I17) the events have no
gap and lead to the state, (I18) the database is whole.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos import actor, processes
from tests.chaos.arena import Arena, Refused
from tests.chaos.journal import Journal
from tests.chaos.plan import STRIKES_SUPERVISOR, Victim
from tests.chaos.trial import CLEAN_SECONDS, FINAL, Submission, Trial

UNKNOWN = ("exit_unknown", "supervisor_lost")
_GONE_SECONDS = 90.0
Json = dict[str, Any]


@dataclass
class Ledger:
    """What a script wrote about itself."""

    lines: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        return cls(path.read_text().splitlines() if path.exists() else [])

    def in_short(self) -> list[str]:
        """Of what it says about its output, only the last word."""
        printed = [line for line in self.lines if line.startswith("printed ")]
        return [line for line in self.lines if line not in printed[:-1]]

    @property
    def starts(self) -> list[list[str]]:
        return [line.split() for line in self.lines if line.startswith("start ")]

    @property
    def printed(self) -> int:
        return max((int(line.split()[1]) for line in self.lines if line.startswith("printed ")), default=0)

    @property
    def exit(self) -> tuple[int, str] | None:
        """The exit code, and the digest of what was printed, if the script came so far."""
        found = [line.split() for line in self.lines if line.startswith("exit ")]
        return (int(found[-1][1]), found[-1][3]) if found else None


class Verdict:
    def __init__(self, trial: Trial, arena: Arena, journal: Journal) -> None:
        self.violations: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self._trial = trial
        self._arena = arena
        self._journal = journal

    def judge(self) -> None:
        self.violations += self._trial.troubles
        left = self._wait_for_death(self._of_runs)
        self._check_clean()
        for submission in self._trial.submissions:
            alive = [text for key, text in left.values() if key == submission.plan.key]
            problems = [*self._judge(submission), *self._judge_survivors(submission, alive)]
            if problems:
                self.violations.append(self._explain(submission, problems))
        keys = {submission.plan.key for submission in self._trial.submissions}
        self.violations += [f"(I9) a process lives: {text}" for key, text in left.values() if key not in keys]
        self._close(set(left))

    # ---- one run ----

    def _judge(self, submission: Submission) -> Iterator[str]:
        run, plan = submission.final, submission.plan
        if submission.trouble:
            yield f"(I1) the client failed: {submission.trouble.strip()}"
        if not submission.id:
            yield "(I1) it was never acknowledged"
            return
        ledger = Ledger.read(self._arena.ledger / plan.key)
        yield from _check_starts(submission, ledger)
        if run is None:
            last = submission.last or {}
            word = f"{last.get('state')} ({last.get('reason')}: {last.get('message')})"
            yield f"(I5) it has not ended: it is {word}, and its ledger says {_last(ledger)}"
            return
        self.outcomes[f"{run['state']}, {run['reason']}"] += 1
        yield from self._check_end(submission, run, ledger)
        late = [line for line in ledger.lines if float(line.rpartition(" ")[2]) > submission.final_clock]
        if late:
            yield f"(I9) its script ran after its end: {late[0]!r}"
        yield from self._check_log(submission, run, ledger)
        yield from self._check_same(submission, run)
        yield from self._check_events(run)
        if run["reason"] == "exited":
            yield from self._check_record(submission, run)

    def _judge_survivors(self, submission: Submission, alive: list[str]) -> Iterator[str]:
        """Without control groups a daemon that hides everything is known by its parent only: not if both the
        supervisor and the host are killed.
        """
        has_groups = self._arena.machines[submission.plan.machine].has_groups
        others = self._journal.around(submission.acknowledged_at, submission.final_at)
        if alive and not has_groups and others and self._has_lost_supervisor(submission):
            self.outcomes["left alive, as there are no control groups"] += 1
            return
        for text in alive:
            yield f"(I9) a process of it lives: {text}"

    def _has_lost_supervisor(self, submission: Submission) -> bool:
        hits = self._journal.of_run(submission.id)
        return submission.plan.act in STRIKES_SUPERVISOR or any(hit.victim is Victim.SUPERVISOR for hit in hits)

    def _check_end(self, submission: Submission, run: Json, ledger: Ledger) -> Iterator[str]:
        """The true end, or one that says that it is not known, and that for a reason."""
        lost_supervisor = self._has_lost_supervisor(submission)
        was_killed = any(hit.victim is Victim.SCRIPT for hit in self._journal.of_run(run["id"]))
        said = ledger.exit
        code, reason = run["exit_code"], run["reason"]
        if code is not None and (said is None or said[0] != code):
            yield f"(I5) its exit code is {code}, and its ledger says {_last(ledger)}"
        if run["state"] == "Completed" and (reason, code) != ("exited", 0):
            yield f"(I5) it is Completed without exit code 0: {reason}, {code}"
        if reason == "exited":
            if code is None:
                yield "(I5) it exited without a code"
            elif run["state"] != ("Completed" if code == 0 else "Failed"):
                yield f"(I5) with exit code {code} it is {run['state']}"
        elif reason == "stopped":
            if run["state"] != "Canceled" or not submission.is_cancel_sent:
                yield f"(I5) it is {run['state']}, stopped, and {'' if submission.is_cancel_sent else 'never '}canceled"
        elif reason == "signaled":
            # A supervisor may be killed between the SIGTERM of a cancel and its note of that.
            sent = {9} if was_killed or lost_supervisor else set()
            sent |= {15} if submission.is_cancel_sent and lost_supervisor else set()
            if run["signal"] not in sent:
                yield f"(I5) signal {run['signal']} ended it, which no strike sent"
            if said is not None and not was_killed:
                yield f"(I5) signal {run['signal']} ended it, and its ledger says {_last(ledger)}"
        elif reason in UNKNOWN:
            if not lost_supervisor:
                yield f"(I5) its end is not known ({run['message']}), although no strike hit its supervisor"
        else:
            yield f"(I5) it ended with {reason}: {run['message']}"

    def _check_log(self, submission: Submission, run: Json, ledger: Ledger) -> Iterator[str]:
        found = self._arena.file(run["id"], "user_logs/std_log.txt") or b""
        expected = actor.output(submission.plan.key, submission.plan.lines)
        if ledger.exit is not None and ledger.exit[1] != hashlib.sha256(expected).hexdigest():
            yield "the ledger has another digest than the test"
        if run["reason"] == "exited" and len(found) < len(expected):
            yield f"(I8) its log has {len(found)} of {len(expected)} bytes"
        if len(found) < ledger.printed:
            yield f"(I8) its log has {len(found)} bytes, and it had printed {ledger.printed}"
        if not expected.startswith(found):
            at = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected))
            yield f"(I8) its log is another from byte {at}: {found[at : at + 200]!r}"
        if submission.plan.is_followed and not submission.has_followed:
            yield f"(I8) the stream of its log did not end; {len(submission.followed)} of {len(found)} bytes came"
        if submission.has_followed and submission.followed != found:
            yield f"(I8) {len(submission.followed)} bytes were followed, and its log has {len(found)}"

    def _check_record(self, submission: Submission, run: Json) -> Iterator[str]:
        plan = submission.plan
        points = min(plan.lines, 100)
        if self._arena.file(run["id"], "outputs/result.bin") != actor.output(plan.key, points):
            yield "(I8) its output is not what it wrote"
        metrics = self._arena.get(f"/runs/{run['id']}/metrics")["metrics"]
        values = [point["v"] for point in metrics.get("value", {}).get("values", ())]
        if values != list(range(points)):
            yield f"(I14) its metric has the values {values}, not 0 to {points - 1}"

    def _check_same(self, submission: Submission, run: Json) -> Iterator[str]:
        again = self._arena.submit(submission.plan)
        if again["id"] != submission.id:
            yield f"(I2) its key gave another run: {again['id']}"
        try:
            later = self._arena.get(f"/runs/{run['id']}")
        except Refused as e:
            yield f"(I1) it is not there any more: {e}"
            return
        changed = {k: (run.get(k), v) for k, v in later.items() if _is_kept(k) and run.get(k) != v}
        if changed:
            yield f"(I7) it changed after its end (before, after): {changed}"

    def _check_events(self, run: Json) -> Iterator[str]:
        events = self._arena.get(f"/runs/{run['id']}/events")["events"]
        if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
            yield f"(I17) its events have gaps: {[event['seq'] for event in events]}"
        states = [event["state"] for event in events if event["state"]]
        if not states or states[-1] != run["state"] or sum(state in FINAL for state in states) != 1:
            yield f"(I17) its events lead through {states}, and it is {run['state']}"

    # ---- all of it ----

    def _of_runs(self) -> list[processes.Process]:
        """What scripts started, as long as servers and hosts may live."""
        token = self._arena.token.encode()
        marks = [f"WINDLASS_RUN_FOLDER={machine.inner_root}/".encode() for machine in self._arena.machines]
        return [
            process
            for process in self._arena.survivors()
            if token in processes.words_of(process.pid)
            or any(v.startswith(mark) for v in processes.variables_of(process.pid) for mark in marks)
        ]

    def _wait_for_death(self, alive: Callable[[], list[processes.Process]]) -> dict[processes.Process, tuple[str, str]]:
        """What does not end: each with the key of its run, if that is known, and what it is."""
        deadline = time.monotonic() + _GONE_SECONDS
        while (left := alive()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return {process: (self._arena.key_of(process), processes.describe(process)) for process in left}

    def _check_clean(self) -> None:
        """The folders of runs that have ended go, so that no machine fills up."""
        if any(submission.final is None for submission in self._trial.submissions):
            return
        deadline = time.monotonic() + CLEAN_SECONDS
        while (left := self._folders()) and time.monotonic() < deadline:
            time.sleep(0.5)
        for job in left:
            self.violations.append(f"the folder of {job} was not cleaned up in {CLEAN_SECONDS:.0f} s")

    def _folders(self) -> list[str]:
        return [job for m in self._arena.machines for job in m.jobs() if not m.is_only_held(job)]

    def _close(self, known: set[processes.Process]) -> None:
        self._arena.close_servers()
        left = self._wait_for_death(lambda: [one for one in self._arena.survivors() if one not in known])
        for key, text in left.values():
            self.violations.append(f"(I9) after the servers were closed, a process of {key or 'no run'} lives: {text}")
        database = self._arena.homes[0] / "windlass.sqlite"
        if database.exists():
            with sqlite3.connect(database) as connection:
                for check in ("integrity_check", "foreign_key_check"):
                    found = connection.execute(f"PRAGMA {check}").fetchall()
                    if found not in ([], [("ok",)]):
                        self.violations.append(f"(I18) {check}: {found}")
            connection.close()

    # ---- messages ----

    def _explain(self, submission: Submission, problems: list[str]) -> str:
        """Which run, what is wrong, what hit it, what it says itself, and how its life went."""
        lines = [f"{submission.id or '(no id)'} is {submission.plan}", *(f"  ! {problem}" for problem in problems)]
        hits = self._journal.of_run(submission.id)
        lines += [f"  hit {hit.at:9.3f} {hit.text}" for hit in hits] or ["  no strike hit its supervisor or script"]
        ended = submission.final_at or self._journal.now()
        for hit in self._journal.around(submission.acknowledged_at, ended):
            lines.append(f"  meanwhile {hit.at:9.3f} {hit.text}")
        lines += [f"  ledger: {line}" for line in Ledger.read(self._arena.ledger / submission.plan.key).in_short()]
        lines += [f"  acknowledged {submission.acknowledged_at:.3f}, end seen {submission.final_at:.3f}"]
        lines += [f"  event: {event}" for event in self._events(submission)]
        return "\n".join(lines)

    def _events(self, submission: Submission) -> list[str]:
        try:
            events = self._arena.get(f"/runs/{submission.id}/events")["events"]
        except AssertionError as e:
            return [str(e)]
        return [f"{event.get('at')} {event['kind']} {event['state'] or ''} {event['message']}" for event in events]


def _check_starts(submission: Submission, ledger: Ledger) -> Iterator[str]:
    if len(ledger.starts) > 1:
        yield f"(I3) it was started {len(ledger.starts)} times: {ledger.starts}"
    for start in ledger.starts:
        if start[1] != submission.id:
            yield f"(I2) its script was started as run {start[1]}"


def _last(ledger: Ledger) -> str:
    return repr(ledger.lines[-1]) if ledger.lines else "nothing: it was never started"


def _is_kept(name: str) -> bool:
    """Whether a field of a run stays as it is after its end; addresses are those of the server that answers."""
    return name not in ("version", "url") and not name.endswith("_url")
