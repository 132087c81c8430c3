"""Azure's exceptions: their names, their texts, and their bases."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from windlass.client import exceptions
from windlass.client.exceptions import ActivityFailedException, NotProvided, UserErrorException
from windlass.core.errors import Denied, InvalidRequest, SpecNotSupported, WindlassError

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


def test_a_users_mistake_is_an_invalid_request() -> None:
    error = UserErrorException("what happened", "what to do")
    assert isinstance(error, InvalidRequest)
    assert (error.text, error.code) == ("what happened\nwhat to do", "invalid_request")


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("ComputeTargetException", {}),
        ("WorkspaceException", {}),
        ("UserErrorException", {"code": "UserError"}),
        ("AuthenticationException", {"code": "UserError", "inner_error": {"code": "Authentication"}}),
    ],
)
def test_the_text_has_the_lines_of_azures(name: str, codes: dict[str, Any]) -> None:
    head, response = str(getattr(exceptions, name)("boom")).split("ErrorResponse \n")
    assert head == f"{name}:\n\tMessage: boom\n\tInnerException None\n\t"
    assert json.loads(response) == {"error": {**codes, "message": "boom"}}


def test_the_bases_are_azures() -> None:
    bases = {
        "AuthenticationException": "UserErrorException",
        **dict.fromkeys(["WorkspaceException", "SnapshotException", "RunConfigurationException"], "AzureMLException"),
        **dict.fromkeys(["ModelNotFoundException", "ModelPathNotFoundException"], "AzureMLException"),
    }
    found = {}
    for name in bases:
        others = [base for base in getattr(exceptions, name).__mro__[1:] if base.__name__.endswith("Exception")]
        found[name] = others[0].__name__
    assert found == bases


def test_a_run_environment_exception_says_what_azures_says() -> None:
    assert exceptions.RunEnvironmentException().message == (
        "Could not load a submitted run, if outside of an execution context, use experiment.start_logging to "
        "initialize an azureml.core.Run."
    )


REFUSALS = [kind for kind in InvalidRequest.__subclasses__() if kind.__module__ == InvalidRequest.__module__]


@pytest.mark.parametrize("kind", [*REFUSALS, InvalidRequest, Denied])
def test_what_a_server_refuses_is_caught_by_azures_name_and_by_ours(kind: type[WindlassError]) -> None:
    if issubclass(kind, exceptions.AzureMLException):
        return
    error = exceptions.as_azure(kind("no", "do that", {"some": "detail"}))
    assert isinstance(error, kind)
    assert isinstance(error, UserErrorException)
    assert error.to_wire() == kind("no", "do that", {"some": "detail"}).to_wire()
    assert type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301


def test_the_text_of_a_failed_run() -> None:
    error = ActivityFailedException('{\n    "error": {}\n}')
    assert error.message == 'Activity Failed:\n{\n    "error": {}\n}'
    assert "\tMessage: Activity Failed:\n{" in str(error)


def test_what_is_not_provided_is_told_apart() -> None:
    error = NotProvided("X", "Use Y.")
    assert isinstance(error, SpecNotSupported)
    assert (error.code, str(error)) == ("not_supported", "X is not provided in this version.\nUse Y.")
