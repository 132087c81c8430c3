"""`Run.rerun()`, lists by member and time, archive and delete, against a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.sdk.conftest import Project
from windlass import Environment, Experiment, ResourceConfiguration, Run, ScriptRunConfig, UserErrorException, Workspace
from windlass.core.errors import NotFound

TRAIN = "import os, sys; print(sys.argv[1:], os.environ.get('RATE'), os.environ.get('GREETING'))"


@pytest.fixture
def earlier(exp: Experiment, project: Project) -> Run:
    config = ScriptRunConfig(project(train=TRAIN), "train.py", ["--alpha", "0.1"])
    config.run_config.environment_variables = {"RATE": "1"}
    config.run_config.priority = 3
    run = exp.submit(config, tags={"kind": "x"}, display_name="base")
    run.wait_for_completion()
    return run


def log(run: Run) -> str:
    run.wait_for_completion()
    return run._read_file("user_logs/std_log.txt").decode()


def test_the_same_again(earlier: Run) -> None:
    again = earlier.rerun()
    assert log(again) == "['--alpha', '0.1'] 1 None\n"
    assert again.id != earlier.id
    assert again.properties["rerun_of"] == earlier.id
    assert (again.tags, again.display_name) == ({"kind": "x"}, "base")
    assert again.get_snapshot_id() == earlier.get_snapshot_id()
    assert again._view["spec"] == earlier._refresh()["spec"]


def test_changes(earlier: Run) -> None:
    again = earlier.rerun(
        set_arguments={"alpha": 0.2, "verbose": None},
        environment_variables={"GREETING": "hi"},
        resources=ResourceConfiguration(cpu=0.5, memory_in_gb=1),
        max_run_duration_seconds=600,
        retries=2,
        experiment_name="other",
        display_name="second",
        tags={"more": 1},
    )
    assert log(again) == "['--alpha', '0.2', '--verbose'] 1 hi\n"
    spec = again._refresh()["spec"]
    assert (spec["resources"]["cpus"], spec["resources"]["memory_mb"]) == (0.5, 1024)
    assert (spec["max_run_duration_seconds"], spec["retries"]["count"], spec["priority"]) == (600, 2, 3)
    assert (again.experiment.name, again.display_name, again.tags) == ("other", "second", {"kind": "x", "more": "1"})
    assert again.get_details()["runDefinition"]["arguments"] == ["--alpha", "0.2", "--verbose"]


def test_all_arguments_and_another_environment(earlier: Run) -> None:
    environment = Environment("own")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = "/bin/echo"
    again = earlier.rerun("--beta 'two words'", "local", environment=environment)
    assert log(again).strip().endswith("--beta two words")
    assert again._refresh()["spec"]["definition"]["environment"]["name"] == "own"


def test_what_cannot_be_run_again(exp: Experiment, earlier: Run) -> None:
    with exp.start_logging(snapshot_directory=None) as run:
        pass
    with pytest.raises(UserErrorException, match="was not submitted"):
        run.rerun()
    with pytest.raises(NotFound, match="no target"):
        earlier.rerun(compute_target="nowhere")
    with pytest.raises(UserErrorException, match="max_run_duration_seconds|seconds above 0"):
        earlier.rerun(max_run_duration_seconds=-1)


def test_lists_by_member_time_and_text(ws: Workspace, exp: Experiment, earlier: Run) -> None:
    assert [run.id for run in exp.get_runs(mine=True, since="1h")] == [earlier.id]
    assert [*exp.get_runs(submitted_by="nobody")] == []
    assert [*exp.get_runs(until="1h")] == []
    assert [*exp.get_runs(since=datetime.now(UTC) + timedelta(hours=1))] == []
    assert earlier.id in [run.id for run in ws.get_runs(search="--alpha 0.1")]
    with pytest.raises(UserErrorException, match="not a time"):
        next(exp.get_runs(since="soon"))


def test_archive_and_delete(exp: Experiment, earlier: Run) -> None:
    earlier.archive()
    assert earlier.archived_time
    assert [*exp.get_runs()] == []
    assert (
        [run.id for run in exp.get_runs(archived=True)]
        == [run.id for run in exp.get_runs(archived=None)]
        == [earlier.id]
    )
    earlier.unarchive()
    assert Run.get(exp.workspace, earlier.id).archived_time is None
    assert [run.id for run in exp.get_runs()] == [earlier.id]
    earlier.display_name, earlier.description = "named", "a note\nof two lines"
    found = Run.get(exp.workspace, earlier.id)
    assert (found.display_name, found.description) == ("named", "a note\nof two lines")
    earlier.delete()
    with pytest.raises(NotFound):
        Run.get(exp.workspace, earlier.id)
