"""The RunSpec of a submit, as JSON: from the options alone, or from a run configuration with the options on top.

The SDK makes the same of its classes (client/submit/run_spec.py), whose import would take longer than the rest of a
submit. With a run configuration the SDK's is used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.cli.parameters import key_values
from windlass.cli.submit.environment import environment
from windlass.cli.submit.options import FRAMEWORKS
from windlass.core import names
from windlass.core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.cli.submit.run_configuration import Configured
    from windlass.cli.submit.script import Script
    from windlass.client.submit.snapshot import File

_RESOURCES = {"nodes": "nodes", "cpus": "cpus", "memory": "memory_mb", "gpus": "gpus"}


class SpecWithFiles(NamedTuple):
    """A RunSpec, and the local files that its environment needs."""

    spec: dict[str, Any]
    files: Sequence[File]


def from_options(script: Script, values: dict[str, Any]) -> SpecWithFiles:
    # In a container, the interpreter of this machine does not exist.
    chosen = environment({**values, "target": values["target"] if not values["image"] else ""})
    spec = {
        **_command(script, values["arguments"]),
        "target": values["target"],
        "environment": chosen.spec,
        "environment_variables": _variables(values),
        "secrets": list(dict.fromkeys(values["secrets"])),
        "max_run_duration_seconds": values["timeout"],
        "priority": values["priority"] or 0,
        **_retries(values, {}),
        "resources": _resources(values),
        "distribution": _distribution(values, values["nodes"]),
    }
    spec["definition"] = _definition(spec, chosen.definition)
    return SpecWithFiles(_with_common_options(spec, values), chosen.files)


def from_configuration(configured: Configured, values: dict[str, Any]) -> SpecWithFiles:
    """The spec of a run configuration, with the options on top."""
    spec = {**configured.spec}
    is_default_python = spec["target"] == "local" and spec["environment"].get("interpreter") == sys.executable
    if is_default_python and not _chooses_packages(values):
        # sys.executable is the Python of this command; a script gets that of the shell
        spec["environment"] = {**spec["environment"], **environment(_for_environment(spec, values)).spec}
    return with_options(spec, values, configured.files)


def with_options(spec: dict[str, Any], values: dict[str, Any], files: Sequence[File] = ()) -> SpecWithFiles:
    """A spec and its files, in which options that are given replace what it has, or add to it."""
    spec = {**spec}
    spec["secrets"] = list(dict.fromkeys([*spec["secrets"], *values["secrets"]]))
    for option, key in (("timeout", "max_run_duration_seconds"), ("priority", "priority")):
        if values[option] is not None:
            spec[key] = values[option]
    spec |= _retries(values, spec.get("retries") or {})
    spec["resources"] = {**spec["resources"], **_resources(values)}
    spec["distribution"] = _distribution(values, spec["resources"].get("nodes")) or spec.get("distribution")
    spec["environment_variables"] = {**spec["environment_variables"], **_variables(values)}
    if _chooses_packages(values):
        chosen = environment(_for_environment(spec, values))
        files = chosen.files
        spec["environment"] = _replace_packages(spec["environment"], chosen.spec)
        spec["definition"] = {**spec["definition"]}
        spec["definition"]["environment"] = _replace_definition(spec["definition"]["environment"], chosen.definition)
    return SpecWithFiles(_with_common_options(spec, values), files)


def _variables(values: dict[str, Any]) -> dict[str, str]:
    """The variables of options and files. A dry run prints them, but not the values of a file, which may be secret."""
    return key_values.variables(values["variables"], values["variables_files"], values["dry_run"])


def _chooses_packages(values: dict[str, Any]) -> bool:
    return bool(values["python"] or values["pip"] or values["env_file"])


def _for_environment(spec: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The options for environment(). In a container, the interpreter of this machine does not exist."""
    has_container = values["image"] or spec["container"] is not None
    return {**values, "target": spec["target"] if not has_container else ""}


def _command(script: Script, arguments: Sequence[str]) -> dict[str, Any]:
    if script.command:
        return {"script": None, "arguments": [], "command": [*script.command, *arguments]}
    return {"script": script.path, "arguments": list(arguments), "command": []}


def _replace_packages(configured: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """The chosen interpreter or packages, with the variables, image and strictness of the run configuration."""
    variables = {**configured["variables"], **chosen.get("variables", {})}
    return {**chosen, "variables": variables, **{key: configured[key] for key in ("strict", "image", "dockerfile")}}


def _replace_definition(configured: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    return {**chosen, **{key: configured[key] for key in ("docker", "environmentVariables") if key in configured}}


def _with_common_options(spec: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    spec = _in_container(spec, values["image"])
    return _strict(spec) if values["strict_environment"] else spec


def _strict(spec: dict[str, Any]) -> dict[str, Any]:
    """The same run, with an environment in which no version is replaced by another one."""
    if spec["environment"].get("interpreter") is not None:
        return spec  # nothing is built
    definition = spec["definition"]["environment"]
    definition = {**definition, "python": {**definition.get("python", {}), "strict": True}}
    return {
        **spec,
        "environment": {**spec["environment"], "strict": True},
        "definition": {**spec["definition"], "environment": definition},
    }


def _in_container(spec: dict[str, Any], image: str | None) -> dict[str, Any]:
    """The same run, in a container of the image if there is one."""
    if image is None:
        return spec
    definition = {
        **spec["definition"],
        "environment": {**spec["definition"]["environment"], "docker": {"baseImage": image}},
        "docker": {"useDocker": True},
    }
    environment = {**spec["environment"], "image": names.image_reference(image), "dockerfile": None}
    return {**spec, "container": spec.get("container") or {}, "environment": environment, "definition": definition}


def _retries(values: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The retry policy, if an option sets it. --retry-on without --retries asks for one retry."""
    count, conditions = values["retries"], values["retry_on"]
    if count is None and conditions is None:
        return {}
    known = {"count": before.get("count") or 1} if count is None else {"count": count}
    return {"retries": {**before, **known, **({} if conditions is None else {"on": list(conditions)})}}


def _resources(values: dict[str, Any]) -> dict[str, Any]:
    return {key: values[option] for option, key in _RESOURCES.items() if values[option] is not None}


def _distribution(values: dict[str, Any], nodes: int | None) -> dict[str, Any] | None:
    framework, each = values["distribution"], values["processes_per_node"]
    if framework is None and each is not None:
        raise InvalidRequest(
            "--processes-per-node says how many processes --distribution starts, which is not given.",
            f"Add --distribution {'|'.join(FRAMEWORKS)}.",
        )
    if framework is None:
        return None
    count = (nodes or 1) * (each or 1)
    more: dict[str, dict[str, Any]] = {
        "pytorch": {"process_count": count, "backend": "nccl"},
        "tensorflow": {"workers": count},
    }
    return {"framework": framework, "processes_per_node": each or 1, **more.get(framework, {})}


def _definition(spec: dict[str, Any], environment: dict[str, Any]) -> dict[str, Any]:
    """Azure's run definition, which the SDK's get_details() and get_environment() return."""
    return {
        "script": spec["script"],
        "arguments": spec["arguments"],
        "command": " ".join(spec["command"]),
        "target": spec["target"],
        **_distribution_definition(spec["distribution"]),
        "maxRunDurationSeconds": spec["max_run_duration_seconds"],
        "nodeCount": spec["resources"].get("nodes") or 1,
        "priority": spec["priority"],
        "environment": environment,
        "environmentVariables": spec["environment_variables"],
    }


def _distribution_definition(found: dict[str, Any] | None) -> dict[str, Any]:
    if found is None:
        return {"framework": "Python", "communicator": "None"}
    if found["framework"] == "mpi":
        section = {"processCountPerNode": found["processes_per_node"]}
        return {"framework": "Python", "communicator": "IntelMpi", "mpi": section}
    if found["framework"] == "pytorch":
        section = {"communicationBackend": found["backend"], "processCount": found["process_count"]}
        return {"framework": "PyTorch", "communicator": found["backend"], "pytorch": section}
    section = {"workerCount": found["workers"], "parameterServerCount": 0}
    return {"framework": "TensorFlow", "communicator": "ParameterServer", "tensorflow": section}
