"""States of a run, with Azure's names."""

from __future__ import annotations


class RunStatus:
    """What `run.status` and `run.get_status()` return.

    >>> RunStatus.COMPLETED
    'Completed'
    """

    NOT_STARTED = "NotStarted"
    STARTING = "Starting"
    PROVISIONING = "Provisioning"
    PREPARING = "Preparing"
    QUEUED = "Queued"
    RUNNING = "Running"
    FINALIZING = "Finalizing"
    CANCEL_REQUESTED = "CancelRequested"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    NOT_RESPONDING = "NotResponding"
    PAUSING = "Pausing"
    PAUSED = "Paused"
    UNAPPROVED = "Unapproved"


# States of a run that has not ended, but for Finalizing and CancelRequested.
RUNNING_STATES = [
    RunStatus.NOT_STARTED,
    RunStatus.QUEUED,
    RunStatus.PREPARING,
    RunStatus.PROVISIONING,
    RunStatus.STARTING,
    RunStatus.RUNNING,
    RunStatus.UNAPPROVED,
    RunStatus.NOT_RESPONDING,
    RunStatus.PAUSING,
    RunStatus.PAUSED,
]
