"""The crash matrix as a page: `python -m tests.faults.document` writes docs/dev/crash-matrix.md anew."""

from __future__ import annotations

from pathlib import Path

from tests.faults.cells import GRIDS, POINTS, VICTIMS, Cell, Grid

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "crash-matrix.md"
INTRODUCTION = """# The crash matrix

At each point of a run's life (rows) somebody is killed (columns). Then the server comes back, the client repeats its
call, and everything is compared with a ledger that the script kept of itself (`tests/faults/truth.py`):

- the acknowledged run is there, and the same idempotency key gives the same run;
- the script was started at most once per attempt, and its exit status is the one that it had: success needs proof;
- log, metrics and outputs are whole, to the byte and to the point;
- a wish to cancel is fulfilled; nothing of the run is alive after its end, nothing is left on the machine;
- the story has no gaps, the state is its replay, and a final state never changes.

`make test-faults` runs every cell, those of this machine on SQLite and on PostgreSQL; `make test` some of those with a
star.
Points inside the programs are held by failpoints (`windlass.failpoints`): a test arms one, waits until it is reached,
strikes, lets go. K9 on PostgreSQL has a rival server that takes over meanwhile; SQLite allows one server only. K7 on
SQLite cuts off the disk below the database, so that what was not flushed is lost.

`make test-chaos` does not choose the points: for 20 minutes a database it kills and stops servers, hosts and
supervisors at random moments, while hundreds of runs go on, and checks the same of every run. See
[development](../development.md#chaos).

Those who are struck:
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
