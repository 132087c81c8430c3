"""What a chaos run will do: every run and every strike with its time, made from a seed.

The same seed, length and number of machines give the same plan. Which process a strike hits depends on what is alive at
that moment: of the candidates, in the order of their run or server, it takes the one at `pick` (0 to 1).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """What a script does halfway through its output; actor.py carries it out."""

    NOTHING = "nothing"
    MUCH = "much"  # prints a megabyte
    FORK = "fork"  # leaves children behind, one of which ignores SIGTERM
    DAEMON = "daemon"  # double fork, session of its own, empty environment
    STOP_PARENT = "stop-parent"  # SIGSTOP to its supervisor, for ever
    KILL_PARENT = "kill-parent"
    DAEMON_KILL_PARENT = "daemon-kill-parent"
    STOP_PARENT_FROM_DAEMON = "stop-parent-from-daemon"
    LOCK = "lock"  # kills its supervisor, while a child waits for the lock of the claim and then holds it
    STOP_SELF = "stop-self"  # a child stops the script, and continues it a moment later
    SLEEP = "sleep"  # until it is canceled
    STUBBORN = "stubborn"  # the same, and ignores SIGTERM
    FROZEN = "frozen"  # stopped by its child until it is canceled


STRIKES_SUPERVISOR = frozenset(
    {Act.STOP_PARENT, Act.KILL_PARENT, Act.DAEMON_KILL_PARENT, Act.STOP_PARENT_FROM_DAEMON, Act.LOCK}
)
ENDLESS = frozenset({Act.SLEEP, Act.STUBBORN, Act.FROZEN})
_ACTS = {
    Act.NOTHING: 30, Act.MUCH: 6, Act.FORK: 10, Act.DAEMON: 10, Act.STOP_PARENT: 5, Act.KILL_PARENT: 5,
    Act.DAEMON_KILL_PARENT: 5, Act.STOP_PARENT_FROM_DAEMON: 2, Act.LOCK: 3, Act.STOP_SELF: 5, Act.SLEEP: 6,
    Act.STUBBORN: 4, Act.FROZEN: 3,
}  # fmt: skip
_CODES = (0, 0, 0, 0, 1, 2, 3, 7, 42, 126, 127, 137, 143, 255)
_CANCELED_ANYWAY = 0.08  # of the runs that would end by themselves

_FOLLOWED = 0.2


@dataclass(frozen=True)
class PlannedRun:
    key: str
    at: float  # seconds from the beginning
    act: Act
    lines: int
    code: int
    seconds: float  # how long it takes to print its lines
    machine: int  # 0 is this computer; the others are reached by SSH
    server: int  # which one is asked first
    cancel_after: float | None  # seconds after its submission was acknowledged
    is_followed: bool  # its log is read while it grows

    def __str__(self) -> str:
        canceled = "" if self.cancel_after is None else f", canceled after {self.cancel_after:.1f} s"
        where = "local" if self.machine == 0 else "SSH"
        return f"{self.key} ({self.act.value}, {self.lines} lines, exit code {self.code}, {where}{canceled})"


class Victim(StrEnum):
    SERVER = "server"
    HOST = "host"
    SUPERVISOR = "supervisor"
    SCRIPT = "script"
    CONNECTION = "connection"  # ssh here


@dataclass(frozen=True)
class Strike:
    number: int
    at: float
    victim: Victim
    is_stop: bool  # SIGSTOP, and SIGCONT after `seconds`; else SIGKILL, and a server comes back after `seconds`
    pick: float
    seconds: float

    def __str__(self) -> str:
        if self.is_stop:
            return f"strike {self.number}: stop {self.victim.value} for {self.seconds:.1f} s"
        return f"strike {self.number}: kill {self.victim.value}"


# Victim, whether it is stopped, how often, and the range of seconds.
_STRIKES = (
    (Victim.SUPERVISOR, False, 6, (0.0, 0.0)),
    (Victim.SUPERVISOR, True, 4, (0.2, 6.0)),
    (Victim.SUPERVISOR, True, 3, (15.0, 60.0)),
    (Victim.HOST, False, 4, (0.0, 0.0)),
    (Victim.HOST, True, 2, (0.2, 6.0)),
    (Victim.HOST, True, 1, (15.0, 60.0)),
    (Victim.SERVER, False, 3, (0.0, 3.0)),
    (Victim.SERVER, True, 3, (0.2, 8.0)),
    (Victim.SCRIPT, False, 1, (0.0, 0.0)),
    (Victim.CONNECTION, False, 1, (0.0, 0.0)),
)


@dataclass(frozen=True)
class Plan:
    seed: int
    seconds: float
    runs: tuple[PlannedRun, ...]
    strikes: tuple[Strike, ...]


def make_plan(seed: int, seconds: float, runs: int, strikes: int, servers: int, machines: int) -> Plan:
    """`machines` counts this computer. Runs and strikes are spread evenly over the time, by chance."""
    dice = random.Random(seed)
    moments = sorted(dice.uniform(0, seconds) for _ in range(runs))
    blows = sorted(dice.uniform(0, seconds) for _ in range(strikes))
    return Plan(
        seed,
        seconds,
        tuple(_run(dice, number, at, servers, machines) for number, at in enumerate(moments, 1)),
        tuple(_strike(dice, number, at, machines) for number, at in enumerate(blows, 1)),
    )


def _run(dice: random.Random, number: int, at: float, servers: int, machines: int) -> PlannedRun:
    [act] = dice.choices(list(_ACTS), list(_ACTS.values()))
    lines = 20_000 if act is Act.MUCH else dice.randint(1, 60)
    is_canceled = dice.random() < _CANCELED_ANYWAY or act in ENDLESS
    cancel_after = dice.uniform(0.0, 8.0)
    return PlannedRun(
        key=f"run-{number:04d}",
        at=at,
        act=act,
        lines=lines,
        code=dice.choice(_CODES),
        seconds=dice.choice((0.0, 0.0, 0.5, 2.0, 5.0, 8.0)),
        machine=dice.randrange(machines) if dice.random() < 0.6 else 0,
        server=dice.randrange(servers),
        cancel_after=cancel_after if is_canceled else None,
        is_followed=dice.random() < _FOLLOWED,
    )


def _strike(dice: random.Random, number: int, at: float, machines: int) -> Strike:
    weights = [weight if machines > 1 or victim is not Victim.CONNECTION else 0 for victim, _, weight, _ in _STRIKES]
    [(victim, is_stop, _, bounds)] = dice.choices(_STRIKES, weights)
    return Strike(number, at, victim, is_stop, dice.random(), dice.uniform(*bounds))
