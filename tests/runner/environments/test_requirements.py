"""What the lines of an environment mean."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.runner.environments import interpreters, requirements
from windlass.runner.environments.build_context import error_lines, masked


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("numpy", "numpy"),
        ("Scikit-Learn>=1.0", "scikit-learn"),
        ("conda-forge::numpy=1.2", "numpy"),
        ("a[b]; python_version < '3'", "a"),
        ("_libgcc_mutex=0.1", "_libgcc_mutex"),
        ("", ""),
    ],
)
def test_the_package_name_in_a_line(line: str, name: str) -> None:
    assert requirements.name_of(line) == name


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        ("azureml-core", True),
        ("azureml", True),
        ("AzureML_Core==1.0", True),
        ("azureml.core", True),
        ("azureml-train-automl-client[x]~=1.0", True),
        ("azureml-contrib-whatever", True),
        ("mltable", True),
        ("azuremlish", False),
        ("azureml_custom_mine==1", False),
        ("azureml-trainer", False),
        (f"wheel:{'0' * 64}/1/azureml_core-1.0-py3-none-any.whl", False),
        ("azure-storage", False),
    ],
)
def test_what_the_sdk_is(line: str, is_ours: bool) -> None:
    assert requirements.is_sdk(line) is is_ours


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"conda": ["python=3.8", "pip", "setuptools<60", "wheel"]}, []),
        ({"conda": ["azureml-defaults", "pip"]}, []),
        ({}, []),
        ({"conda": ["numpy"], "python_version": "3.8"}, ["python=3.8", "numpy"]),
        ({"conda": ["numpy"]}, ["python", "numpy"]),
        ({"conda": ["numpy"], "python_version": ">=3.8,<3.10"}, ["python>=3.8,<3.10", "numpy"]),
        ({"conda": ["numpy", "pip=20", "python>=3.8"], "python_version": "3.8"}, ["python>=3.8", "numpy", "pip=20"]),
    ],
)
def test_what_conda_installs(spec: dict[str, Any], lines: list[str]) -> None:
    assert requirements.conda_requirements(spec) == lines


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, None),
        ({"conda": ["python"]}, None),
        ({"python_version": "3.10"}, "3.10"),
        ({"python_version": ">=3.8,<3.10", "conda": ["python=3.6"]}, ">=3.8,<3.10"),
        ({"conda": ["pip", "python=3.8"]}, "3.8"),
        ({"conda": ["python==3.8.1"]}, "3.8.1"),
        ({"conda": ["conda-forge::python 3.8.*"]}, "3.8"),
        ({"conda": ["python=3.8.1=h12_0"]}, "3.8.1"),
        ({"conda": ["python >=3.8, <3.10"]}, ">=3.8, <3.10"),
        ({"conda": ["python!=3.11"]}, "!=3.11"),
    ],
)
def test_what_is_asked_of_python(spec: dict[str, Any], wanted: str | None) -> None:
    assert requirements.wanted_python(spec) == wanted


@pytest.mark.parametrize(
    ("spec", "lines", "in_an_image"),
    [
        ({"conda": ["pip", "setuptools=58"], "pip": ["six"]}, ["pip", "setuptools==58.*", "six"], [1, 2]),
        ({"conda": ["pip==20.1", "wheel 0.40.*"]}, ["pip==20.1", "wheel==0.40.*"], [0, 1]),
        ({"conda": ["conda-forge::setuptools>=58,<60"]}, ["setuptools>=58,<60"], [0]),
        ({"conda": ["pip", "python=3.8"]}, ["pip"], []),
        ({"conda": ["setuptools=58"], "pip": ["setuptools==60"]}, ["setuptools==60"], [0]),  # as pip would do it
        ({"conda": ["pip=20", "numpy"], "pip": ["six"]}, ["six"], [0]),  # conda does the others
        ({"conda": ["wheel"], "pip": [f"wheel:{'0' * 64}/1/a-1.whl"]}, ["wheel", f"wheel:{'0' * 64}/1/a-1.whl"], [1]),
    ],
)
def test_what_pip_installs(spec: dict[str, Any], lines: list[str], in_an_image: list[int]) -> None:
    assert requirements.pip_requirements(spec) == lines
    assert requirements.image_requirements(spec) == [lines[at] for at in in_an_image]


@pytest.mark.parametrize(
    ("wanted", "fitting", "others"),
    [
        ("3.11", ["3.11.0", "3.11.7"], ["3.1.1", "3.10.13", "3.12.1"]),
        ("3.11.2", ["3.11.2"], ["3.11.7", "3.11.20"]),
        ("3", ["3.8.18"], ["2.7.18"]),
        ("<3.10", ["3.9.18"], ["3.10.0", "3.10.13"]),
        ("<=3.10", ["3.10.13"], ["3.11.0"]),
        (">3.8", ["3.9.0"], ["3.8.18"]),
        (">3", ["3.1.0"], ["2.7.18"]),
        (">3.8.5", ["3.8.18"], ["3.8.5"]),
        ("!=3.11", ["3.10.1", "3.12.1"], ["3.11.7"]),
        ("!=3.11.*", ["3.12.1"], ["3.11.7"]),
        ("~=3.9", ["3.9.0", "3.12.1"], ["3.8.18", "4.0.0"]),
        ("~=3.9.2", ["3.9.18"], ["3.9.1", "3.10.0"]),
        (">=3.8, <3.10", ["3.8.0", "3.9.18"], ["3.7.9", "3.10.1"]),
        (">=3", ["3.8.18"], ["2.7.18"]),
        ("==3.10.*,!=3.10.4", ["3.10.3"], ["3.10.4", "3.11.0"]),
    ],
)
def test_which_python_fits(wanted: str, fitting: list[str], others: list[str]) -> None:
    assert [version for version in (*fitting, *others) if interpreters.fits(version, wanted)] == fitting


@pytest.mark.parametrize("wanted", ["3.8|3.9", "x", ">=", "", ">=3.8,", "=>3.8"])
def test_what_compares_nothing_is_refused(wanted: str) -> None:
    with pytest.raises(ValueError, match="is not understood"):
        interpreters.fits("3.8.18", wanted)


UV_SAYS = """Using Python 3.11.7 environment at: /tmp/environments/0123
Resolved 3 packages in 213ms
   Building bad @ file:///tmp/bad-1.0.tar.gz
Downloading numpy (15.8MiB)
 Downloaded numpy
"""


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (f"{UV_SAYS}error: Failed to fetch: x\n  cause: dns error\n", "error: Failed to fetch: x\ncause: dns error"),
        (f"{UV_SAYS}  × No solution found:\n  ╰─▶ Because\n\n", "× No solution found:\n╰─▶ Because"),
        ("Collecting six\nERROR: No matching distribution\n", "ERROR: No matching distribution"),
        (
            "Collecting: done\nLibMambaUnsatisfiableError: Encountered\n  - x\n",
            "LibMambaUnsatisfiableError: Encountered\n- x",
        ),
        ("it stumbled\nand fell\n", "it stumbled\nand fell"),
        ("Building wheels is hard\n", "Building wheels is hard"),
        (UV_SAYS, ""),
        ("", ""),
    ],
)
def test_the_lines_that_explain_a_failure(output: str, error: str) -> None:
    assert error_lines(output) == error


def test_of_much_that_tells_why_the_beginning_and_the_end() -> None:
    lines = ["error: Failed to build `bad`", "cause: The build backend returned an error", *map(str, range(100))]
    told = error_lines("\n".join(lines)).splitlines()
    assert told == [*lines[:3], "…", *lines[-9:]]
    long = error_lines(f"error: {'a' * 5000}z")
    assert len(long) < 2100 and long.startswith("error: aaa") and long.endswith("az")


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
