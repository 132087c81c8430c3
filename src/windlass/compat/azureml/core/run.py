"""Runs."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    ActivityFailedException ExperimentExecutionException InputDatasets LinkOutput OutputDatasets RUNNING_STATES Run
    RunEnvironmentException RunStatus ScriptRun UserErrorException get_run _OfflineRun
    """,
)
