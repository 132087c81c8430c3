"""`windlass prepare`: an environment is built ahead of the first run, and said to be there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.wheels import make_wheel

PREPARED = "The compute target already prepared for the specified run configuration.\n"
NOT_PREPARED = "The compute target is not prepared for the specified run configuration.\n"


@pytest.fixture
def conda_file(project: Path) -> Path:
    """Packages that nobody has built yet."""
    make_wheel(project, "tiny", body=f"version = 1  # {os.urandom(8).hex()}\n")
    folder = project / "aml_config"
    folder.mkdir()
    path = folder / "Conda_dependencies.yml"
    path.write_text("dependencies:\n- pip:\n  - --no-index\n  - ../tiny-1.0-py3-none-any.whl\n")
    return path


def test_a_target_is_prepared_with_the_projects_packages(shell: Shell, project: Path, conda_file: Path) -> None:
    words = ("prepare", "-c", "local", "-d", "aml_config/conda_dependencies.yml")
    check = shell(*words, "--check", cwd=project)
    assert (check.code, check.out) == (1, NOT_PREPARED)
    done = shell(*words, cwd=project)
    assert done.code == 0, done
    assert "tiny==1.0" in done.out
    assert "The environment is ready." in done.out
    check = shell(*words, "--check", cwd=project)
    assert (check.code, check.out) == (0, PREPARED)
    (project / "train.py").write_text("import tiny; print(tiny.version)")
    for file in (str(conda_file), "aml_config/conda_dependencies.yml", "conda_dependencies.yml"):
        run = shell("submit", "--env-file", file, "train.py", cwd=project)
        assert (run.code, run.out) == (0, "1\n")  # nothing was built


def test_a_run_configuration_is_prepared_with_its_own(shell: Shell, project: Path, conda_file: Path) -> None:
    (project / "aml_config" / "mine.runconfig").write_text(
        "target: local\nautoPrepareEnvironment: false\n"
        "environment: {python: {condaDependenciesFile: aml_config/conda_dependencies.yml}}\n"
    )
    assert shell("prepare", "--run-configuration", "mine", "--check", "--json", cwd=project).json == {"prepared": False}
    run = shell("prepare", "-c", "mine", "--async", "--json", cwd=project).json
    assert (run["type"], run["experiment"], run["target"]) == ("prepare", "prepare", "local")
    assert shell("logs", "-f", run["id"]).code == 0
    assert shell("prepare", "-c", "mine", "--check", "--json", cwd=project).json == {"prepared": True}


def test_packages_that_are_named_come_first(shell: Shell, project: Path, conda_file: Path) -> None:
    make_wheel(project, "other", body=f"# {os.urandom(8).hex()}\n")
    (project / "other.yml").write_text("dependencies: [{pip: [--no-index, ./other-1.0-py3-none-any.whl]}]\n")
    done = shell("prepare", "-c", "local", "--conda-file", "other.yml", cwd=project)
    assert done.code == 0 and "other==1.0" in done.out and "tiny" not in done.out


def test_packages_of_a_requirements_file(shell: Shell, project: Path) -> None:
    make_wheel(project, "other", body=f"# {os.urandom(8).hex()}\n")
    (project / "requirements.txt").write_text("--no-index\n./other-1.0-py3-none-any.whl\n")
    done = shell("prepare", "-c", "local", "-d", "Requirements.txt", cwd=project)
    assert done.code == 0 and "other==1.0" in done.out


def test_local_has_its_packages(shell: Shell, project: Path, conda_file: Path) -> None:
    """As the documents say, its runs do not use the project's conda file. That nothing happens is said."""
    done = shell("prepare", "-c", "local", cwd=project)
    assert (done.code, done.out) == (0, "")
    assert "There is nothing to prepare: runs on local use the Python that is there." in done.err
    assert shell("prepare", "-c", "local", "--json", cwd=project).json == {"prepared": True}
    assert shell("prepare", "-c", "local", "--check", cwd=project).out == PREPARED


def test_what_cannot_be_built_ends_with_its_reason(shell: Shell, project: Path) -> None:
    (project / "env.yml").write_text("dependencies: [{pip: [--no-index, no-such-package]}]\n")
    done = shell("prepare", "-c", "local", "-d", "env.yml", cwd=project)
    assert done.code == 125
    assert "no-such-package" in done.out
    assert "Failed: the environment could not be built" in done.err


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["-c", "nowhere"], 3, "There is no target"),
        (["-c", "a b"], 2, "A target's name"),
        (["-c", "local", "-d", "nothing.yml"], 3, "There is no file nothing.yml"),
        ([], 2, "-c"),
    ],
)
def test_mistakes(shell: Shell, project: Path, words: list[str], code: int, problem: str) -> None:
    done = shell("prepare", *words, cwd=project)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err and "Traceback" not in done.err
