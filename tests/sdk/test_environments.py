"""Packages that a run asks for are there, and the build is seen while it happens."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.sdk.conftest import Project
from windlass import ActivityFailedException, CondaDependencies, Environment, Experiment, ScriptRunConfig

BUILD_LOG = "azureml-logs/20_image_build_log.txt"


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    """A package that nobody has to be asked for."""
    path = tmp_path / "tinypackage-1.5-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tinypackage.py", "answer = 42\n")
        archive.writestr(
            "tinypackage-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinypackage\nVersion: 1.5\n"
        )
        archive.writestr(
            "tinypackage-1.5.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("tinypackage-1.5.dist-info/RECORD", "")
    return str(path)


def environment(*packages: str) -> Environment:
    made = Environment("packages")
    made.python.conda_dependencies = CondaDependencies.create(pip_packages=[*packages, "azureml-defaults"])
    return made


def test_a_package_is_installed_and_the_sdk_is_there(
    exp: Experiment, project: Project, wheel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "import tinypackage; from windlass import Run; Run.get_context().log('answer', tinypackage.answer)"
    run = exp.submit(
        ScriptRunConfig(project(train=f"print('up')\n{script}"), "train.py", environment=environment(wheel))
    )
    run.wait_for_completion(show_output=True)
    assert run.get_metrics() == {"answer": 42}
    shown = capsys.readouterr().out
    assert shown.index(f"\nStreaming {BUILD_LOG}\n") < shown.index("\nStreaming user_logs/std_log.txt\n")
    assert BUILD_LOG in run.get_file_names()
    used = run.get_environment().python.conda_dependencies
    assert used is not None
    assert list(used.pip_packages) == [wheel, "azureml-defaults"]


def test_a_package_that_is_not_there(exp: Experiment, project: Project, tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing-1.0-py3-none-any.whl")
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py", environment=environment(missing)))
    with pytest.raises(ActivityFailedException, match="environment"):
        run.wait_for_completion()
