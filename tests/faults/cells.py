"""The crash matrix: which point is held, who is struck there, and what may come of it.

Points F01 to F29 and victims K1 to K11 are those of docs/dev/crash-matrix.md. Each kind of machine has its grid. A cell
that cannot exist has its reason in `impossible`, so that the two together are the whole grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

POINTS = {
    "F01": "request received",
    "F02": "snapshot half uploaded",
    "F03": "blob stored, no row",
    "F04": "submit transaction before commit",
    "F05": "committed, before the answer",
    "F06": "lease written, machine not contacted",
    "F07": "pipe opened",
    "F08": "staging half done",
    "F09": "start sent, reply lost",
    "F10": "claim made, not forked",
    "F11": "exec'd, pid not recorded",
    "F12": "running",
    "F13": "mid log line, mid UTF-8 character",
    "F14": "metric half written",
    "F15": "script exited, no status",
    "F16": "status written aside",
    "F17": "status renamed, server not told",
    "F18": "logs and outputs half pulled",
    "F19": "terminal transaction before commit",
    "F20": "terminal committed, machine not cleaned",
    "F21": "cancel accepted",
    "F22": "TERM sent, in grace",
    "F23": "KILL sent",
    "F28": "transaction of the next attempt before commit",
    "F29": "eviction accepted",
}
VICTIMS = {
    "K1": "server SIGKILL",
    "K2": "HTTP client gone",
    "K3": "supervisor SIGKILL",
    "K4": "the script's main process SIGKILL",
    "K5": "the connection's processes SIGKILL: ssh here, or sshd there, by turns",
    "K6": "the machine reboots: all its processes die, its boot id is another",
    "K7": "database killed",
    "K8": "the machine's disk is full, and gets room again",
    "K9": "server stopped for twice its lease, then continued",
    "K10": "the machine's clock jumps by an hour, forwards or backwards, by turns",
    "K11": "host SIGKILL",
    "K12": "Docker engine SIGKILL; it comes back and keeps its containers",
    "K13": "Docker engine restarted, which ends its containers",
    "K14": "the container is removed from outside",
}
SUBMIT = ("F01", "F02", "F03", "F04", "F05")
CANCEL = ("F21", "F22", "F23")
EVICT = ("F28", "F29")
SCRIPT_ALIVE = ("F12", "F13", "F14")


@dataclass(frozen=True)
class Cell:
    point: str
    victim: str

    def __str__(self) -> str:
        return f"{self.point}-{self.victim}"


@dataclass(frozen=True)
class Grid:
    """The cells for one kind of machine. `why_impossible` has the reason why a cell cannot exist, or None."""

    title: str
    points: tuple[str, ...]
    victims: tuple[str, ...]
    why_impossible: Callable[[str, str], str | None]
    sample: tuple[Cell, ...]  # what `make test` runs: one cell of every kind

    @property
    def cells(self) -> list[Cell]:
        return [cell for cell in self._all() if self.why_impossible(cell.point, cell.victim) is None]

    @property
    def impossible(self) -> Mapping[Cell, str]:
        return {cell: reason for cell in self._all() if (reason := self.why_impossible(cell.point, cell.victim))}

    def _all(self) -> list[Cell]:
        return [Cell(point, victim) for point in self.points for victim in self.victims]


def _local(point: str, victim: str) -> str | None:
    if victim == "K2" and point not in (*SUBMIT, "F12", "F18", "F21", "F29"):
        return "no client is in the middle of a call there"
    if victim == "K9" and point in ("F08", "F10", "F11", "F15", "F16", "F17", "F22", "F23"):
        return "the server takes no part there; F09, F12 and F21 stop it while the same things go on"
    return _on_any_machine(point, victim)


def _on_any_machine(point: str, victim: str) -> str | None:
    number = int(point[1:])
    if victim in ("K3", "K4") and number <= 10 and (point, victim) != ("F08", "K3"):
        return "there is no supervisor, or no script yet"
    if victim in ("K3", "K4") and (18 <= number <= 20 or point == "F28"):
        return "supervisor and script have ended"
    if victim == "K4" and point in ("F15", "F16", "F17", "F23"):
        return "the script is dead already"
    if victim == "K4" and point == "F11":
        return "the script waits for its supervisor, which waits here: its pid is not known yet"
    if victim == "K11" and number <= 6:
        return "the machine has not been contacted, or its host does nothing for this run"
    return None


def _ssh(point: str, victim: str) -> str | None:
    if victim in ("K5", "K6", "K10") and point == "F06":
        return "the machine has not been contacted, or its host does nothing for this run"
    if victim == "K8" and point in ("F18", "F19", "F20"):
        return "the machine writes nothing there"
    return _on_any_machine(point, victim)


def _docker(point: str, victim: str) -> str | None:
    if victim in ("K12", "K13") and point in ("F06", "F07"):
        return "the machine has not been contacted, or the engine has not been called yet"
    if victim == "K4" and point == "F22":
        return "the script is dead already"
    if victim == "K14" and point not in (*SCRIPT_ALIVE, "F15", "F16", "F21", "F22"):
        return "there is no container, or none any more, or its name is not known"
    return _on_any_machine(point, victim)


LOCAL = Grid(
    "On this machine",
    tuple(POINTS),
    ("K1", "K2", "K3", "K4", "K7", "K9", "K11"),
    _local,
    (
        Cell("F01", "K1"), Cell("F02", "K2"), Cell("F04", "K1"), Cell("F05", "K1"), Cell("F05", "K2"),
        Cell("F06", "K1"), Cell("F08", "K11"), Cell("F09", "K1"), Cell("F10", "K11"), Cell("F11", "K3"),
        Cell("F12", "K1"), Cell("F12", "K3"), Cell("F12", "K4"), Cell("F13", "K1"), Cell("F14", "K11"),
        Cell("F15", "K3"), Cell("F17", "K1"), Cell("F18", "K1"), Cell("F20", "K1"), Cell("F22", "K1"),
        Cell("F28", "K1"), Cell("F29", "K11"),
    ),
)  # fmt: skip

# What happens before a machine is contacted does not depend on where it is; nor does an eviction, which is a stop and
# another start there.
_ON_MACHINE = tuple(point for point in POINTS if point not in (*SUBMIT, *EVICT))
SSH = Grid(
    "On a machine that is reached by SSH",
    _ON_MACHINE,
    ("K1", "K3", "K4", "K5", "K6", "K8", "K10", "K11"),
    _ssh,
    (
        Cell("F07", "K5"), Cell("F08", "K8"), Cell("F09", "K5"), Cell("F10", "K6"), Cell("F12", "K1"),
        Cell("F12", "K5"), Cell("F12", "K6"), Cell("F13", "K10"), Cell("F14", "K8"), Cell("F17", "K6"),
        Cell("F22", "K5"),
    ),
)  # fmt: skip
DOCKER = Grid(
    "In a container",
    _ON_MACHINE,
    ("K1", "K3", "K4", "K11", "K12", "K13", "K14"),
    _docker,
    (
        Cell("F08", "K12"), Cell("F11", "K3"), Cell("F12", "K4"), Cell("F12", "K12"), Cell("F12", "K13"),
        Cell("F15", "K12"), Cell("F22", "K12"),
    ),
)  # fmt: skip
GRIDS = (LOCAL, SSH, DOCKER)
