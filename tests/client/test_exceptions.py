"""Azure's errors: their names, their texts, and their place in our tree."""

from __future__ import annotations

import pytest

from windlass.client import exceptions
from windlass.client.exceptions import ActivityFailedException, ComputeTargetException, NotProvided, UserErrorException
from windlass.core.errors import InvalidRequest, SpecNotSupported, WindlassError

NAMES = [
    "UserErrorException",
    "ExperimentExecutionException",
    "RunEnvironmentException",
    "SnapshotException",
    "ComputeTargetException",
    "RunConfigurationException",
]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_all_ours_and_azures(name: str) -> None:
    error = getattr(exceptions, name)("what happened")
    assert isinstance(error, WindlassError)
    assert isinstance(error, exceptions.AzureMLException)
    assert error.message == "what happened"


def test_a_users_mistake_is_an_invalid_request_in_one_line() -> None:
    error = UserErrorException("what happened")
    assert isinstance(error, InvalidRequest)
    assert (str(error), error.code) == ("what happened", "invalid_request")


def test_the_text_of_a_compute_target_exception() -> None:
    error = ComputeTargetException("ComputeTargetNotFound: Compute Target with name x not found in provided workspace")
    assert str(error).splitlines()[:4] == [
        "ComputeTargetException:",
        "\tMessage: ComputeTargetNotFound: Compute Target with name x not found in provided workspace",
        "\tInnerException None",
        "\tErrorResponse ",
    ]


def test_the_text_of_a_failed_run() -> None:
    error = ActivityFailedException('{\n    "error": {}\n}')
    assert error.message == 'Activity Failed:\n{\n    "error": {}\n}'
    assert "\tMessage: Activity Failed:\n{" in str(error)


def test_what_is_not_provided_is_told_apart() -> None:
    error = NotProvided("X", "Use Y.")
    assert isinstance(error, SpecNotSupported)
    assert (error.code, str(error)) == ("not_supported", "X is not provided in this version.\nUse Y.")
