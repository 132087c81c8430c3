"""Azure's exception classes, as subclasses of WindlassError: code that catches them goes on to work.

WindlassError
└── AzureMLException
    ├── UserErrorException                    (an InvalidRequest)
    │   ├── AuthenticationException           (a Denied)
    │   ├── NotProvided                       Azure has it, this version has not; the hint says what to use instead
    │   └── ResourceNotFound, ResourceExists, … refusals of the server, by their code
    ├── RunConfigurationException             (an InvalidRequest)
    ├── SnapshotException                     (an InvalidRequest)
    ├── ExperimentExecutionException          waiting was interrupted, the run goes on
    ├── ActivityFailedException               the run that was waited for failed
    ├── RunEnvironmentException               the script is not part of a run
    ├── ComputeTargetException
    ├── ProjectSystemException
    ├── WorkspaceException
    │   ├── WorkspaceNotFound                 (a ProjectSystemException and a NotFound)
    │   └── WorkspaceExists                   (a ProjectSystemException and an AlreadyExists)
    ├── WebserviceException
    ├── ModelNotFoundException                (a NotFound)
    │   └── ModelMissing                      (a WebserviceException) the workspace has no such model
    └── ModelPathNotFoundException            (an InvalidRequest)
        └── ModelPathMissing                  (a WebserviceException) there is no file to register as a model

The others of Azure's (AzureMLAggregatedException, DatasetTimestampMissingError, DiscoveryUrlNotFoundException,
ParallelRunException, ServiceException, TrainingException, WorkspacePrivateEndpointException) exist for `except`
clauses: only TrainingException is raised here.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, TypeVar

from windlass.core.errors import (
    AlreadyExists,
    Conflict,
    CredentialsNeeded,
    Denied,
    InvalidRequest,
    NotFound,
    SnapshotIncomplete,
    SpecNotSupported,
    TooLarge,
    WindlassError,
)

F = TypeVar("F", bound=Callable[..., Any])


class AzureMLException(WindlassError):
    """Base of Azure's errors. Azure's other keywords (`target`, `details`, …) are accepted; its service needs them."""

    # Azure's codes in the error's JSON, the outer one first.
    _error_codes: tuple[str, ...] = ()
    # Azure's class, where this one is a more specific subclass.
    _azure_name = ""

    def __init__(
        self,
        exception_message: str = "",
        hint: str = "",
        inner_exception: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(exception_message, hint)
        self.inner_exception = inner_exception

    def __str__(self) -> str:
        """The format of Azure's errors, which users' code and notebooks print. `text` is the plain text."""
        return (
            f"{self._azure_name or type(self).__name__}:\n\tMessage: {self.text}\n\tInnerException "
            f"{self.inner_exception}\n\tErrorResponse \n{self._error_response()}"
        )

    def _error_response(self) -> str:
        import json

        error: dict[str, Any] = {}
        for code in reversed(self._error_codes):
            error = {"code": code, "inner_error": error} if error else {"code": code}
        return json.dumps({"error": {**error, "message": self.message}}, indent=4)


class AzureMLAggregatedException(AzureMLException):
    pass


class DatasetTimestampMissingError(AzureMLException):
    pass


class DiscoveryUrlNotFoundException(AzureMLException):
    pass


class ParallelRunException(AzureMLException):
    pass


class ServiceException(AzureMLException):
    pass


class TrainingException(AzureMLException):
    pass


class WorkspacePrivateEndpointException(AzureMLException):
    pass


class ProjectSystemException(AzureMLException):
    pass


class WorkspaceException(AzureMLException):
    pass


class WorkspaceNotFound(WorkspaceException, ProjectSystemException, NotFound):
    """Has both bases, since Azure's SDK raised one or the other, depending on its version."""


class WorkspaceExists(WorkspaceException, ProjectSystemException, AlreadyExists):
    pass


class UserErrorException(AzureMLException, InvalidRequest):
    _error_codes: tuple[str, ...] = ("UserError",)


class AuthenticationException(UserErrorException, Denied):
    code = Denied.code
    _error_codes = ("UserError", "Authentication")


class RunConfigurationException(AzureMLException, InvalidRequest):
    pass


class SnapshotException(AzureMLException, InvalidRequest):
    pass


class ExperimentExecutionException(AzureMLException):
    pass


class RunEnvironmentException(AzureMLException):
    def __init__(self, exception_message: str = "", **kwargs: Any) -> None:
        super().__init__(
            exception_message
            or "Could not load a submitted run, if outside of an execution context, use experiment.start_logging to "
            "initialize an azureml.core.Run.",
            **kwargs,
        )


class NotProvided(UserErrorException, SpecNotSupported):
    """Raised for what Azure's SDK has and this version has not, instead of a silent no-op."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} is not provided in this version.", instead)

    def __str__(self) -> str:
        return self.text  # Azure has no such error, so no code expects its format


class ComputeTargetException(AzureMLException):
    pass


class WebserviceException(AzureMLException):
    """Raised for models too, as in Azure."""


class ModelNotFoundException(AzureMLException, NotFound):
    pass


class ModelPathNotFoundException(AzureMLException, InvalidRequest):
    pass


class ModelMissing(ModelNotFoundException, WebserviceException):
    """The workspace has no such model. Azure's Model(…) raises WebserviceException for it."""

    _azure_name = "WebserviceException"


class ModelPathMissing(ModelPathNotFoundException, WebserviceException):
    """There is no file to register as a model. Azure's Model.register(…) raises WebserviceException for it."""

    _azure_name = "WebserviceException"


class ActivityFailedException(AzureMLException):
    """The run that was waited for failed; `error_details` is its error as JSON."""

    def __init__(self, error_details: str) -> None:
        super().__init__(f"Activity Failed:\n{error_details}")
        self.error_details = error_details


class _Refusal(UserErrorException):
    """A refusal of the server. Both UserErrorException and the class of core/errors.py are bases, for code that catches
    either.
    """

    _azure_name = "UserErrorException"


class CredentialsMissing(_Refusal, CredentialsNeeded):
    pass


class ResourceNotFound(_Refusal, NotFound):
    pass


class ResourceExists(_Refusal, AlreadyExists):
    pass


class ResourceConflict(_Refusal, Conflict):
    pass


class FilesMissing(_Refusal, SnapshotIncomplete):
    pass


class LimitExceeded(_Refusal, TooLarge):
    pass


class NotSupported(_Refusal, SpecNotSupported):
    pass


_OF_AZURE: dict[type[WindlassError], type[AzureMLException]] = {
    InvalidRequest: UserErrorException,
    CredentialsNeeded: CredentialsMissing,
    NotFound: ResourceNotFound,
    AlreadyExists: ResourceExists,
    Conflict: ResourceConflict,
    SnapshotIncomplete: FilesMissing,
    TooLarge: LimitExceeded,
    SpecNotSupported: NotSupported,
    Denied: AuthenticationException,
}


def as_azure(error: WindlassError) -> WindlassError:
    """The error as a subclass that code for azureml catches too. Errors that are no refusals are returned unchanged."""
    kind = _OF_AZURE.get(type(error))
    if kind is None:
        return error
    refusal = kind(error.message, error.hint)
    refusal.details = error.details
    return refusal


def refusing(check: F) -> F:
    """Wrap a check so that its refusals are of a class that code for azureml catches too."""

    @wraps(check)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return check(*args, **kwargs)
        except InvalidRequest as e:
            raise as_azure(e) from None

    return checked  # type: ignore[return-value]
