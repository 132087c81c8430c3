"""The crash matrix: which point is held, who is struck there, and what may come of it.

Points F01 to F23 and victims K1 to K11 are those of docs/dev/crash-matrix.md. A cell that cannot exist has its reason
in `IMPOSSIBLE`, so that the two together are the whole grid.
"""

from __future__ import annotations

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
}
VICTIMS = {
    "K1": "server SIGKILL",
    "K2": "HTTP client gone",
    "K3": "supervisor SIGKILL",
    "K4": "the script's main process SIGKILL",
    "K7": "database killed",
    "K9": "server stopped for twice its lease, then continued",
    "K11": "host SIGKILL",
}
SUBMIT = ("F01", "F02", "F03", "F04", "F05")
CANCEL = ("F21", "F22", "F23")
SCRIPT_ALIVE = ("F12", "F13", "F14")


@dataclass(frozen=True)
class Cell:
    point: str
    victim: str

    def __str__(self) -> str:
        return f"{self.point}-{self.victim}"


def why_impossible(point: str, victim: str) -> str | None:
    """The reason why nobody can be struck there, or None."""
    number = int(point[1:])
    if victim == "K2" and point not in (*SUBMIT, "F12", "F18", "F21"):
        return "no client is in the middle of a call there"
    if victim in ("K3", "K4") and number <= 10 and (point, victim) != ("F08", "K3"):
        return "there is no supervisor, or no script yet"
    if victim in ("K3", "K4") and 18 <= number <= 20:
        return "supervisor and script have ended"
    if victim == "K4" and point in ("F15", "F16", "F17", "F23"):
        return "the script is dead already"
    if victim == "K4" and point == "F11":
        return "the script waits for its supervisor, which waits here: its pid is not known to anybody"
    if victim == "K11" and number <= 6:
        return "the machine has not been contacted, or its host does nothing for this run"
    if victim == "K9" and point in ("F08", "F10", "F11", "F15", "F16", "F17", "F22", "F23"):
        return "the server takes no part there; F09, F12 and F21 stop it while the same things go on"
    return None


CELLS = [Cell(p, v) for p in POINTS for v in VICTIMS if why_impossible(p, v) is None]
IMPOSSIBLE = {Cell(p, v): reason for p in POINTS for v in VICTIMS if (reason := why_impossible(p, v))}

# What `make test` runs: one cell of every kind.
SAMPLE = [
    Cell("F01", "K1"), Cell("F02", "K2"), Cell("F04", "K1"), Cell("F05", "K1"), Cell("F05", "K2"), Cell("F06", "K1"),
    Cell("F08", "K11"), Cell("F09", "K1"), Cell("F10", "K11"), Cell("F11", "K3"), Cell("F12", "K1"), Cell("F12", "K3"),
    Cell("F12", "K4"), Cell("F13", "K1"), Cell("F14", "K11"), Cell("F15", "K3"), Cell("F17", "K1"), Cell("F18", "K1"),
    Cell("F20", "K1"), Cell("F22", "K1"),
]  # fmt: skip
