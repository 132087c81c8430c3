"""Generator of docs/dev/crash-matrix.md: `python -m tests.faults.document`."""

from __future__ import annotations

from pathlib import Path

from tests.faults.cells import GRIDS, POINTS, VICTIMS, Cell, Grid

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "crash-matrix.md"
INTRODUCTION = """# The crash matrix

At each point of a run's life (rows) a process, a machine or a connection fails (columns). Then the server restarts, the
client repeats its call, and the record of the run is compared with a ledger that the script wrote itself
(`tests/faults/truth.py`):

- the acknowledged run exists, and the same idempotency key gives the same run;
- the script was started at most once per attempt, and its exit status is the one that it had: success needs proof;
- log, metrics and outputs are whole, to the byte and to the point;
- a request to cancel is fulfilled; no process of the run is alive after its end, nothing is left on the machine;
- the events have no gaps, the state is their replay, and a final state never changes.

`make test-faults` runs every cell, those of this machine on SQLite and on PostgreSQL; `make test` runs some of those
with a star. Failpoints (`windlass.failpoints`) pause the programs at a point: a test arms one, waits until it is
reached, injects the failure, and continues. In K9 on PostgreSQL a second server takes over meanwhile; SQLite allows one
server only. K7 on SQLite cuts off the disk below the database, so that unflushed data is lost.

`make test-chaos` does not choose the points: for 20 minutes per database it kills and stops servers, hosts and
supervisors at random moments, while hundreds of runs are in progress, and checks the same for every run. See
[development](../development.md#chaos).

Failures:
"""


def render() -> str:
    lines = [INTRODUCTION, *(f"- {victim}: {who}" for victim, who in VICTIMS.items())]
    for grid in GRIDS:
        lines += _section(grid)
    return "\n".join(lines) + "\n"


def _section(grid: Grid) -> list[str]:
    impossible = grid.impossible
    lines = ["", f"## {grid.title}", "", f"{len(grid.cells)} cells, {len(grid.sample)} of them in the sample.", ""]
    lines += ["| | " + " | ".join(grid.victims) + " |", "|---|" + "---|" * len(grid.victims)]
    for point in grid.points:
        marks = " | ".join(_mark(grid, Cell(point, victim)) for victim in grid.victims)
        lines.append(f"| {point} {POINTS[point]} | {marks} |")
    lines += ["", "Cells that cannot exist:", ""]
    for reason in dict.fromkeys(impossible.values()):
        cells = ", ".join(str(cell) for cell, why in impossible.items() if why == reason)
        lines.append(f"- {reason}: {cells}.")
    return lines


def _mark(grid: Grid, cell: Cell) -> str:
    return "–" if cell in grid.impossible else "★" if cell in grid.sample else "✓"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
