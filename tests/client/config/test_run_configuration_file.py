"""Files written beside a run configuration overwrite no files of other configurations or of users."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.client.config.run_configuration import RunConfiguration
from windlass.client.environments.conda_dependencies import CondaDependencies


def with_packages(*packages: str) -> RunConfiguration:
    return RunConfiguration(conda_dependencies=CondaDependencies.create(pip_packages=list(packages)))


def packages_of(project: Path, name: str) -> list[str]:
    found = RunConfiguration.load(str(project), name).environment.python.conda_dependencies
    assert found is not None
    return list(found.pip_packages)


def test_two_configurations_have_their_own_packages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_packages("numpy").save(str(tmp_path), "a")
    assert capsys.readouterr().err == ""
    with_packages("pandas").save(str(tmp_path), "b")
    assert "What b needs is in b_conda_dependencies.yml" in capsys.readouterr().err
    assert (packages_of(tmp_path, "a"), packages_of(tmp_path, "b")) == (["numpy"], ["pandas"])
    with_packages("scipy").save(str(tmp_path), "a")
    with_packages("scikit-learn").save(str(tmp_path), "b")
    assert (packages_of(tmp_path, "a"), packages_of(tmp_path, "b")) == (["scipy"], ["scikit-learn"])
    names = ["a", "b", "b_conda_dependencies.yml", "conda_dependencies.yml"]
    assert sorted(file.name for file in (tmp_path / ".azureml").iterdir()) == names


def test_a_file_that_two_share_is_changed_for_neither(tmp_path: Path) -> None:
    with_packages("numpy").save(str(tmp_path), "a")
    with_packages("numpy").save(str(tmp_path), "b.2")
    found = RunConfiguration.load(str(tmp_path), "a")
    assert found.environment.python.conda_dependencies is not None
    found.environment.python.conda_dependencies.add_pip_package("scipy")
    found.save()
    assert (packages_of(tmp_path, "a"), packages_of(tmp_path, "b.2")) == (["numpy", "scipy"], ["numpy"])


def test_a_file_that_somebody_wrote_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "aml_config"
    folder.mkdir()
    text = "# ours, with care\ndependencies:\n- pip: [numpy]  # the fast one\n"
    for name in ("conda_dependencies.yml", "mine_conda_dependencies.yml"):
        (folder / name).write_text(text)
    with_packages("pandas").save(str(tmp_path), "mine")
    assert packages_of(tmp_path, "mine") == ["pandas"]
    assert (folder / "mine_conda_dependencies_2.yml").is_file()
    for name in ("conda_dependencies.yml", "mine_conda_dependencies.yml"):
        assert (folder / name).read_text() == text


def test_a_file_with_the_same_packages_keeps_its_comments(tmp_path: Path) -> None:
    folder = tmp_path / ".azureml"
    folder.mkdir()
    text = "# ours, with care\ndependencies:\n- pip: [numpy]\n"
    (folder / "conda_dependencies.yml").write_text(text)
    (folder / "mine.runconfig").write_text(
        "environment: {python: {condaDependenciesFile: .azureml/conda_dependencies.yml}}\n"
    )
    RunConfiguration.load(str(tmp_path), "mine").save()
    assert (folder / "conda_dependencies.yml").read_text() == text


def test_a_file_that_is_named_and_was_not_read_is_not_overwritten_by_the_default(tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text("dependencies:\n- pip: [numpy]\n")
    configuration = RunConfiguration()
    configuration.environment.python.conda_dependencies_file = "own.yml"
    configuration.save(str(tmp_path), "mine")
    assert packages_of(tmp_path, "mine") == ["numpy"]


def test_two_environments_in_files_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        configuration = with_packages(name)
        configuration.environment.environment_variables = {"NAME": name}
        configuration.save(str(tmp_path), name, separate_environment_yaml=True)
    for name in ("a", "b"):
        assert RunConfiguration.load(str(tmp_path), name).environment.environment_variables == {"NAME": name}
        assert packages_of(tmp_path, name) == [name]
    configuration.environment.python.conda_dependencies = CondaDependencies.create(pip_packages=["c"])
    configuration.save(str(tmp_path), "b", separate_environment_yaml=True)
    assert (packages_of(tmp_path, "a"), packages_of(tmp_path, "b")) == (["a"], ["c"])
    assert len(list((tmp_path / ".azureml").iterdir())) == 6


def test_beside_a_file_that_is_named_by_its_path_only_run_configurations_count(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("# conda_dependencies.yml\n")
    for packages in ("numpy", "pandas"):
        with_packages(packages).save(str(tmp_path / "my.runconfig"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["conda_dependencies.yml", "my.runconfig", "train.py"]
