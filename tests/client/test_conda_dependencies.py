"""Packages in the form of a conda file."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.client.conda_dependencies import CondaDependencies, package_name
from windlass.client.exceptions import UserErrorException


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
    assert list(packages.pip_options) == ["--index-url http://example.org"]
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
    assert [p for p in packages.conda_packages if package_name(p) != "python"] == ["numpy"]


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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("numpy", "numpy"),
        ("Numpy==1.2", "numpy"),
        ("a[b,c]>=1", "a"),
        ("a ; python_version<'3'", "a"),
        ("conda-forge::scipy=1", "scipy"),
        ("dist/my_pkg-1.0-py3-none-any.whl", "my_pkg"),
        ("a @ https://example.org/a.tar.gz", "a"),
    ],
)
def test_the_name_of_a_requirement(text: str, name: str) -> None:
    assert package_name(text) == name


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
