"""What the lines of an environment mean."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.runner import packages
from windlass.runner.workshop import masked


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        ("numpy", "numpy"),
        ("Scikit-Learn>=1.0", "scikit-learn"),
        ("conda-forge::numpy=1.2", "numpy"),
        ("a[b]; python_version < '3'", "a"),
        ("_libgcc_mutex=0.1", "_libgcc_mutex"),
        ("", ""),
    ],
)
def test_the_name_of_a_wish(wish: str, name: str) -> None:
    assert packages.name_of(wish) == name


@pytest.mark.parametrize(
    ("wish", "is_ours"),
    [
        ("azureml-core", True),
        ("azureml", True),
        ("AzureML_Core==1.0", True),
        ("azureml.core", True),
        ("azuremlish", False),
        ("azure-storage", False),
    ],
)
def test_what_the_sdk_is(wish: str, is_ours: bool) -> None:
    assert packages.is_sdk(wish) is is_ours


@pytest.mark.parametrize(
    ("spec", "wishes"),
    [
        ({"conda": ["python=3.8", "pip", "setuptools<60", "wheel"]}, []),
        ({"conda": ["azureml-defaults", "pip"]}, []),
        ({}, []),
        ({"conda": ["numpy"], "python_version": "3.8"}, ["python=3.8", "numpy"]),
        ({"conda": ["numpy"]}, ["python", "numpy"]),
        ({"conda": ["numpy", "pip=20", "python>=3.8"], "python_version": "3.8"}, ["python>=3.8", "numpy", "pip=20"]),
    ],
)
def test_what_conda_installs(spec: dict[str, Any], wishes: list[str]) -> None:
    assert packages.conda_wishes(spec) == wishes


@pytest.mark.parametrize(
    ("wishes", "wanted", "used", "limits"),
    [
        (["numpy"], "3.6.2", "3.8.18", ["numpy<1.24"]),
        (["scikit-learn"], "3.5", "3.11.7", ["numpy<1.24"]),
        (["numpy>=1.25"], "3.6", "3.11.7", []),  # chosen
        (["numpy"], "3.8", "3.11.7", []),  # not that old
        (["numpy"], None, "3.11.7", []),
        (["numpy"], "3.6", "3.12.1", []),  # which has no such numpy
    ],
)
def test_code_of_long_ago_gets_packages_of_its_time(
    wishes: list[str], wanted: str | None, used: str, limits: list[str]
) -> None:
    assert packages.constraints(wishes, wanted, used) == limits


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("https://user:secret@host/x", "https://***@host/x"),
        ("https://host/t/tk-1234/channel/noarch", "https://host/t/***/channel/noarch"),
        ("git+ssh://git@host/repo.git", "git+ssh://***@host/repo.git"),
        ("https://me:secret@host/t/tk-1/c", "https://***@host/t/***/c"),
        ("https://host/x and a@b and /tmp/t/folder", "https://host/x and a@b and /tmp/t/folder"),
    ],
)
def test_credentials_are_masked(text: str, seen: str) -> None:
    assert masked(text) == seen
