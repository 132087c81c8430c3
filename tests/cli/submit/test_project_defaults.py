"""The project file: defaults for what is typed in its folder, seen by the runs that are submitted there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell

PRINT = "import os; print(os.environ.get('GREETING'), os.environ.get('RATE'))"


@pytest.fixture
def configured(project: Path) -> Path:
    (project / ".windlass").mkdir()
    (project / "train.py").write_text(PRINT)
    (project / "vars.env").write_text("GREETING='good day'\nRATE=1\n")
    (project / ".windlass" / "project.toml").write_text(
        'experiment = "of-project"\nvariables_file = "vars.env"\n[resources]\nmemory = "1G"\ncpus = 0.5\n'
    )
    return project


def spec(run: dict[str, Any], shell: Shell) -> dict[str, Any]:
    found: dict[str, Any] = shell("show", run["id"], "--json").json["spec"]
    return found


def test_defaults_are_used_below_the_project_too(shell: Shell, configured: Path) -> None:
    below = configured / "below"
    below.mkdir()
    (below / "train.py").write_text(PRINT)
    for folder in (configured, below):
        done = shell("submit", "-q", "train.py", cwd=folder)
        assert (done.code, done.out) == (0, "good day 1\n"), done.err
        run = shell("show", "@last", "--json").json
        assert run["experiment"] == "of-project"
        assert (run["spec"]["resources"]["memory_mb"], run["spec"]["resources"]["cpus"]) == (1024, 0.5)


def test_options_win(shell: Shell, configured: Path) -> None:
    line = ("submit", "-q", "-e", "mine", "--memory", "2G", "--env", "RATE=2", "train.py")
    assert shell(*line, cwd=configured).out == "good day 2\n"
    run = shell("show", "@last", "--json").json
    assert run["experiment"] == "mine"
    assert (run["spec"]["resources"]["memory_mb"], run["spec"]["resources"]["cpus"]) == (2048, 0.5)


def test_the_packages_of_the_project(shell: Shell, configured: Path) -> None:
    (configured / ".windlass" / "project.toml").write_text('env_file = "requirements.txt"\n')
    (configured / "requirements.txt").write_text("numpy==2.1.0\n")
    assert "numpy==2.1.0" in shell("submit", "--dry-run", "train.py", cwd=configured).out
    chosen = shell("submit", "--dry-run", "--pip", "attrs", "train.py", cwd=configured).out
    assert "attrs" in chosen and "numpy" not in chosen, "one option that chooses the environment replaces it"


def test_a_run_configuration_has_its_own_resources(shell: Shell, configured: Path) -> None:
    (configured / ".azureml").mkdir()
    (configured / ".azureml" / "big.runconfig").write_text("target: local\nscript: train.py\n")
    done = shell("submit", "--json", "-c", "big", "train.py", cwd=configured)
    assert done.code == 0, done.err
    assert spec(done.json, shell)["resources"]["memory_mb"] is None


def test_status_shows_the_file(shell: Shell, configured: Path) -> None:
    shown = shell("status", cwd=configured)
    assert f"Project {configured}/.windlass/project.toml" in shown.out
    assert "Experiment      of-project" in shown.out and "Resources       memory 1G, cpus 0.5" in shown.out
    assert shell("status", "--json", cwd=configured).json["project"]["experiment"] == "of-project"
    assert shell("status", "--json").json["project"] is None


def test_a_mistake_in_it_is_an_error_that_names_it(shell: Shell, configured: Path) -> None:
    (configured / ".windlass" / "project.toml").write_text('[resources]\nmemory = "much"\n')
    done = shell("submit", "train.py", cwd=configured)
    assert done.code == 125
    assert "project.toml: resources.memory: 'much' is not an amount of memory" in done.err
    (configured / ".windlass" / "project.toml").write_text('tarjet = "local"\n')
    done = shell("runs", cwd=configured)
    assert done.code == 2
    assert "there is no key tarjet" in done.err and "Did you mean target?" in done.err


def test_a_project_takes_nothing_from_the_environment(shell: Shell, configured: Path) -> None:
    """It may come with a repository of others: they would choose which of the user's secrets a run gets."""
    (configured / "vars.env").write_text("GREETING=hello\nexport HOME\n")
    done = shell("submit", "--dry-run", "train.py", cwd=configured)
    assert done.code == 125
    assert "vars.env, line 2: HOME has no value." in done.err and "--env HOME" in done.err
    (configured / ".windlass" / "project.toml").unlink()
    assert shell("submit", "--dry-run", "--variables-file", "vars.env", "train.py", cwd=configured).code == 0


def test_values_of_a_variables_file_are_not_shown(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("pass")
    (project / ".env").write_text("TOKEN=s3cret\n")
    plan = shell("submit", "--dry-run", "--variables-file", ".env", "train.py", cwd=project)
    assert "TOKEN=" in plan.out and "s3cret" not in plan.out
    (project / ".env").write_text('TOKEN="s3cret\n')
    done = shell("submit", "--variables-file", ".env", "train.py", cwd=project)
    assert done.code == 125
    assert ".env, line 1: the quote around the value of TOKEN is not closed." in done.err
    assert "s3cret" not in done.err
