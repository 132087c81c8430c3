"""Curated environments: Azure's names, Windlass' definitions."""

from __future__ import annotations

import pytest

from windlass.client.environments import curated
from windlass.core.errors import NotFound


def packages(name: str) -> list[str]:
    found = curated.find(name).python.conda_dependencies
    assert found is not None
    return list(found.pip_packages)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("AzureML-Minimal", "azureml-defaults"),
        ("AzureML-Tutorial", "numpy"),
        ("AzureML-sklearn-1.5", "scikit-learn>=1.5"),
        ("azureml-sklearn-1.5", "scikit-learn>=1.5"),
        ("AzureML-sklearn-0.24-ubuntu18.04-py37-cpu", "scikit-learn>=0.24"),
        ("AzureML-PyTorch-1.6-CPU", "torch>=1.6"),
        ("AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu", "torch>=1.13"),
        ("AzureML-TensorFlow-2.3-GPU", "tensorflow>=2.3"),
        ("azureml-tensorflow-2.11-cuda11", "tensorflow>=2.11"),
        ("AzureML-lightgbm-3.2-ubuntu18.04-py37-cpu", "lightgbm>=3.2"),
        ("AzureML-AutoML", "numpy"),
    ],
)
def test_names_that_public_code_has(name: str, first: str) -> None:
    assert packages(name)[0] == first
    assert curated.find(name).name == name


def test_a_python_in_the_name_is_asked_for() -> None:
    found = curated.find("AzureML-sklearn-0.24-ubuntu18.04-py37-cpu").python.conda_dependencies
    assert found is not None and found.get_python_version() == "3.7"
    plain = curated.find("AzureML-Minimal").python.conda_dependencies
    assert plain is not None and not plain.python_is_chosen


def test_all_that_are_listed_are_there() -> None:
    assert list(curated.list_all()) == list(curated.NAMES)
    assert all(curated.is_curated(name) for name in curated.NAMES)
    assert not curated.is_curated("my-AzureML-x")


def test_an_unknown_one_is_told_what_is_like_it() -> None:
    with pytest.raises(NotFound) as caught:
        curated.find("AzureML-Tutorail")
    assert "AzureML-Tutorial" in caught.value.hint
    with pytest.raises(NotFound) as caught:
        curated.find("AzureML-#")
    assert "There is AzureML-Minimal" in caught.value.hint
