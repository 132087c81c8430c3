"""Registered environments, where others register at the same time."""

from __future__ import annotations

from typing import cast

import pytest

from tests.cli.fake import FakeSession, W
from windlass import Environment, Workspace
from windlass.client.http import Session
from windlass.core.errors import Conflict


def test_a_version_that_somebody_else_took_meanwhile_is_told() -> None:
    made = Environment("train")
    made.version = "1"
    workspace = Workspace(_check=False)
    answer = {"name": "train", "version": 2, "definition": made.to_dict()}
    workspace._session = cast(Session, FakeSession({f"POST {W}/environments": answer}))
    with pytest.raises(Conflict, match="this became version 2"):
        made.register(workspace)
