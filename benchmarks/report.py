"""Report: the table for the terminal, benchmarks/RESULTS.md, and --json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.row import HEADINGS, Row

RESULTS = Path(__file__).with_name("RESULTS.md")


def terminal_line(row: Row) -> str:
    widths = (58, 10, 10, 12, 18, 5)
    cells = [cell.ljust(width) for cell, width in zip(row.cells(), widths, strict=True)]
    return "  ".join(cells).rstrip() + (f"\n    {row.note}" if row.note else "")


def terminal_heading() -> str:
    widths = (58, 10, 10, 12, 18, 5)
    return "  ".join(cell.ljust(width) for cell, width in zip(HEADINGS, widths, strict=True)).rstrip()


def markdown(groups: Mapping[str, Sequence[Row]], machine: Mapping[str, str]) -> str:
    lines = [
        "# Benchmarks",
        "",
        f"Measured on {datetime.now(UTC):%Y-%m-%d} by `make bench`; `docs/dev/benchmarks.md` says how. Read the",
        "comparison with the bare thing first: both were measured in turns in the same minutes.",
        "",
        *[f"- {name}: {value}" for name, value in machine.items()],
        "",
    ]
    for name, rows in groups.items():
        lines += [f"## {name}", "", *_table(rows), ""]
        lines += [f"- {row.what}: {row.note}" for row in rows if row.note]
        lines += [""] if any(row.note for row in rows) else []
    return "\n".join(lines)


def _table(rows: Sequence[Row]) -> list[str]:
    headings = (HEADINGS[0], "bare thing", *HEADINGS[1:])
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    for row in rows:
        what, *numbers = row.cells()
        lines.append("| " + " | ".join((what, row.bare_thing, *numbers)) + " |")
    return lines


def as_json(groups: Mapping[str, Sequence[Row]], machine: Mapping[str, str]) -> str:
    rows = [{"group": name, **_plain(row)} for name, found in groups.items() for row in found]
    return json.dumps(
        {"at": datetime.now(UTC).isoformat(), "machine": machine, "rows": rows}, indent=1, ensure_ascii=False
    )


def _plain(row: Row) -> dict[str, Any]:
    budget = None if row.budget is None else row.budget.text(row.unit)
    return {**asdict(row), "budget": budget, "holds": row.holds}
