"""The examples in the SDK's docstrings."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    *("conda_dependencies", "environment", "runconfig", "script_run_config", "run", "resource_configuration"),
    *("compute.remote", "compute.amlcompute", "compute.databricks", "compute.hdinsight", "compute.local_target"),
    "runs.run_status",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_work(name: str) -> None:
    results = doctest.testmod(import_module(f"windlass.client.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
