"""Outside of a run, a script's Run prints what is logged, with Azure's texts."""

from __future__ import annotations

import pytest

from windlass import Run, RunEnvironmentException
from windlass.client.runs.offline_run import _OfflineRun


@pytest.fixture(autouse=True)
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDLASS_RUN_FOLDER", raising=False)


def test_where_there_is_no_run() -> None:
    run = Run.get_context()
    assert isinstance(run, _OfflineRun)
    assert run.id.startswith("OfflineRun_")
    with pytest.raises(RunEnvironmentException):
        Run.get_context(allow_offline=False)
    with pytest.raises(AttributeError):
        run.experiment  # type: ignore[attr-defined]  # noqa: B018


def test_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    run = _OfflineRun("OfflineRun_1")
    run.log("a", 1)
    run.log_list("l", [1])
    run.log_row("r", x=1)
    run.log_table("t", {"x": [1]})
    run.log_image("i", plot="p")
    run.log_residuals("e", {})
    run.log_predictions("p", {})
    run.log_accuracy_table("at", {})
    run.log_confusion_matrix("cm", {})
    run.tag("k", "v")
    run.set_tags({"k": "v"})
    run.add_properties({"p": "q"})
    run.upload_file("n", "x.txt")
    run.upload_files(["n"], ["x"], timeout_seconds=3)
    run.upload_folder("f", "folder")
    run.fail("why", "code")
    run.flush()
    run.complete()
    run.cancel()
    with run:
        pass
    assert capsys.readouterr().out.splitlines() == [
        "Attempted to log scalar metric a:",
        "1",
        "Attempted to log list metric l:",
        "[1]",
        "Attempted to log row metric r:",
        "{'x': 1}",
        "Attempted to log table metric t:",
        "{'x': [1]}",
        "Attempted to log image metric i:",
        "p",
        "Attempted to log residual metric e:",
        "{}",
        "Attempted to log predictions metric p:",
        "{}",
        "Attempted to log accuracy_table metric at:",
        "{}",
        "Attempted to log confusion_matrix metric cm:",
        "{}",
        "Attempted to add tag k with value v",
        "Attempted to set tags {'k': 'v'}",
        "Attempted to add properties {'p': 'q'}",
        "Attempted to track file n at x.txt",
        "Attempted to track files ['n'] at ['x'] with timeout 3s",
        "Attempted to track folder f at folder",
        "Run failed with error code code:",
        "why",
        "Attempted to flush run with id OfflineRun_1",
        "[START] Run OfflineRun_1 context",
        "[STOP] Run OfflineRun_1 context",
    ]


def test_there_is_no_secret_without_a_run() -> None:
    with pytest.raises(RunEnvironmentException, match="secret key") as refused:
        _OfflineRun().get_secret("key")
    assert "get_default_keyvault().get_secret('key')" in refused.value.hint
    with pytest.raises(RunEnvironmentException, match="secret key, other") as refused:
        _OfflineRun().get_secrets(["key", "other"])
    assert "get_default_keyvault().get_secrets(['key', 'other'])" in refused.value.hint


def test_children_are_named_after_their_parent() -> None:
    run = _OfflineRun("OfflineRun_1")
    assert run.child_run("part").id == "OfflineRun_1.part"
    assert run.child_run(run_id="x").id == "x"
    assert run.child_run().id.startswith("OfflineRun_1.")
