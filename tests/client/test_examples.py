"""The examples in the SDK's docstrings."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "environments.conda_dependencies",
    "environments.environment",
    "config.run_configuration",
    "submit.script_run_config",
    "runs.run",
    "submit.resource_configuration",
    "compute.attached.remote",
    "compute.amlcompute",
    "compute.attached.databricks",
    "compute.attached.hdinsight",
    "compute.local_target",
    "runs.run_status",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_work(name: str) -> None:
    results = doctest.testmod(import_module(f"windlass.client.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
