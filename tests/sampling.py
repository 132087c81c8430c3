"""`--sample`: a part of the long tables of cases, for `make test`; `make test-all` runs them whole.

Of the cases of one test function, evenly spread ones are kept. Cases on PostgreSQL are fewer: they show that the
database takes part as SQLite does, not the whole table a second time.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")
IS_ON = False  # set by conftest before tests are collected
EXAMPLES = 25  # of a property, where a test does not say otherwise
# Cases of one function. Core is run whole, the store on SQLite.
_MOST = {
    "tests/attach/": 1,
    "tests/azureml/": 20,
    "tests/cli/": 3,
    "tests/client/": 5,
    "tests/drivers/": 2,
    "tests/e2e/": 2,
    "tests/engines/": 1,
    "tests/faults/test_sample.py": 3,
    "tests/inputs/test_configuration.py": 1,
    "tests/inputs/test_keys.py": 1,
    "tests/inputs/test_mistakes.py": 2,
    "tests/inputs/": 2,
    "tests/runner/": 2,
    "tests/scenarios/": 2,
    "tests/sdk/": 2,
    "tests/seeds/": 10,
    "tests/server/": 3,
    "tests/test_snippets.py": 4,
}
# Folders whose tests take seconds of CPU each: every second function of a file.
_EVERY_SECOND = (
    "tests/attach/",
    "tests/cli/azureml/",
    "tests/e2e/",
    "tests/engines/",
    "tests/inputs/",
    "tests/plugin/",
    "tests/runner/",
    "tests/sdk/",
)
# Of the cases of a law, which are the kinds: each law runs on some of them, and each kind runs some of the laws.
_LAWS = "tests/contract/test_laws.py"
_KINDS_OF_A_LAW = 2
# Whole suites and long cases that only `make test-all` runs: what they show, shorter tests show in part.
_LEFT_OUT = (
    "tests/cli/azureml/test_enabling.py::test_pip_finds_the_sdk_installed",
    "tests/cli/server/test_completion.py::test_fish",
    "tests/cli/server/test_completion.py::test_zsh",
    "tests/e2e/test_company_network.py",
    "tests/e2e/test_hostile_machine.py::test_a_machine_that_lies_in_every_field",
    "tests/e2e/test_members.py",
    "tests/e2e/test_ssh_environments.py",
    "tests/e2e/test_upgrade.py",
    "tests/engines/test_docker_pull.py::test_a_private_image_needs_a_login_on_the_machine",
    "tests/engines/test_docker_restarts.py",
    "tests/faults/test_network.py",
    "tests/inputs/test_configuration.py::test_i4_",
    "tests/inputs/test_scripts.py::test_d13_folders_deeper_than_anybody_can_go",
    "tests/runner/environments/test_broken_builds.py::test_stopped[bringing_uv]",
    "tests/runner/workdir/test_source_tree_reuse.py::test_only_some_are_kept",
    "tests/runner/environments/test_environment.py::test_without_uv_it_is_brought_once_for_the_machine",
    "tests/server/security/test_secret_store_life.py",
    "tests/store/db/test_crash.py::test_dead_connections_of_the_pool_are_replaced_unnoticed",
    "tests/store/db/test_crash.py::test_postgresql_may_die_and_come_back",
)
# Tests of a quarter of a minute and more. Each worker begins with some of them, so that none is left for the end.
_LONG = (
    "tests/chaos/test_smoke.py::",
    "tests/store/db/test_crash.py::",
    "tests/test_snippets.py::test_an_example_works",
    "tests/faults/test_sample.py::test_nor_on_a_machine_that_is_reached_by_ssh",
)
_MOST_ON_POSTGRESQL = {"tests/inputs/": 1, "tests/server/": 1, "tests/scenarios/": 1, "tests/store/": 2}


def sample(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """(kept, left out), each in the order given."""
    tables: dict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.nodeid.startswith(_LEFT_OUT):
            continue
        tables[item.nodeid.partition("[")[0], "postgresql" in item.nodeid].append(item)
    left_out = _every_second(dict.fromkeys(test for test, _ in tables))
    kept = {id(item) for key, table in tables.items() if key[0] not in left_out for item in _chosen(*key, table)}
    return [item for item in items if id(item) in kept], [item for item in items if id(item) not in kept]


def _every_second(tests: Iterable[str]) -> set[str]:
    """The functions that are left out of the folders where every second one is."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        if test.startswith(_EVERY_SECOND):
            by_file[test.partition("::")[0]].append(test)
    return {test for found in by_file.values() for test in found[1::2]}


def _chosen(test: str, is_on_postgresql: bool, table: list[pytest.Item]) -> list[pytest.Item]:
    if not test.startswith(_LAWS):
        return spread(table, _most(test, is_on_postgresql))
    first = int(hashlib.sha256(test.encode()).hexdigest(), 16) % len(table)
    return spread(table[first:] + table[:first], _KINDS_OF_A_LAW)


def _mixed(item: pytest.Item) -> str:
    return hashlib.sha256(item.nodeid.partition("::")[0].encode()).hexdigest()


def busy_order(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """The items in an order that keeps two cores busy to the end: the long ones stand at the beginning of each worker's
    share, the others by file, in an order that has nothing to do with names. Otherwise the tests that wait more than
    they compute (engines, faults) are left for the end, all together.

    pytest-xdist gives each worker an equal share of the list, in order.
    """
    first: list[list[pytest.Item]] = [[] for _ in range(workers)]
    long = [item for name in _LONG for item in items if item.nodeid.startswith(name)]
    for at, item in enumerate(long):
        first[at % workers].append(item)
    known = {id(item) for item in long}
    others = sorted((item for item in items if id(item) not in known), key=_mixed)
    share, ordered = len(items) // workers, []
    for beginning in first:
        room = max(0, share - len(beginning))
        ordered += [*beginning, *others[:room]]
        others = others[room:]
    return ordered + others


def _most(test: str, is_on_postgresql: bool) -> int | None:
    limits = _MOST_ON_POSTGRESQL if is_on_postgresql else _MOST
    return next((most for folder, most in limits.items() if test.startswith(folder)), None)


def examples(whole: int) -> int:
    """How many examples of a property to try, where all of them are so many."""
    return whole // 4 if IS_ON else whole


def spread(table: list[T], most: int | None) -> list[T]:
    """At most so many of a table, evenly spread."""
    if most is None or len(table) <= most:
        return table
    return [table[at * len(table) // most] for at in range(most)]
