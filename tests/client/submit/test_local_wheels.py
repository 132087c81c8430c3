"""Wheels of this computer go with the run, named by their content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.wheels import make_wheel
from windlass.client.environments import requirements
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.client.environments.environment import Environment
from windlass.client.exceptions import UserErrorException
from windlass.client.submit.local_wheels import Wheels, parse
from windlass.client.submit.run_spec import environment_spec

NAME = "tiny-1.0-py3-none-any.whl"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        (f"./wheels/{NAME}", ""),
        (f"wheels/{NAME}", ""),
        (f"{{folder}}/wheels/{NAME}", ""),
        (f"file://{{folder}}/wheels/{NAME}", ""),
        (f"file:{{folder}}/wheels/{NAME}", ""),
        (f"tiny @ file://{{folder}}/wheels/{NAME}", ""),
        (f"./wheels/{NAME}[more]", "[more]"),
        (f"./wheels/{NAME} ; python_version > '3'", " ; python_version > '3'"),
    ],
)
def test_a_path_becomes_a_reference(tmp_path: Path, line: str, rest: str) -> None:
    path = make_wheel(tmp_path / "wheels", "tiny")
    digest, size = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size
    wheels = Wheels()
    assert wheels.resolve(line.format(folder=tmp_path)) == f"wheel:{digest}/{size}/{NAME}{rest}"
    [file] = wheels.files()
    assert file == (f".windlass/wheels/{digest[:16]}/{NAME}", digest, size, False, str(path))


def test_other_bytes_are_another_environment(tmp_path: Path) -> None:
    lines = []
    for body in ("a = 1\n", "a = 2\n"):
        make_wheel(tmp_path, "tiny", body=body)
        lines.append(Wheels().resolve(f"./{NAME}"))
    assert lines[0] != lines[1]


@pytest.mark.parametrize("line", ["numpy", "a @ https://example.org/a.whl", "git+https://example.org/x.git", "a; b"])
def test_what_is_no_file_stays_as_it_is(line: str) -> None:
    wheels = Wheels()
    assert wheels.resolve(line) == line
    assert wheels.files() == []


def test_a_reference_names_a_file_that_the_server_has() -> None:
    reference = f"wheel:{'0' * 64}/12/{NAME}"
    wheels = Wheels()
    assert wheels.resolve(reference) == reference
    assert wheels.files() == [(f".windlass/wheels/{'0' * 16}/{NAME}", "0" * 64, 12, False, "")]
    assert requirements.name_of(reference) == "tiny"
    assert parse(reference).name == NAME
    with pytest.raises(UserErrorException, match="does not name a wheel of the workspace"):
        wheels.resolve("wheel:nonsense")


def test_a_file_that_is_named_by_reference_and_by_path_can_be_sent(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "tiny")
    reference = Wheels().resolve(str(path))
    wheels = Wheels()
    assert wheels.resolve(reference) == wheels.resolve(str(path))
    assert [file.location for file in wheels.files()] == [str(path)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("C:\\temp\\my_private_python_pkg.whl", "is a path of Windows, and this computer is none"),
        ("\\\\host\\share\\a.whl", "is a path of Windows"),
        ("./nothing-1.0-py3-none-any.whl", "nothing-1.0-py3-none-any.whl is not there"),
        ("./folder", "is a folder, and a package is sent as a wheel"),
        ("./my.whl", "does not have the name of a wheel"),
        ("file:///etc/passwd", "is not a wheel"),
    ],
)
def test_files_that_cannot_be_sent(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "my.whl").touch()
    with pytest.raises(UserErrorException) as caught:
        Wheels().resolve(line)
    assert problem in caught.value.message


def test_paths_start_from_the_file_that_names_them(tmp_path: Path) -> None:
    make_wheel(tmp_path / "project" / "wheels", "tiny")
    conda = tmp_path / "project" / "env.yml"
    conda.write_text(f"dependencies:\n- pip:\n  - ./wheels/{NAME}\n")
    listed = tmp_path / "project" / "requirements.txt"
    listed.write_text(f"wheels/{NAME}\n")
    for made in (
        Environment.from_conda_specification("e", str(conda)),
        Environment.from_pip_requirements("e", str(listed)),
    ):
        wheels = Wheels()
        [line] = environment_spec(made, "local", wheels).pip
        assert line.startswith("wheel:")
        assert [Path(file.location).name for file in wheels.files()] == [NAME]


def test_the_packages_of_the_seed(tmp_path: Path) -> None:
    """Its conda file as it stands: on Linux both wheels for Windows are refused, with what to do instead."""
    (tmp_path / "conda.yml").write_text("""\
name: project_environment
dependencies:
  # Python version
  - python=3.5.2

  # some conda packages
  - scikit-learn
  - cryptography

  # use pip to install some more packages
  - pip:
     # a package in PyPi
     - azure-storage

     # a package hosted in a public URL endpoint
     - https://cntk.ai/PythonWheel/CPU-Only/cntk-2.1-cp35-cp35m-win_amd64.whl

     # a wheel file available locally on disk (this only works if you are executing against local Docker target)
     - C:\\temp\\my_private_python_pkg.whl
""")
    packages = CondaDependencies("conda.yml")
    environment = Environment("seed")
    environment.python.conda_dependencies = packages
    for line, problem in (
        ("https://cntk.ai/PythonWheel/CPU-Only/cntk-2.1-cp35-cp35m-win_amd64.whl", "is a wheel for Windows"),
        ("C:\\temp\\my_private_python_pkg.whl", "is a path of Windows"),
    ):
        with pytest.raises(UserErrorException, match=problem):
            environment_spec(environment, "docker")
        packages.remove_pip_package(line)
    spec = environment_spec(environment, "docker")
    assert (spec.python_version, spec.conda) == ("3.5.2", ("python=3.5.2", "scikit-learn", "cryptography"))
    assert spec.pip == ("azure-storage",)
