"""The rules by which environments of past years are built with what exists today."""

from __future__ import annotations

import pytest

from windlass.runner.environments import era, interpreters
from windlass.runner.environments.era import Attempt, Release

LOCK_FILE = """lock-version = "1.0"
created-by = "uv"

[[packages]]
name = "scikit-learn"
version = "0.22.1"
wheels = [
    { url = "https://x/scikit_learn-0.22.1-cp38.whl", upload-time = 2020-01-02T17:40:02Z, hashes = { sha256 = "0" } },
    { url = "https://x/scikit_learn-0.22.1-cp37.whl", upload-time = 2020-01-03T00:00:00Z, hashes = { sha256 = "1" } },
]

[[packages]]
name = "own"
version = "1.0"
wheels = [{ url = "https://x/own-1.0.whl", hashes = { sha256 = "2" } }]
"""


@pytest.mark.parametrize(
    ("wanted", "is_replaced"),
    [("3.5.2", True), ("2.7", True), ("3.8", True), ("3.11.4", True), ("3.12", False), ("3", False), (">=3.6", False)],
)
def test_which_pythons_give_way(wanted: str, is_replaced: bool) -> None:
    assert era.may_be_replaced(wanted) is is_replaced


@pytest.mark.parametrize(
    ("used", "wanted", "is_met", "strictly"),
    [
        ("3.6.15", "3.6.2", False, False),  # for which there is no SDK
        ("3.6.15", "3.6", False, True),
        ("3.8.18", "3.6.2", True, False),
        ("3.8.18", "3.8", True, True),
        ("3.8.18", "3.8.10", True, False),
        ("3.11.7", "3.8", True, False),
        ("3.8.18", "3.9", False, False),  # never an older one
        ("3.13.0", "3.12", False, False),  # not of past years
        ("3.12.1", "3.12.4", True, False),
        ("3.9.1", ">=3.8,<3.10", True, True),
    ],
)
def test_which_python_is_used_for_which(used: str, wanted: str, is_met: bool, strictly: bool) -> None:
    assert interpreters.is_acceptable(used, wanted) is is_met
    assert interpreters.is_acceptable(used, wanted, is_strict=True) is strictly


@pytest.mark.parametrize(
    ("line", "name", "floor"),
    [
        ("numpy==1.16.*", "numpy", "1.16"),
        ("Scikit_Learn[a, b] == 0.22.1 ; python_version < '3.9'", "scikit-learn", "0.22.1"),
        ("numpy (==1.16.4)", "numpy", "1.16.4"),
        ("numpy>=1.9, <1.17  # for np.float", "numpy", "1.17"),
        ("tensorflow~=1.15", "tensorflow", "1.15"),
        ("tensorflow < 2", "tensorflow", "2"),
        ("torch==1.6.0+cpu", "torch", "1.6.0"),
        ("numpy>=1.10.2,!=1.99,<=1.9.3", "numpy", "1.10.2"),
    ],
)
def test_pins_and_the_highest_version_that_they_name(line: str, name: str, floor: str) -> None:
    pin = era.requirement_of(line)
    assert pin is not None and (pin.name, pin.is_pin, pin.floor) == (name, True, floor)


@pytest.mark.parametrize("line", ["six", "six>=1.0", "six>1", "six!=1.1", "six ; python_version < '3.9'"])
def test_what_has_no_ceiling_is_no_pin(line: str) -> None:
    found = era.requirement_of(line)
    assert found is not None and not found.is_pin


@pytest.mark.parametrize(
    "line",
    [
        "six==1.0 --hash=sha256:00",
        "six==1.0 ; python_version < '4' --hash=sha256:00",
        "six @ https://x/six==1.whl",
        "https://x/six-1.0-py3-none-any.whl",
        f"wheel:{'0' * 64}/1/six-1.0-py3-none-any.whl",
        "./six-1.0.whl",
        "-e .",
        "six=1.0",
        "",
    ],
)
def test_what_names_certain_bytes_is_never_replaced(line: str) -> None:
    assert era.requirement_of(line) is None


def test_a_replaced_line_keeps_its_extras_and_its_marker() -> None:
    pin = era.requirement_of("dask[array, bag]==1.0 ; python_version > '3'")
    assert pin is not None
    assert pin.with_version("2.1", "==") == "dask[array,bag]==2.1 ; python_version > '3'"
    assert era.replaced_pin(pin, "2.1", "3.11.7") == {"dask": "dask[array,bag]==1.0 → 2.1 (no wheel for Python 3.11)"}


@pytest.mark.parametrize(
    ("wish", "floor"),
    [
        ("numpy", ""),
        ("numpy>=1.16", ""),
        ("numpy=1.16", "1.16"),
        ("numpy==1.16.4", "1.16.4"),
        ("numpy 1.16.*", "1.16"),
        ("conda-forge::scikit-learn=0.22.1=py37_0", "0.22.1"),
        ("numpy >=1.9,<1.17", "1.17"),
    ],
)
def test_pins_of_conda(wish: str, floor: str) -> None:
    assert era.conda_floor(wish) == floor


@pytest.mark.parametrize(
    ("wishes", "used", "limits"),
    [
        (["numpy"], "3.8.18", ["numpy<1.24"]),
        (["scikit-learn"], "3.11.7", ["numpy<1.24"]),
        (["numpy>=1.25"], "3.11.7", []),  # chosen
        (["numpy"], "3.12.1", []),  # which has no such numpy
    ],
)
def test_code_of_past_years_gets_a_numpy_that_it_knows(wishes: list[str], used: str, limits: list[str]) -> None:
    named = [wish for wish in map(era.requirement_of, wishes) if wish is not None]
    assert era.constraints(named, used) == limits


@pytest.mark.parametrize(
    ("wanted", "used", "pins", "day"),
    [
        ("3.5.2", "3.8.18", [], "2020-01-22"),  # when 3.8 had packages
        ("3.7", "3.8.18", [], "2020-06-27"),  # the last release of 3.7 that was not for security
        ("2.7", "3.8.18", [], "2020-01-22"),
        (None, "3.8.18", ["2020-05-06", ""], "2020-05-06"),
        ("3.6.2", "3.8.18", ["2020-05-06", "2019-01-01"], "2020-05-06"),
        ("3.6", "3.99.1", ["2020-05-06"], ""),  # nobody knows yet
    ],
)
def test_the_day_of_an_environment(wanted: str | None, used: str, pins: list[str], day: str) -> None:
    assert era.date_of(wanted, used, [Release("1.0", date) for date in pins]) == day


def test_what_is_tried_one_after_the_other() -> None:
    day, later = "2020-05-06", "2021-05-06"
    assert era.attempts(day, "2026-01-01", has_replaced=False) == [
        Attempt("==", day),
        Attempt("==", later),
        Attempt("==", ""),
    ]
    assert era.attempts(day, "2026-01-01", has_replaced=True) == [
        Attempt("==", day),
        Attempt("==", later),
        Attempt(">=", later),
        Attempt("==", ""),
        Attempt(">=", ""),
    ]
    assert era.attempts(day, "2020-12-24", has_replaced=False) == [Attempt("==", day), Attempt("==", "")]
    assert era.attempts("", "2026-01-01", has_replaced=True) == [Attempt("==", ""), Attempt(">=", "")]


def test_what_uv_answers() -> None:
    assert era.locked(LOCK_FILE) == {"scikit-learn": Release("0.22.1", "2020-01-03"), "own": Release("1.0", "")}
    assert era.locked("numpy==1.16.6\nown==1.0 ; python_version > '3'\n") == {
        "numpy": Release("1.16.6"),
        "own": Release("1.0"),
    }
    said = "Resolved 2 packages in 1ms\n + numpy==1.23.2\n - six==1.0\n + scikit_learn==1.1.3\n"
    assert era.installed(said) == {"numpy": "1.23.2", "scikit-learn": "1.1.3"}
