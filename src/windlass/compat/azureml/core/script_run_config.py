"""Script run configurations."""

from __future__ import annotations

from .._lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from windlass import Run, RunConfiguration, ScriptRunConfig, Workspace

__getattr__, __dir__, __all__ = lazy(__name__, "RunConfiguration RunConfigurationException ScriptRunConfig")
__all__ += ["get_run_config_from_script_run", "submit"]


def submit(
    script_run_config: ScriptRunConfig,
    workspace: Workspace,
    experiment_name: str,
    run_id: str | None = None,
    _parent_run_id: str | None = None,
    credential_passthrough: bool = False,
) -> Run:
    """Submit a script to an experiment. `credential_passthrough` has no effect here: a run has its own token."""
    from windlass import Experiment

    return Experiment(workspace, experiment_name)._submit(script_run_config, None, run_id=run_id, parent=_parent_run_id)


def get_run_config_from_script_run(script_run_config: ScriptRunConfig) -> RunConfiguration:
    """A copy of the run configuration, with the script, the arguments and the command of the ScriptRunConfig."""
    from copy import copy

    found = copy(script_run_config.run_config)
    found.script = script_run_config.script
    found.arguments = script_run_config.arguments
    found.command = script_run_config.command
    return found
