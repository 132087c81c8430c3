"""Packages in the form of a conda file."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.client.environments import conda_lines, requirements
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.client.exceptions import NotProvided, UserErrorException


def test_the_default_asks_for_no_python_of_its_own() -> None:
    packages = CondaDependencies()
    assert list(packages.pip_packages) == ["azureml-defaults"]
    assert not packages.python_is_chosen


def test_given_packages_replace_the_default() -> None:
    packages = CondaDependencies.create(
        pip_packages=["numpy==1.26.4"], conda_packages=["scikit-learn", "python=3.9"], pip_indexurl="http://example.org"
    )
    assert list(packages.pip_packages) == ["numpy==1.26.4"]
    assert list(packages.conda_packages) == ["python=3.9", "scikit-learn"]
    assert list(packages.pip_options) == [
        "--index-url http://example.org",
        "--extra-index-url https://pypi.org/simple",  # so that it need hold private packages only
    ]
    assert packages.get_python_version() == "3.9"
    assert packages.python_is_chosen


def test_one_version_of_a_package() -> None:
    packages = CondaDependencies.create(pip_packages=["torch==1.6.0", "pandas"])
    packages.add_pip_package("torch[cuda]>=2.0")
    assert list(packages.pip_packages) == ["pandas", "torch[cuda]>=2.0"]
    packages.remove_pip_package("pandas")
    packages.add_conda_package("numpy")
    packages.add_conda_package("numpy")
    packages.remove_conda_package("scipy")
    assert list(packages.pip_packages) == ["torch[cuda]>=2.0"]
    assert [p for p in packages.conda_packages if conda_lines.name_of(p) != "python"] == ["numpy"]


def test_options_and_channels() -> None:
    packages = CondaDependencies()
    packages.set_pip_option("--extra-index-url http://a")
    packages.set_pip_option("--extra-index-url http://b")
    assert list(packages.pip_options) == ["--extra-index-url http://b"]
    packages.remove_pip_option("--extra-index-url")
    assert list(packages.pip_options) == []
    packages.add_channel("pytorch")
    packages.remove_channel("anaconda")
    assert list(packages.conda_channels) == ["conda-forge", "pytorch"]


def test_packages_from_git_are_as_many_as_there_are() -> None:
    both = ["git+ssh://git@example.org/org/c.git", "git+ssh://git@example.org/org/d.git"]
    packages = CondaDependencies.create(pip_packages=both)
    packages.add_pip_package("git+https://TOKEN@example.org/e.git")
    packages.add_pip_package("git+https://TOKEN@example.org/f.git")
    packages.add_pip_package("git+https://TOKEN@example.org/f.git")
    assert list(packages.pip_packages) == [*both, *(f"git+https://TOKEN@example.org/{n}.git" for n in "ef")]
    packages.remove_pip_package(both[0])
    assert both[0] not in packages.pip_packages


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("numpy", "numpy"),
        ("Numpy==1.2", "numpy"),
        ("a[b,c]>=1", "a"),
        ("a (>=1)", "a"),
        ("a ; python_version<'3'", "a"),
        ("dist/my_pkg-1.0-py3-none-any.whl", "my_pkg"),
        ("dist/my_pkg-1.0-py3-none-any.whl[more] ; python_version > '3'", "my_pkg"),
        ("https://example.org/my_pkg-1.0-py3-none-any.whl", "my_pkg"),
        ("a @ https://example.org/a.tar.gz", "a"),
        ("a[b]@git+https://TOKEN@example.org/a.git", "a"),
        ("git+https://TOKEN@example.org/A.git", "git+https://TOKEN@example.org/A.git"),
        ("./a", "./a"),
    ],
)
def test_the_name_of_a_requirement(text: str, name: str) -> None:
    assert requirements.name_of(text) == name


@pytest.mark.parametrize(
    "line",
    [
        "numpy", "_libgcc_mutex=0.1", "numpy 1.8", "numpy =1.8", "numpy 1.8 py27_0", "numpy=1.8=py27_0", "numpy==1.8.*",
        "numpy>=1.8,<2", "numpy >=1.8, <2", "numpy>=1.8|1.6.1", "numpy (>=1.8,<2)", "numpy[version='>=1.8']",
        "blas=*=openblas", "blas * *mkl", "pytorch=1.12=*cuda*", "pytorch::torch[build=py3*]", "tzdata=2023c",
        "openssl>=1.1.1a,<1.1.2.0a0", "trinity=date.2011_11_26", "a/label/b::c~=1.2", "https://example.org/a-1-0.tar.bz2",
        "python", "python=3", "python=3.8", "python 3.8", "python==3.8.5", "python=3.8.*", "python=3.8.5=h757_1",
        "python>=3.8,<3.11", "python !=3.11", "python~=3.9", "python=3.13.0rc1", "conda-forge::python<3.11.0a0",
    ],
)  # fmt: skip
def test_what_conda_can_read(line: str) -> None:
    conda_lines.check(line, "it")


@pytest.mark.parametrize(
    "line",
    [
        "bad name!", "bad name", "foo=>1", "foo=", "foo>=1 <2", "foo=1 - bar", "foo - bar", "-foo", "foo:", "foo=1, ",
        "git+https://example.org/x.git", "./a-1.0-py3-none-any.whl", "a" * 5000 + "!", "a=1" + " " * 5000 + "!",
        "python=abc", "python=>3.8", "python>3.8,abc", "python=3.8|3.9", "python[version='3.8']",
    ],
)  # fmt: skip
def test_what_conda_cannot_read(line: str) -> None:
    with pytest.raises(UserErrorException, match="Message: it is not ") as caught:
        conda_lines.check(line, "it")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("python", None),
        ("python=3", None),
        ("python=3.*", None),
        ("python=2", "2"),
        ("python=3.8", "3.8"),
        ("conda-forge::python 3.8.5 h757_1", "3.8.5"),
        ("python==3.8.*", "3.8"),
        ("python=3.13.0rc1", "3.13.0"),
        ("python<3.10", "<3.10"),
        ("python >= 3.8, < 3.10", ">=3.8,<3.10"),
        ("python!=3.11", "!=3.11"),
        ("python~=3.9", "~=3.9"),
    ],
)
def test_what_is_said_of_python(line: str, version: str | None) -> None:
    packages = CondaDependencies(_underlying_structure={"dependencies": [line]})
    assert (packages.get_python_version(), packages.python_is_chosen) == (version, version is not None)
    added = CondaDependencies()
    added.add_conda_package(line)
    assert len(list(added.conda_packages)) == 1
    assert added.python_is_chosen is (version is not None)


def test_a_python_in_a_range_is_asked_for() -> None:
    packages = CondaDependencies.create(python_version=">=3.8,<3.10")
    assert list(packages.conda_packages) == ["python>=3.8,<3.10"]
    assert packages.get_python_version() == ">=3.8,<3.10"


def test_several_lists_of_pip_are_one(tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text("dependencies:\n- pip: [a]\n- numpy\n- pip:\n- pip:\n  - b\n  - --pre\n")
    packages = CondaDependencies(str(tmp_path / "env.yml"))
    assert (list(packages.pip_packages), list(packages.pip_options)) == (["a", "b"], ["--pre"])
    assert packages.as_dict() == {"dependencies": [{"pip": ["a", "b", "--pre"]}, "numpy"]}


def test_a_file_there_and_back(tmp_path: Path) -> None:
    path = str(tmp_path / "env.yml")
    made = CondaDependencies.create(pip_packages=["numpy"], conda_packages=["pip=20.2.4"], python_version="3.8")
    assert made.save(path) == path
    read = CondaDependencies(path)
    assert read.as_dict() == made.as_dict()
    assert read.serialize_to_string() == Path(path).read_text()
    assert read.python_is_chosen


def test_save_to_file_makes_the_folder(tmp_path: Path) -> None:
    assert CondaDependencies().save_to_file(str(tmp_path), ".azureml/conda.yml") == ".azureml/conda.yml"
    assert (tmp_path / ".azureml" / "conda.yml").is_file()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n- b\n", "not a valid YAML structure"),
        ("name: x\npackages: [a]\n", "unknown packages key in environment specification"),
        ("dependencies: [1.5]\n", "1.5 is not the name of a package"),
        ("dependencies:\n- pip: [[a]]\n", "is not the name of a package"),
    ],
)
def test_files_that_are_not_conda_files(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "env.yml").write_text(text)
    with pytest.raises(UserErrorException, match=problem):
        CondaDependencies(str(tmp_path / "env.yml"))


def test_a_map_in_place_of_a_package_is_explained(tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text("dependencies:\n- six: 1.0\n")
    with pytest.raises(UserErrorException) as caught:
        CondaDependencies(str(tmp_path / "env.yml"))
    assert caught.value.hint.endswith("A version is written like name=1.2.")


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="There is no conda file"):
        CondaDependencies(str(tmp_path / "nothing.yml"))
    with pytest.raises(UserErrorException, match="python must not be removed"):
        CondaDependencies().remove_conda_package("python=3.8")
    with pytest.raises(UserErrorException, match="Invalid package name --x"):
        CondaDependencies().add_pip_package("--x")
    with pytest.raises(UserErrorException, match="Invalid core type"):
        CondaDependencies().add_tensorflow_pip_package("tpu")
    with pytest.raises(UserErrorException, match="needs a name"):
        CondaDependencies().save(str(tmp_path))


def test_all_ways_to_look_say_the_same_of_python() -> None:
    for packages, names in (
        (CondaDependencies(), []),
        (CondaDependencies.create(python_version="3.9"), ["python=3.9"]),
    ):
        assert list(packages.conda_packages) == names
        assert [item for item in packages.as_dict()["dependencies"] if isinstance(item, str)] == names
        assert ("python" in packages.serialize_to_string()) == bool(names)
        assert packages.get_python_version() == ("3.9" if names else None)


def test_requirements_are_merged() -> None:
    lines = ["numpy>=1.20", "scipy", "numpy<2, !=1.25", "scipy", "a[x]==1", "b ; python_version<'3'", "numpy>=1.20"]
    merged = ["numpy>=1.20,<2,!=1.25", "scipy", "a[x]==1", "b ; python_version<'3'"]
    assert CondaDependencies.merge_requirements(lines) == merged
    wheels = ["https://example.org/x-1-py3-none-any.whl", "./y.whl", "-e ."]
    assert CondaDependencies.merge_requirements(wheels) == wheels


def test_lesser_names_of_the_original() -> None:
    assert CondaDependencies.sdk_origin_url() == "https://pypi.org/simple"
    assert CondaDependencies().get_default_number_of_packages() == (0, 1)
    with pytest.raises(NotProvided, match="CNTK"):
        CondaDependencies().add_cntk_package()
