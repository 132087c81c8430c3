"""`--sample`: a part of the long tables of cases, for `make test`; `make test-all` runs them whole.

Of the cases of one test function, evenly spread ones are kept. Cases on PostgreSQL are fewer: they show that the
database takes part as SQLite does, not the whole table a second time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")
IS_ON = False  # set by conftest before tests are collected
# Cases of one function. Laws, store, crash matrix and core are run whole.
_MOST = {
    "tests/attach/": 4,
    "tests/cli/": 10,
    "tests/client/": 20,
    "tests/drivers/": 8,
    "tests/e2e/": 2,
    "tests/engines/": 4,
    "tests/faults/test_network.py": 1,
    "tests/inputs/": 8,
    "tests/runner/": 6,
    "tests/scenarios/": 6,
    "tests/sdk/": 6,
    "tests/server/": 10,
}
_MOST_ON_POSTGRESQL = {"tests/inputs/": 1, "tests/server/": 2, "tests/scenarios/": 2}


def sample(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """(kept, left out), each in the order given."""
    tables: dict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        tables[item.nodeid.partition("[")[0], "postgresql" in item.nodeid].append(item)
    kept = {id(item) for key, table in tables.items() for item in spread(table, _most(*key))}
    return [item for item in items if id(item) in kept], [item for item in items if id(item) not in kept]


def _most(test: str, is_on_postgresql: bool) -> int | None:
    limits = _MOST_ON_POSTGRESQL if is_on_postgresql else _MOST
    return next((most for folder, most in limits.items() if test.startswith(folder)), None)


def spread(table: list[T], most: int | None) -> list[T]:
    """At most so many of a table, evenly spread."""
    if most is None or len(table) <= most:
        return table
    return [table[at * len(table) // most] for at in range(most)]
