"""One chaos run, from the plan to the verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.arena import Arena
from tests.chaos.journal import Journal
from tests.chaos.plan import make_plan
from tests.chaos.trial import Trial
from tests.chaos.verdict import Verdict
from tests.hosts.network import Network

RUNS_A_MINUTE = 25.0
STRIKES_A_MINUTE = 24.0


@dataclass(frozen=True)
class Outcome:
    text: str  # what came of it, in a few lines
    violations: tuple[str, ...]
    journal: str

    def check(self) -> None:
        if self.violations:
            whole = "\n\n".join(self.violations)
            raise AssertionError(f"{self.journal}\n\n{self.text}\n\n{len(self.violations)} violations:\n\n{whole}")


def unleash(
    folder: Path,
    seed: int,
    minutes: float,
    runs: int | None = None,
    strikes: int | None = None,
    servers: int = 1,
    database: str | None = None,
    network: Network | None = None,
) -> Outcome:
    """Everything happens in that folder, and in the network's host if there is one; nothing is left alive."""
    machines = 1 if network is None else 2
    runs = runs or round(RUNS_A_MINUTE * minutes)
    strikes = strikes or round(STRIKES_A_MINUTE * minutes)
    plan = make_plan(seed, 60 * minutes, runs, strikes, servers, machines)
    journal = Journal(folder / "journal.txt")
    journal.write(f"seed {seed}, {minutes:g} minutes, {runs} runs, {servers} servers, {machines} machines")
    arena = Arena(folder, journal, servers, database, network)
    trial = Trial(plan, arena, journal)
    verdict = Verdict(trial, arena, journal)
    try:
        trial.run()
        verdict.judge()
    finally:
        arena.end()
        journal.close()
    hits = Counter(f"{hit.victim.value} {'stopped' if hit.is_stop else 'killed'}" for hit in journal.hits)
    text = f"seed {seed}: {len(plan.runs)} runs ({_counts(verdict.outcomes)}); strikes that hit: {_counts(hits)}"
    return Outcome(text, tuple(verdict.violations), journal.path.read_text(encoding="utf-8"))


def _counts(counter: Counter[str]) -> str:
    return "; ".join(f"{what} {count}" for what, count in counter.most_common())
