"""Row of the results: what was measured, the baseline, ours, and whether the budget is met."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    AT_MOST = "≤"
    AT_LEAST = "≥"
    OVER_BARE = "≤ bare +"
    TIMES_BARE = "≤ bare ×"


@dataclass(frozen=True, slots=True)
class Budget:
    rule: Rule
    number: float

    def holds(self, bare: float | None, ours: float) -> bool:
        match self.rule:
            case Rule.AT_MOST:
                return ours <= self.number
            case Rule.AT_LEAST:
                return ours >= self.number
            case Rule.OVER_BARE:
                return bare is not None and ours <= bare + self.number
            case Rule.TIMES_BARE:
                return bare is not None and ours <= bare * self.number

    def text(self, unit: str) -> str:
        if self.rule is Rule.TIMES_BARE:
            return f"{self.rule} {self.number:g}"
        return f"{self.rule} {self.number:,g} {unit}".rstrip()


def at_most(number: float) -> Budget:
    return Budget(Rule.AT_MOST, number)


def at_least(number: float) -> Budget:
    return Budget(Rule.AT_LEAST, number)


def over_bare(number: float) -> Budget:
    return Budget(Rule.OVER_BARE, number)


def times_bare(number: float) -> Budget:
    return Budget(Rule.TIMES_BARE, number)


@dataclass(frozen=True, slots=True)
class Row:
    """`unit` is of both numbers: ms, µs, s, MB, /s, or nothing for a count. Without a budget it is information."""

    what: str
    ours: float
    unit: str = "ms"
    bare: float | None = None
    bare_thing: str = ""
    budget: Budget | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        return None if self.budget is None else self.budget.holds(self.bare, self.ours)

    @property
    def comparison(self) -> str:
        """Distance from the baseline: a difference if the budget is one, otherwise a ratio."""
        if not self.bare:
            return ""
        if self.budget is not None and self.budget.rule is Rule.OVER_BARE:
            return f"{self.ours - self.bare:+.1f} {self.unit}"
        return f"{self.ours / self.bare:.2f} ×"

    def cells(self) -> tuple[str, ...]:
        """Row, bare, ours, difference or ratio, budget, holds."""
        bare = "" if self.bare is None else number(self.bare, self.unit)
        budget = "" if self.budget is None else self.budget.text(self.unit)
        holds = {None: "", True: "yes", False: "NO"}[self.holds]
        return self.what, bare, number(self.ours, self.unit), self.comparison, budget, holds


HEADINGS = ("what", "bare", "ours", "ours to bare", "budget", "holds")


def number(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()
