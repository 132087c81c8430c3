"""`windlass environment`, and `--environment`: what the workspace keeps under a name is what runs get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.indexes import HERE, PackageIndex
from tests.wheels import make_wheel

LOOK = "import os, tiny; print(tiny.version, os.environ.get('FOO'))"
IN_SDK = """
import sys
from windlass import CondaDependencies, Environment, Workspace
name, *rest = sys.argv[1:]
made = Environment(name)
made.environment_variables = {"FOO": "bar"}
"""


@pytest.fixture
def name() -> str:
    """One that nobody has."""
    return f"train-{os.urandom(4).hex()}"


@pytest.fixture
def tiny(project: Path) -> Path:
    """A list of packages that nobody has built yet."""
    make_wheel(project, "tiny", body=f"version = 1  # {os.urandom(8).hex()}\n")
    (project / "requirements.txt").write_text("--no-index\n./tiny-1.0-py3-none-any.whl\n")
    (project / "train.py").write_text(LOOK)
    return project / "requirements.txt"


def register(shell: Shell, name: str, code: str, *arguments: str) -> None:
    """By the SDK."""
    whole = f"{IN_SDK}\n{code}\nmade.register(Workspace.from_config())"
    subprocess.run([sys.executable, "-c", whole, name, *arguments], env=shell.environment(), check=True, timeout=60)


def test_what_is_registered_is_what_a_run_gets(shell: Shell, project: Path, tiny: Path, name: str) -> None:
    done = shell("environment", "register", name, "--env-file", "requirements.txt", cwd=project)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{name}:1 is registered.\n")
    tiny.unlink()
    (project / "tiny-1.0-py3-none-any.whl").unlink()  # the workspace has it
    run = shell("submit", "--json", "--environment", name, "train.py", cwd=project).json
    assert run["state"] == "Completed"
    assert shell("logs", run["id"]).out.endswith("1 None\n")
    told = run["spec"]["environment"]
    assert (told["name"], told["version"]) == (name, "1")
    assert run["spec"]["definition"]["environment"]["name"] == name


def test_its_variables_and_wheels_are_those_of_the_sdk(shell: Shell, project: Path, tiny: Path, name: str) -> None:
    code = "made.python.conda_dependencies = CondaDependencies.create(pip_packages=rest)"
    register(shell, name, code, str(project / "tiny-1.0-py3-none-any.whl"))
    for words, said in ((), "1 bar\n"), (("--env", "FOO=mine"), "1 mine\n"):
        done = shell("submit", "-q", "--environment", f"{name}:1", *words, "train.py", cwd=project)
        assert done.code == 0 and done.out.endswith(said), done


def test_the_active_python_runs_what_names_none(shell: Shell, project: Path, name: str, tmp_path: Path) -> None:
    """As it does without an environment; the name stays with the run."""
    folder = tmp_path / "active" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    (project / "train.py").write_text("")
    register(shell, name, "")
    for environment in name, "AzureML-Minimal":
        words = ("submit", "--json", "--environment", environment, "train.py")
        run = shell(*words, cwd=project, env={"VIRTUAL_ENV": str(folder.parent)}).json
        assert run["spec"]["environment"]["interpreter"] == str(folder / "python")
        assert run["spec"]["environment"]["name"] == environment


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("made.docker.base_image = 'team/torch:2.5'; made.docker.enabled = True", "container    team/torch:2.5;"),
        ("made.docker.base_dockerfile = 'FROM team/a\\nRUN true'; made.docker.enabled = True", "a Dockerfile"),
    ],
)
def test_what_its_containers_are_made_from(shell: Shell, project: Path, name: str, code: str, said: str) -> None:
    (project / "train.py").write_text("")
    register(shell, name, code)
    plan = shell("submit", "--dry-run", "--environment", name, "train.py", cwd=project).out
    assert said in plan and "FOO=bar" in plan and "the interpreter python3" in plan


def test_an_image_makes_containers(shell: Shell, project: Path, name: str) -> None:
    (project / "train.py").write_text("")
    assert shell("environment", "register", name, "--image", "team/torch:2.5").code == 0
    plan = shell("submit", "--dry-run", "--environment", name, "train.py", cwd=project).out
    assert "container    team/torch:2.5;" in plan


def test_it_stands_in_for_that_of_a_run_configuration(shell: Shell, project: Path, name: str) -> None:
    (project / "train.py").write_text("import os, sys; print(os.environ['FOO'], os.environ['BAR'], sys.argv[1:])")
    (project / ".azureml").mkdir()
    (project / ".azureml" / "mine.runconfig").write_text(
        "target: local\narguments: [--x]\nautoPrepareEnvironment: false\nenvironmentVariables: {BAR: foo}\n"
        "environment: {environmentVariables: {FOO: other}, python: {condaDependencies: {dependencies: [a]}}}\n"
    )
    register(shell, name, "")
    done = shell("submit", "-q", "-c", "mine", "--environment", name, "train.py", "y", cwd=project)
    assert done.out == "bar foo ['--x', 'y']\n", done
    register(shell, name, "made.python.conda_dependencies = CondaDependencies.create(pip_packages=['no-such'])")
    done = shell("submit", "-c", "mine", "--environment", name, "train.py", cwd=project)
    assert done.code == 125 and f"windlass prepare -c mine --environment {name}\n" in done.err


def test_it_is_built_ahead_of_time(shell: Shell, project: Path, tiny: Path, name: str) -> None:
    assert shell("environment", "register", name, "--env-file", str(tiny)).code == 0
    words = ("prepare", "-c", "local", "--environment", f"{name}:1")
    assert shell(*words, "--check", "--json").json == {"prepared": False}
    done = shell(*words)
    assert done.code == 0 and "tiny==1.0" in done.out
    assert shell(*words, "--check", "--json").json == {"prepared": True}


@pytest.mark.parametrize("words", [("--pip", "six"), ("--env-file", "f"), ("--image", "i"), ("--python", "3.12")])
def test_one_or_the_other(shell: Shell, project: Path, words: tuple[str, ...]) -> None:
    (project / "train.py").write_text("")
    done = shell("submit", "--environment", "AzureML-Minimal", *words, "train.py", cwd=project)
    assert (done.code, done.out) == (125, "")
    assert f"--environment and {words[0]} cannot be used together." in done.err


def test_one_or_the_other_is_prepared(shell: Shell) -> None:
    done = shell("prepare", "-c", "local", "--environment", "AzureML-Minimal", "--conda-file", "f.yml")
    assert done.code == 2 and "--environment and --conda-file cannot be used together." in done.err


def test_what_is_not_there(shell: Shell, project: Path, name: str) -> None:
    (project / "train.py").write_text("")
    register(shell, name, "")
    for wrong, problem, hint in (
        (name[:-1], f"There is no environment {name[:-1]}", name),
        (f"{name}:7", f"There is no version 7 of the environment {name}", "The latest version is 1."),
        ("AzureML-Tutorail", "There is no curated environment", "Did you mean AzureML-Tutorial"),
    ):
        for words, code in (
            (("submit", "-e", name, "--environment", wrong, "train.py"), 125),
            (("prepare", "-c", "local", "--environment", wrong), 3),
            (("environment", "show", wrong), 3),
        ):
            done = shell(*words, cwd=project)
            assert (done.code, done.out) == (code, "")
            assert problem in done.err and hint in done.err
    assert shell("submit", "--environment", f"{name}:", "train.py", cwd=project).code == 125
    assert shell("runs", "-e", name).code == 3, "nothing was submitted"


def test_list_and_show(fresh: Shell, project: Path) -> None:
    empty = "No environments yet: windlass environment register NAME --env-file requirements.txt\n"
    assert fresh("environment", "list").out == empty
    (project / "env.yml").write_text(
        "dependencies:\n- python=3.11\n- numpy\n- pip:\n  - six\n  - azureml-defaults\nvariables: {FOO: bar}\n"
    )
    for words in ("--env-file", "env.yml"), ("--env-file", "env.yml", "--image", "team/torch:2.5"):
        assert fresh("environment", "register", "training", *words, cwd=project).code == 0
    assert fresh("environment", "register", "torch", "--image", "pytorch/pytorch:2.5.1").code == 0
    register(fresh, "plain", "")
    register(fresh, "made", "made.docker.base_dockerfile = 'FROM a\\nRUN b'")
    lines = fresh("environment", "list").out.splitlines()
    assert lines[0].split() == ["ENVIRONMENT", "VERSION", "CONTENTS", "REGISTERED", "BY"]
    assert [line.split()[0] for line in lines[1:]] == ["made", "plain", "torch", "training"]
    assert "a Dockerfile" in lines[1] and "the Python that is there" in lines[2]
    assert "image pytorch/pytorch:2.5.1" in lines[3] and "image team/torch:2.5, python 3.11, 2 packages" in lines[4]
    assert all("owner" in line for line in lines[1:])
    shown = fresh("environment", "show", "training").out
    for text in ("training:2", "Versions    2, 1", "3.11", "numpy", "six", "team/torch:2.5", "FOO=bar"):
        assert text in shown
    assert "team/torch" not in fresh("environment", "show", "training:1").out
    assert "Dockerfile  FROM a\n              RUN b\n" in fresh("environment", "show", "made").out


def test_as_json(shell: Shell, name: str) -> None:
    kept = shell("environment", "register", name, "--image", "team/torch:2.5", "--json").json
    assert (kept["name"], kept["version"], kept["created_by"]) == (name, "1", "owner")
    assert kept["definition"]["docker"]["baseImage"] == "team/torch:2.5"
    assert [each["version"] for each in kept["versions"]] == ["1"]
    assert shell("environment", "show", name, "--json").json == kept
    listed = {each["name"]: each for each in shell("environment", "list", "--json").json["environments"]}
    assert listed[name]["definition"] == kept["definition"] and "AzureML-Minimal" not in listed


def test_curated_ones(shell: Shell) -> None:
    listed = [each["name"] for each in shell("environment", "list", "--all", "--json").json["environments"]]
    assert "AzureML-Minimal" in listed
    assert "AzureML-Tutorial" in shell("environment", "list", "-a").out
    shown = shell("environment", "show", "AzureML-Tutorial").out
    assert "scikit-learn" in shown and "Registered" not in shown


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["x"], 2, "Say what is in it: --env-file FILE, --image IMAGE, or both."),
        (["AzureML-x", "--image", "i"], 2, "reserved"),
        (["a b", "--image", "i"], 2, "An environment's name has"),
        (["x", "--image", "--privileged"], 2, "Not the name of an image"),
        (["x", "--env-file", "nothing.txt"], 3, "There is no file nothing.txt"),
    ],
)
def test_what_is_not_registered(shell: Shell, words: list[str], code: int, problem: str) -> None:
    done = shell("environment", "register", *words)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err and "Traceback" not in done.err


def test_what_is_replaced_is_shown_and_refused_where_it_is_strict(shell: Shell, project: Path, tmp_path: Path) -> None:
    olden = f"olden{os.urandom(4).hex()}"
    (project / "train.py").write_text(f"import {olden}; print({olden}.version)")
    with PackageIndex.served(tmp_path) as index:
        index.add(olden, "1.0", "2018-01-01", python="cp36")
        index.add(olden, "1.2", "2025-03-01", python=HERE)
        (project / "requirements.txt").write_text(f"--index-url {index.url}\n{olden}==1.0\n")
        run = shell("submit", "--json", "--env-file", "requirements.txt", "train.py", cwd=project).json
        assert run["state"] == "Completed"
        shown = shell("show", run["id"]).out
        assert f"Replaced    {olden}==1.0 → 1.2 (no wheel for Python 3." in shown
        assert "replaced." not in shown, "it is told once"
        words = ("--strict-environment", "--env-file", "requirements.txt")
        refused = shell("submit", *words, "train.py", cwd=project)
        assert refused.code != 0 and f"{olden}==1.0 has no wheel for Python 3." in refused.out + refused.err
        words = ("--strict-environment", "--conda-file", "requirements.txt")
        refused = shell("prepare", "-c", "local", *words, cwd=project)
        assert refused.code != 0 and f"{olden}==1.0 has no wheel for Python 3." in refused.out + refused.err
