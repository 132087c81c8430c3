"""A conda environment from a conda file, from submit to the script's print: a real solver on a channel in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.channels import Channel, small_channel
from tests.sdk.conftest import Project
from tests.wheels import make_wheel
from windlass import ActivityFailedException, Environment, Experiment, ScriptRunConfig

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
LOOK = "import tinyconda, tiny; from windlass import Run; print(tinyconda.version, tiny.version, Run.get_context().id)"


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return small_channel(tmp_path / "channel")


def test_a_conda_file_is_built_once_and_again_when_it_changes(
    exp: Experiment, project: Project, channel: Channel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wheel(tmp_path, "tiny", "3.0")
    file = tmp_path / "Conda_dependencies.yml"  # as the documents capitalise it
    file.write_text(
        f"channels: [{channel.url}]\ndependencies:\n- python=3.5.2\n- tinyconda\n- azureml-defaults\n"
        "- pip:\n  - --no-index\n  - azureml-core\n  - ./tiny-3.0-py3-none-any.whl\n"
    )

    def submit() -> bool:
        environment = Environment.from_conda_specification("e", str(tmp_path / "conda_dependencies.yml"))
        run = exp.submit(ScriptRunConfig(project(train=LOOK), "train.py", environment=environment))
        run.wait_for_completion(show_output=True)
        assert f"3.0 {run.id}\n" in run._read_file("user_logs/std_log.txt").decode()
        assert run.get_details()["properties"]["replaced.python"].startswith("python 3.5.2 → 3.")
        return BUILD_LOG in run.get_file_names()

    assert submit()
    shown = capsys.readouterr().out
    assert "python 3.5.2 → 3." in shown
    assert not submit()
    channel.add_module("tinyconda", "2.0")
    assert not submit()  # the channel has a newer one, and the file says the same
    file.write_text(file.read_text().replace("- tinyconda\n", "- tinyconda>=2\n"))
    assert submit()


def test_what_the_channel_lacks_is_named(exp: Experiment, project: Project, channel: Channel, tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text(f"channels: [{channel.url}]\ndependencies: [no-such-package, tinyconda=9]\n")
    environment = Environment.from_conda_specification("e", str(tmp_path / "env.yml"))
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py", environment=environment))
    with pytest.raises(ActivityFailedException) as caught:
        run.wait_for_completion()
    assert "Not in the channels: no-such-package" in caught.value.error_details
    assert "tinyconda=9" in caught.value.error_details
