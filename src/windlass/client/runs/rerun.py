"""`Run.rerun()`: the changes that the SDK's parameters name, made to the specification of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.runs.run import make_run
from windlass.client.submit.local_wheels import Wheels
from windlass.client.submit.rerun import Rerun
from windlass.client.submit.run_spec import argument_words, run_spec
from windlass.client.submit.script_run_config import ScriptRunConfig
from windlass.core.codec import to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.runs.run import Run

_RETRIES = {"retries": "count", "retry_on": "on"}
# Parameters that are fields of the specification, too.
_FIELDS = ("max_run_duration_seconds", "priority")


def rerun(
    run: Run,
    arguments: Any,
    set_arguments: Mapping[str, Any] | None,
    experiment_name: str | None,
    display_name: str | None,
    tags: Mapping[str, Any] | None,
    changes: dict[str, Any],
) -> Run:
    """`changes` are further parameters of Run.rerun() by name."""
    workspace = run.experiment.workspace
    again = Rerun(workspace._session, workspace._path, run._refresh())
    if arguments is not None:
        again.replace_arguments(argument_words(arguments))
    again.set_arguments(_texts(set_arguments))
    wheels = Wheels()
    change(again, {key: value for key, value in changes.items() if value is not None}, wheels)
    view = again.send(again.body(experiment_name, display_name, _texts(tags)), wheels.files())
    return make_run(workspace._experiment(view["experiment"]), view)


def _texts(given: Mapping[str, Any] | None) -> dict[str, str | None]:
    return {str(key): None if value is None else str(value) for key, value in (given or {}).items()}


def change(again: Rerun, changes: dict[str, Any], wheels: Wheels) -> None:
    """Change the specification. Local wheels of a changed environment are collected in `wheels`.

    A run configuration with nothing but the changes is converted as that of a submit is; then its fields replace
    those of the run.
    """
    config = _configuration(changes, again.spec["target"])
    made = to_wire(run_spec(config, wheels))
    if "compute_target" in changes:
        again.move(config.run_config.target)
    spec = again.spec
    spec.update({field: made[field] for field in _FIELDS if field in changes})
    if "environment" in changes:
        spec.update(environment=made["environment"], container=made["container"] or spec["container"])
        spec["definition"] = {**spec["definition"], "environment": config.run_config.environment.to_dict()}
    spec["environment_variables"] = {**spec["environment_variables"], **made["environment_variables"]}
    spec["secrets"] = list(dict.fromkeys([*spec["secrets"], *made["secrets"]]))
    asked = {key: value for key, value in made["resources"].items() if value is not None}
    if "node_count" in changes:
        asked["nodes"] = changes["node_count"]
    spec["resources"] = {**spec["resources"], **asked}
    retries = {field: made["retries"][field] for name, field in _RETRIES.items() if name in changes}
    spec["retries"] = {**spec["retries"], **retries}
    if "distributed_job_config" in changes:
        spec["distribution"] = made["distribution"]


def _configuration(changes: dict[str, Any], target: str) -> ScriptRunConfig:
    """What is not changed has the default, which is not used."""
    names = ("environment", "distributed_job_config", "max_run_duration_seconds")
    config = ScriptRunConfig(
        ".",
        command=["true"],
        compute_target=changes.get("compute_target", target),
        **{name: changes[name] for name in names if name in changes},
    )
    run_config: RunConfiguration = config.run_config
    for name in ("environment_variables", "secrets", "priority", "retries", "retry_on", "resources", "node_count"):
        if name in changes:
            setattr(run_config, name, changes[name])
    return config
