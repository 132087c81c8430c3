"""`Run.exec()` against a real server."""

from __future__ import annotations

import time

import pytest

from tests.sdk.conftest import Project
from windlass import Experiment, ScriptRunConfig
from windlass.core.errors import Conflict


def test_a_command_where_the_run_is(exp: Experiment, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    run = exp.submit(ScriptRunConfig(project(train="import time; time.sleep(600)"), "train.py"))
    while run.get_status() != "Running":
        time.sleep(0.05)
    assert run.exec(["sh", "-c", "cat; echo problem >&2; exit 7"], b"\0\xff") == (7, b"\0\xff")
    assert capsys.readouterr().err == "problem\n"
    run.cancel()
    run.wait_for_completion()
    with pytest.raises(Conflict, match="has ended"):
        run.exec(["true"])
