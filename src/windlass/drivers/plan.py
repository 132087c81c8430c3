"""Checks and text of plans. Pure: equal jobs give the same text, which has no secrets."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from pathlib import PurePath

from windlass.core.entities import Distribution, EnvironmentSpec, Resources
from windlass.core.errors import SpecNotSupported
from windlass.drivers.base import Bundle, Features, Job

HIDDEN = "***"
# Credentials in URLs of package indexes, channels and repositories: before the host, or in the path.
_CREDENTIALS = (re.compile(r"(//)[^/@\s]+(?=@)"), re.compile(r"(://\S*?/t/)[^/\s]+"))


def refuse_undeclared(kind: str, features: Features, job: Job) -> None:
    """SpecNotSupported if the job needs a feature that the kind does not declare, or leaves nodes without processes."""
    checks = [
        (
            job.container is not None,
            features.containers,
            "do not run containers",
            "Leave Docker off, or use another target.",
        ),
        (bool(job.resources.gpus), features.gpus, "have no GPUs", "Ask for no GPUs, or name a target that has them."),
        ((job.resources.nodes or 1) > 1, features.multi_node, "run on one node", "Use a cluster target."),
        (
            job.environment.is_built,
            features.built_environments,
            "do not build environments",
            "Name an interpreter that is there: user_managed_dependencies = True.",
        ),
    ]
    for is_requested, is_declared, problem, hint in checks:
        if is_requested and not is_declared:
            raise SpecNotSupported(f"Targets of kind {kind} {problem}.", hint=hint)
    _refuse_idle_nodes(job)


def _refuse_idle_nodes(job: Job) -> None:
    """Refuse a run with fewer processes than nodes."""
    nodes, count = job.resources.nodes or 1, _process_count(job.distribution, job.resources)
    if count < nodes:
        raise SpecNotSupported(
            f"The run asks for {nodes} nodes and has {count} process{'es' if count > 1 else ''}.",
            hint="Ask for as many processes as nodes, at least.",
        )


def _process_count(distribution: Distribution | None, resources: Resources) -> int:
    """How many processes a run has on all of its nodes."""
    nodes = resources.nodes or 1
    match distribution:
        case None:
            return nodes
        case Distribution(framework="tensorflow"):
            return distribution.workers + distribution.parameter_servers
        case Distribution(framework="pytorch", process_count=int(count)):
            return count
    return nodes * distribution.processes_per_node


def render(target: str, kind: str, folder: PurePath, job: Job, container: str | None = None) -> str:
    """Render the plan of a job, as `windlass submit --dry-run` prints it."""
    lines = [
        ("target", f"{target} ({kind})"),
        ("job", job.id),
        ("folder", str(folder)),
        ("directory", str(folder / "source")),
        ("command", _command(job)),
        ("environment", _environment(job.environment)),
        *([("container", container)] if container else []),
        *(("" if i else "variables", line) for i, line in enumerate(_variables(job))),
        *([("secrets", " ".join(sorted(job.granted)))] if job.granted else []),
        ("snapshot", _snapshot(job.bundle)),
        ("resources", _resources(job.resources)),
        *([("processes", _processes(job.distribution))] if job.distribution is not None else []),
        ("time limit", _seconds(job.time_limit) if job.time_limit else "none"),
        ("grace", _seconds(job.grace)),
        ("watched", " ".join(map(quoted, job.watch)) or "nothing"),
    ]
    return "".join(f"{label:<12} {value}\n" for label, value in lines)


def quoted(text: str) -> str:
    """Quote a text for a shell, on one line: control characters in bash's $'...' notation."""
    if text.isprintable():
        return shlex.quote(text)
    escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return "$'" + "".join(escapes.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + "'"


def _command(job: Job) -> str:
    first, *rest = job.command
    python = job.environment.interpreter or "python"
    return " ".join(map(quoted, [python if first == "{python}" else first, *rest]))


def _variables(job: Job) -> list[str]:
    shown = {name: quoted(value) for name, value in job.env.items()} | dict.fromkeys(job.secrets, HIDDEN)
    return [f"{name}={shown[name]}" for name in sorted(shown)] or ["none"]


def _environment(spec: EnvironmentSpec) -> str:
    if spec.interpreter is not None:
        return f"the interpreter {quoted(spec.interpreter)}"
    python = f"Python {spec.python_version}" if spec.python_version else "any Python"
    options = [f"options {' '.join(map(quoted, spec.pip_options))}"] if spec.pip_options else []
    packages = [f"{tool} {' '.join(map(quoted, names))}" for tool, names in _packages(spec) if names]
    mode = ["nothing is replaced"] if spec.strict else []
    text = "built once: " + "; ".join([python, *packages, *options, *mode])
    for credentials in _CREDENTIALS:
        text = credentials.sub(rf"\1{HIDDEN}", text)
    return text


def _packages(spec: EnvironmentSpec) -> list[tuple[str, tuple[str, ...]]]:
    return [("pip", spec.pip), ("conda", spec.conda), ("channels", spec.channels)]


def _snapshot(bundle: Bundle | None) -> str:
    if bundle is None:
        return "none"
    files = bundle.files()
    count = "1 file" if len(files) == 1 else f"{len(files):,} files"
    return f"{bundle.digest} ({count}, {sum(file.size for file in files):,} bytes)"


def _resources(resources: Resources) -> str:
    amounts = {
        "nodes": resources.nodes,
        "cores": resources.cpus,
        "GPUs": resources.gpus,
        "memory in MB": resources.memory_mb,
    }
    asked = [f"{what} {amount:g}" for what, amount in amounts.items() if amount is not None]
    return ", ".join(asked) or "what the target gives"


def _processes(distribution: Distribution) -> str:
    if distribution.framework == "tensorflow":
        servers = f", parameter servers {distribution.parameter_servers}" if distribution.parameter_servers else ""
        return f"tensorflow, workers {distribution.workers}{servers}"
    in_all = f", {distribution.process_count} in all" if distribution.process_count else ""
    return f"{distribution.framework}, {distribution.processes_per_node} on each node{in_all}"


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"
