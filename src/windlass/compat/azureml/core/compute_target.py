"""Target classes of the first versions of the SDK."""

from __future__ import annotations

from .._lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from windlass import Experiment, Run, RunConfiguration

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    AbstractComputeTarget ComputeTargetException LocalTarget attach_legacy_compute_target remove_legacy_compute_target
    """,
)
__all__ += ["is_compute_target_prepared", "prepare_compute_target"]


def prepare_compute_target(experiment: Experiment, source_directory: str, run_config: RunConfiguration) -> Run:
    """Build the environment of a run configuration on its target before the first run. Returns at once."""
    from windlass import ScriptRunConfig

    return ScriptRunConfig(source_directory, run_config=run_config).prepare(experiment.workspace)


def is_compute_target_prepared(experiment: Experiment, source_directory: str, run_config: RunConfiguration) -> bool:
    """Whether the environment of a run of this configuration is built already."""
    from windlass import ScriptRunConfig

    return ScriptRunConfig(source_directory, run_config=run_config).is_prepared(experiment.workspace)
