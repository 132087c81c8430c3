"""Azure's names of errors, in our tree: old code that catches them goes on to work.

WindlassError
└── AzureMLException
    ├── UserErrorException                    (an InvalidRequest)
    │   ├── RunConfigurationException
    │   ├── SnapshotException
    │   └── NotProvided                       Azure has it, this version has not; says what to use instead
    ├── AuthenticationException               (a Denied)
    ├── ExperimentExecutionException          the wait was interrupted, the run goes on
    ├── ActivityFailedException               the run that was waited for failed
    ├── RunEnvironmentException               there is no run around this script
    ├── ComputeTargetException
    ├── ProjectSystemException
    │   └── WorkspaceException
    │       ├── WorkspaceNotFound             (a NotFound)
    │       └── WorkspaceExists               (an AlreadyExists)
    └── WebserviceException
        ├── ModelNotFoundException            (a NotFound)
        └── ModelPathNotFoundException        (a UserErrorException) there is no file to make a model of

The others of Azure's (AzureMLAggregatedException, DatasetTimestampMissingError, DiscoveryUrlNotFoundException,
ParallelRunException, ServiceException, TrainingException, WorkspacePrivateEndpointException) are there to be caught:
nothing here raises them.
"""

from __future__ import annotations

from typing import Any

from windlass.core.errors import AlreadyExists, Denied, InvalidRequest, NotFound, SpecNotSupported, WindlassError


class AzureMLException(WindlassError):
    """Base of Azure's errors. Azure's other keywords (`target`, `details`, …) are accepted; its service needs them."""

    def __init__(
        self,
        exception_message: str = "",
        hint: str = "",
        inner_exception: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(exception_message, hint)
        self.inner_exception = inner_exception


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


class AuthenticationException(AzureMLException, Denied):
    code = Denied.code


class ProjectSystemException(AzureMLException):
    pass


class WorkspaceException(ProjectSystemException):
    pass


class WorkspaceNotFound(WorkspaceException, NotFound):
    code = NotFound.code


class WorkspaceExists(WorkspaceException, AlreadyExists):
    code = AlreadyExists.code


class UserErrorException(AzureMLException, InvalidRequest):
    code = InvalidRequest.code


class RunConfigurationException(UserErrorException):
    pass


class SnapshotException(UserErrorException):
    pass


class ExperimentExecutionException(AzureMLException):
    pass


class RunEnvironmentException(AzureMLException):
    def __init__(self, exception_message: str = "", **kwargs: Any) -> None:
        super().__init__(exception_message or "This script does not run as part of a submitted run.", **kwargs)


class NotProvided(UserErrorException, SpecNotSupported):
    """What Azure's SDK offers and this version does not. Never a silent no-op."""

    code = SpecNotSupported.code

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} is not provided in this version.", instead)


class _FramedException(AzureMLException):
    """An error whose text has the lines that Azure's have: people's code and notebooks show them."""

    def __str__(self) -> str:
        import json

        response = json.dumps({"error": {"message": self.message}}, indent=4)
        return (
            f"{type(self).__name__}:\n\tMessage: {self.message}\n\tInnerException {self.inner_exception}"
            f"\n\tErrorResponse \n{response}"
        )


class ComputeTargetException(_FramedException):
    pass


class WebserviceException(_FramedException):
    """Of models, too: so Azure has it."""


class ModelNotFoundException(WebserviceException, NotFound):
    code = NotFound.code


class ModelPathNotFoundException(WebserviceException, UserErrorException):
    code = UserErrorException.code


class ActivityFailedException(_FramedException):
    """The run that was waited for failed; `error_details` is its error as JSON."""

    def __init__(self, error_details: str) -> None:
        super().__init__(f"Activity Failed:\n{error_details}")
        self.error_details = error_details
