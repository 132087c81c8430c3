"""Pip requirements: invalid lines are refused with their location, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.client.environments import requirements
from windlass.client.environments.conda_dependencies import CondaDependencies, find_conda_file
from windlass.client.environments.environment import Environment
from windlass.client.exceptions import UserErrorException
from windlass.client.submit.run_spec import environment_spec

GOOD = [
    "numpy",
    "numpy==1.26.4",
    "scikit-learn>=1.0,<2",
    "torch==1.6.0+cpu",
    "a==1.*",
    "a (>=1)",
    "a[b, c]~=1.0 ; python_version < '3'",
    "a==1.0 --hash=sha256:abc --hash=sha256:def",
    "a @ https://example.org/a-1.0-py3-none-any.whl",
    "https://example.org/a-1.0-cp35-cp35m-win_amd64.whl",
    "git+https://example.org/x.git@main#egg=x",
    "./wheels/a-1.0-py3-none-any.whl",
    "file:///wheels/a-1.0-py3-none-any.whl",
    "C:\\temp\\a.whl",
    "--index-url https://example.org/simple",
    "--extra-index-url=file:///x",
    "-f /wheels",
    "--pre",
    "pip==20.2.4",
    "six==1.16.0     --hash=sha256:abc     --hash=sha256:def",
    "six==1.16.0 ; python_version >= '3'  --hash=sha256:abc",
    "a @ https://example.org/a.tar.gz --hash=sha256:abc",
    "git+ssh://git@example.org/x.git",
    "--find-links https://example.org/wheels",
    "--find-links=file:///wheels",
]
BAD = {
    "numpy=1.2": "pip compares versions with '=='",
    "numpy 1.2": "is not a pip requirement",
    "numpy>=1.0 <2": "is not a pip requirement",
    "$(touch x)": "is not a pip requirement",
    "==1": "is not a pip requirement",
    "-e .": "build a wheel of it",
    "-c limits.txt": "a file of constraints",
    "--global-option=x": "an option that is not known: --global-option",
    "-r more.txt": "includes a file",
    "-rmore.txt": "includes a file",
    "--find-links ./wheels": "name the wheels in it",
    "-f wheels": "name the wheels in it",
    "-f ~/wheels": "name the wheels in it",
    "git@example.org:team/x.git": "is not a pip requirement",
    "-": "an option that is not known: -",
}


@pytest.mark.parametrize("line", GOOD)
def test_what_an_installer_can_read(line: str) -> None:
    assert requirements.problem_of(line) == ""


@pytest.mark.parametrize(("line", "problem"), BAD.items())
def test_what_it_cannot(line: str, problem: str) -> None:
    assert problem in requirements.problem_of(line)
    environment = Environment("e")
    packages = CondaDependencies()
    packages.set_pip_requirements([line])
    environment.python.conda_dependencies = packages
    with pytest.raises(UserErrorException) as caught:
        environment_spec(environment, "local")
    assert problem in caught.value.message and line in caught.value.message


def test_a_mistake_in_a_requirements_file_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("# packages\n\nscipy\npandas=2  # mistaken\n")
    (tmp_path / "req.txt").write_text("numpy \\\n  >=1\n-r base.txt\n")
    with pytest.raises(UserErrorException) as caught:
        Environment.from_pip_requirements("n", str(tmp_path / "req.txt"))
    where = f"{tmp_path}/base.txt, line 4: 'pandas=2  # mistaken'"
    assert caught.value.message == f"{where} is not a pip requirement: pip compares versions with '=='."


def test_a_line_of_many_blanks_is_answered_at_once() -> None:
    assert requirements.problem_of("six==1.16.0" + " " * 100_000 + "!") == "is not a pip requirement."


def test_a_file_with_hashes_as_pip_compile_and_poetry_write_it(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("scipy\n")
    (tmp_path / "req.txt").write_text(
        "-rbase.txt\n"
        "six==1.16.0 \\\n    --hash=sha256:abc \\\n    --hash=sha256:def\n    # via -r requirements.in\n"
        'tiny==1 ; python_version >= "3.8" \\\n\t--hash=sha256:abc\n'
    )
    assert requirements.read(str(tmp_path / "req.txt")) == [
        "scipy",
        "six==1.16.0 --hash=sha256:abc --hash=sha256:def",
        'tiny==1 ; python_version >= "3.8" --hash=sha256:abc',
    ]


def test_files_that_include_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-r b.txt\n")
    (tmp_path / "b.txt").write_text("-r a.txt\n")
    with pytest.raises(UserErrorException, match="include each other"):
        requirements.read(str(tmp_path / "a.txt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\npackages: [a]\n",
         "Environment error: unknown packages key in environment specification ({path}, line 2: 'packages: [a]')"),
        ("dependencies:\n- python=3.8\n- pip:\n  - numpy=1.2\n",
         "{path}, line 4: '- numpy=1.2' is not a pip requirement: pip compares versions with '=='."),
        ("dependencies:\n  # ours\n  - git+https://example.org/x.git\n",
         "{path}, line 3: '- git+https://example.org/x.git' is not the name of a conda package."),
        ("dependencies: numpy\n",
         "Environment error: dependencies must be a list, not 'numpy' ({path}, line 1: 'dependencies: numpy')"),
        ("channels: x\n", "Environment error: channels must be a list, not 'x' ({path}, line 1: 'channels: x')"),
        ("channels:\n- 5\n", "Environment error: 5 is not the name of a channel ({path}, line 2: '- 5')"),
        ("dependencies:\n- 1.5\n", "Environment error: 1.5 is not the name of a package ({path}, line 2: '- 1.5')"),
        ("dependencies:\n- conda: [b]\n",
         "Environment error: {{'conda': ['b']}} is not the name of a package ({path}, line 2: '- conda: [b]')"),
        ("dependencies:\n- a\n   - b: c\n", "{path}, line 3: a map inside a scalar; quote the value, or is a "
         "colon missing? (in '- b: c')"),
        ("dependencies:\n- python=3.11\n  - six\n", "{path}, line 3: indented more than the line before; is it too far "
         "in, or is a colon missing there? (in '- six')"),
        ("dependencies:\n- pip\n  - six\n", "{path}, line 3: indented more than the line before; is it too far in, "
         "or is a colon missing there? (in '- six')"),
        ("dependencies:\n- pip:\n  - six\n\n    numpy\n", "{path}, line 5: indented more than the line before; is it "
         "too far in, or is a colon missing there? (in 'numpy')"),
        ("dependencies:\n- bad name!\n", "{path}, line 2: '- bad name!' is not the name of a conda package."),
        ("dependencies:\n- foo=>1\n", "{path}, line 2: '- foo=>1' is not the name of a conda package."),
        ("dependencies:\n- python=3.11 - six\n",
         "{path}, line 2: '- python=3.11 - six' is not the name of a conda package."),
        ("dependencies:\n- python=abc\n", "{path}, line 2: '- python=abc' is not a version of Python."),
        ("dependencies:\n- python=3.8\n- six\n- python=3.8\n",
         "{path}, line 4: '- python=3.8' names Python a second time."),
        ("name: six\ndependencies:\n- six: 1.0\n",
         "Environment error: {{'six': 1.0}} is not the name of a package ({path}, line 3: '- six: 1.0')"),
        ("dependencies:\n- pip: six\n",
         "Environment error: {{'pip': 'six'}} is not the name of a package ({path}, line 2: '- pip: six')"),
        ("dependencies:\n- six\n-\n", "Environment error: an item is empty where the name of a package belongs "
         "({path}, line 3: '-')"),
        ("dependencies:\n- pip:\n  - six\n  -\n", "Environment error: an item is empty where the name of a package "
         "belongs ({path}, line 4: '-')"),
        ("# six=1\nname: six=1\ndependencies:\n- six=1\n- pip:\n  - six=1\n",
         "{path}, line 6: '- six=1' is not a pip requirement: pip compares versions with '=='."),
        ("dependencies: [\n  a, b,\n  c=>1]\n", "{path}, line 3: 'c=>1]' is not the name of a conda package."),
        ("dependencies: [a,\n  {pip: [b,\n    c=1]}]\n",
         "{path}, line 3: 'c=1]}}]' is not a pip requirement: pip compares versions with '=='."),
        ("", "Environment error: not a valid YAML structure ({path}, which is empty)"),
        ("# ours\n- numpy\n", "Environment error: not a valid YAML structure ({path}, line 2: '- numpy')"),
        ("numpy\n", "Environment error: not a valid YAML structure ({path}, line 1: 'numpy')"),
        ("dependencies:\n- pip:\n  - -f ./wheels\n", "{path}, line 3: '- -f ./wheels' names a folder of this computer, "
         "which is not sent; name the wheels in it, each by its path."),
        ("channels:\n- ../channel\n",
         "{path}, line 2: '- ../channel' is a relative path, which the target does not know."),
        ("dependencies:\n\t- a\n", "{path}, line 2: a tab as indentation; use spaces (in '- a')"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_conda_file_has_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "env.yml"
    path.write_text(text)
    with pytest.raises(UserErrorException) as caught:
        CondaDependencies(str(path))
    assert caught.value.message == message.format(path=path)


def test_a_folder_as_channel_is_told_in_full(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "env.yml").write_text("channels: [../my channel]\n")
    with pytest.raises(UserErrorException) as caught:
        CondaDependencies(str(tmp_path / "project" / "env.yml"))
    assert caught.value.hint == f"It is file://{tmp_path}/my%20channel"


def test_a_conda_file_may_take_in_a_requirements_file(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\n--index-url https://example.org\n")
    (tmp_path / "env.yml").write_text("dependencies:\n- pip:\n  - -r requirements.txt\n  - scipy\n")
    packages = CondaDependencies(str(tmp_path / "env.yml"))
    assert list(packages.pip_packages) == ["numpy", "scipy"]
    assert list(packages.pip_options) == ["--index-url https://example.org"]


def test_ten_thousand_packages_are_read(tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text(
        "dependencies:\n- pip:\n" + "".join(f"  - package-{i}==1.0\n" for i in range(10_000))
    )
    assert len(list(CondaDependencies(str(tmp_path / "env.yml")).pip_packages)) == 10_000


def test_the_file_of_the_seeds_is_found_however_it_is_capitalised(tmp_path: Path) -> None:
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "Conda_dependencies.yml").write_text("dependencies:\n- pip: [numpy]\n")
    wanted = str(tmp_path / "conda_dependencies.yml")
    assert find_conda_file(wanted) == str(tmp_path / "aml_config" / "Conda_dependencies.yml")
    inside = str(tmp_path / "aml_config" / "conda_dependencies.yml")
    assert list(CondaDependencies(inside).pip_packages) == ["numpy"]
    (tmp_path / "aml_config" / "conda_dependencies.yml").write_text("dependencies:\n- pip: [scipy]\n")
    assert list(CondaDependencies(inside).pip_packages) == ["scipy"]  # the exact one comes first
    assert find_conda_file(str(tmp_path / "other.yml")) == str(tmp_path / "other.yml")


def test_variables_of_a_conda_file(tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text("variables: {A: 1, B: x}\ndependencies:\n- pip: [numpy]\n")
    environment = Environment.from_conda_specification("e", str(tmp_path / "env.yml"))
    environment.environment_variables = {"B": "mine"}
    assert environment_spec(environment, "local").variables == {"A": "1", "B": "mine"}
