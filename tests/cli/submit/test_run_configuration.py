"""`-c NAME` with the files of a project: what they say is sent, as far as the command line does not say otherwise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fake import FakeSession, W, a_run, windlass

CONDA = "dependencies:\n- python=3.11\n- pip: [pandas]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    (tmp_path / "train.py").write_text("pass\n")
    for name in (".azureml", "aml_config"):
        (tmp_path / name).mkdir()
    return tmp_path


def submitted(*words: str, legacy: bool = False) -> dict[str, Any]:
    """The specification that a submit sends."""
    session = FakeSession({f"POST {W}/runs": a_run(), f"GET {W}/targets/docker": {"name": "docker"}})
    command = ("experiment", "submit", "--async") if legacy else ("submit", "--detach")
    assert windlass(session, *command, *words, "train.py") == 0
    [body] = [body for what, body, _ in session.asked if what == f"POST {W}/runs"]
    found: dict[str, Any] = body["spec"]
    return found


def test_what_the_file_says_is_kept(project: Path) -> None:
    (project / ".azureml" / "mine.runconfig").write_text(
        "target: local\npriority: 7\nsecrets: [db]\n"
        "environment: {environmentVariables: {FOO: bar}, python: {userManagedDependencies: true}}\n"
    )
    spec = submitted("-c", "mine", "--secret", "api", "--secret", "db")
    assert (spec["secrets"], spec["priority"]) == (["db", "api"], 7)
    assert (spec["environment"]["interpreter"], spec["environment"]["variables"]) == (sys.executable, {"FOO": "bar"})
    assert submitted("-c", "mine", "--priority", "0")["priority"] == 0


def test_other_packages_in_the_same_image(project: Path) -> None:
    (project / ".azureml" / "dock.runconfig").write_text(
        "target: docker\ndocker: {useDocker: true}\n"
        "environment: {docker: {baseImage: my/base:3}, environmentVariables: {FOO: bar}}\n"
    )
    (project / "conda.yml").write_text(CONDA)
    for spec in (
        submitted("-c", "dock", "--env-file", "conda.yml"),
        submitted("-c", "dock", "-d", "conda.yml", legacy=True),
    ):
        environment = spec["environment"]
        assert (environment["image"], environment["variables"]) == ("my/base:3", {"FOO": "bar"})
        assert (environment["pip"], environment["python_version"]) == (["pandas"], "3.11")
        assert spec["definition"]["environment"]["docker"]["baseImage"] == "my/base:3"
    environment = submitted("-c", "dock", "--image", "other:1")["environment"]
    assert (environment["image"], environment["variables"]) == ("other:1", {"FOO": "bar"})


@pytest.mark.parametrize("legacy", [False, True])
def test_a_target_has_the_packages_of_the_projects_configuration(project: Path, legacy: bool) -> None:
    """As it has when it is prepared."""
    (project / "aml_config" / "Conda_dependencies.yml").write_text(CONDA)
    assert submitted("-c", "docker", legacy=legacy)["environment"]["pip"] == ["pandas"]
    assert submitted("-c", "local", legacy=legacy)["environment"]["interpreter"] == sys.executable


def test_a_file_of_workbench_for_local_has_its_packages_already(project: Path) -> None:
    (project / "aml_config" / "conda_dependencies.yml").write_text(CONDA)
    (project / "aml_config" / "local.runconfig").write_text(
        "Target: local\nCondaDependenciesFile: aml_config/conda_dependencies.yml\n"
    )
    environment = submitted("-c", "local", legacy=True)["environment"]
    assert environment["interpreter"] == sys.executable and not environment.get("pip")


def test_a_target_stands_in_for_that_of_the_run_configuration(project: Path) -> None:
    """And how runs live is up to it."""
    (project / "aml_config" / "conda_dependencies.yml").write_text(CONDA)
    (project / "aml_config" / "docker.compute").write_text("type: localdocker\nbaseDockerImage: my/base:3\n")
    for name, text in (
        (
            "old",
            "Target: docker\nArgumentVector: [$file, --x]\nCondaDependenciesFile: aml_config/conda_dependencies.yml",
        ),
        ("new", "target: docker\narguments: [--x]\nenvironment: {python: {userManagedDependencies: true}}"),
    ):
        (project / "aml_config" / f"{name}.runconfig").write_text(text + "\n")
        assert submitted("-c", name, legacy=True)["target"] == "docker"
        spec = submitted("-c", name, "-t", "local", legacy=True)
        assert (spec["target"], spec["arguments"], spec["container"]) == ("local", ["--x"], None)
        assert spec["environment"]["interpreter"] == sys.executable
        assert submitted("-c", name, "-t", name, legacy=True)["target"] == "docker"


@pytest.mark.parametrize(
    "command", [("submit", "-c", "no", "-t", "local", "train.py"), ("prepare", "-c", "n;o", "-t", "local")]
)
def test_beside_a_target_only_a_run_configuration_is_named(
    project: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert windlass(FakeSession({}), "experiment", *command) != 0
    assert "The project has no run configuration" in capsys.readouterr().err


def test_a_folder_with_a_conda_file_of_its_own_is_no_configuration(project: Path) -> None:
    (project / "conda_dependencies.yml").write_text(CONDA)
    assert submitted("-c", "docker")["environment"]["interpreter"] == "python3"


def test_a_compute_file_says_how_runs_live_there(project: Path) -> None:
    """In the newer folder, too, where the run configuration leaves it open."""
    (project / ".azureml" / "box.compute").write_text(
        "type: remote\naddress: 10.0.0.7\nuserManagedEnvironment: true\npythonLocation: ~/py35/bin/python\n"
    )
    (project / ".azureml" / "box.runconfig").write_text("target: box\n")
    session_answers = {f"POST {W}/runs": a_run(), f"GET {W}/targets/box": {"name": "box"}}
    session = FakeSession(session_answers)
    assert windlass(session, "submit", "--detach", "-c", "box", "train.py") == 0
    [spec] = [body["spec"] for what, body, _ in session.asked if what == f"POST {W}/runs"]
    assert spec["environment"]["interpreter"] == "~/py35/bin/python"  # of that machine


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("type: remotedocker\naddress: gpu.lab:2222", "--address gpu.lab:2222 --username jane --docker"),
        ("type: remote\naddress: gpu.lab", "--address gpu.lab --username jane"),
        ("type: remote\naddress: '[fd00::7]:2222'", "--address '[fd00::7]:2222' --username jane"),
    ],
)
def test_a_target_that_is_not_attached_is_attached_by_the_line_that_is_proposed(
    project: Path, said: str, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "aml_config" / "box.compute").write_text(f"{said}\nusername: jane\n")
    assert windlass(FakeSession({}), "submit", "-c", "box", "train.py") == 125
    assert f"Attach it: windlass compute attach ssh box {options}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("address: gpu.lab", None),
        ("address: GPU.lab:2222\nusername: jane", None),
        ("username: jane", None),
        ("address: other.lab", "--address other.lab --username jane"),
        ("address: gpu.lab\nusername: joe", "--address gpu.lab:2222 --username joe"),
        ("username: joe", "--address gpu.lab:2222 --username joe"),
        ("address: gpu.lab:22", "--address gpu.lab --username jane"),
    ],
)
def test_a_target_that_is_attached_elsewhere_is_told(
    project: Path, said: str, options: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "aml_config" / "box.compute").write_text(f"type: remote\nuserManagedEnvironment: true\n{said}\n")
    config = {"address": "gpu.lab", "port": 2222, "username": "jane"}
    box = {"name": "box", "kind": "ssh", "config": config, "location": "jane@gpu.lab:2222"}
    session = FakeSession({f"POST {W}/runs": a_run(), f"GET {W}/targets/box": box})
    assert windlass(session, "submit", "--detach", "-c", "box", "train.py") == 0
    err = capsys.readouterr().err
    assert ("runs go to jane@gpu.lab:2222, where it is attached" in err) == (options is not None)
    if options is not None:
        assert f"If that is wrong: windlass compute attach ssh box {options} --update\n" in err


@pytest.mark.parametrize("command", [("submit", "--detach"), ("experiment", "submit", "--async")])
def test_the_script_may_be_named_by_the_run_configuration(project: Path, command: tuple[str, ...]) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "args.py").write_text("pass\n")
    common = "target: local\nenvironment: {python: {userManagedDependencies: true}}\n"
    (project / ".azureml" / "new.runconfig").write_text(f"script: sub/args.py\narguments: [--x]\n{common}")
    (project / "aml_config" / "old.runconfig").write_text("ArgumentVector: [sub/args.py, --x]\nTarget: local\n")
    for name in ("new", "old"):
        session = FakeSession({f"POST {W}/runs": a_run()})
        assert windlass(session, *command, "-c", name) == 0
        [body] = [body for what, body, _ in session.asked if what == f"POST {W}/runs"]
        assert (body["spec"]["script"], body["spec"]["arguments"]) == ("sub/args.py", ["--x"])


@pytest.mark.parametrize("command", [("submit",), ("experiment", "submit")])
@pytest.mark.parametrize("options", [("-c", "mine"), ("-c", "local")])
def test_a_script_that_nobody_names_is_missing(
    project: Path, command: tuple[str, ...], options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "aml_config" / "mine.runconfig").write_text("ArgumentVector: [$file, --x]\nTarget: local\n")
    assert windlass(FakeSession({}), *command, *options) == 125
    assert "error: Missing argument 'SCRIPT'.\n  Type `windlass" in capsys.readouterr().err


def test_a_script_that_the_run_configuration_names_and_is_not_there(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".azureml" / "mine.runconfig").write_text("script: trian.py\n")
    assert windlass(FakeSession({}), "submit", "-c", "mine") == 125
    assert "There is no script trian.py" in capsys.readouterr().err
