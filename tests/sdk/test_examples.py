"""The examples in docstrings that need a server."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import windlass
from windlass import Workspace

MODULES = [
    "workspace.workspace",
    "experiment",
    "compute.target",
    "compute.attached.connections",
    "workspace.keyvault",
    "workspace.authentication",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_work(ws: Workspace, name: str) -> None:
    Path("train.py").write_text("print('hello')")
    known = {public: getattr(windlass, public) for public in windlass.__all__}
    results = doctest.testmod(import_module(f"windlass.client.{name}"), extraglobs=known)
    assert results.attempted > 0
    assert results.failed == 0
