"""Build of environments before their first run: a run of the type `prepare` that does nothing else."""

from __future__ import annotations

import copy
import os
import re
from typing import TYPE_CHECKING, Any

from windlass.client.config.run_sections import DockerConfiguration
from windlass.client.environments import curated, registry
from windlass.client.exceptions import UserErrorException
from windlass.client.http import embedded_server
from windlass.client.runs.run import ScriptRun
from windlass.client.submit.local_wheels import Wheels
from windlass.client.submit.run_spec import run_spec
from windlass.client.submit.script_run_config import ScriptRunConfig
from windlass.client.submit.snapshot import Snapshot, post_with_files, take
from windlass.core.codec import to_wire
from windlass.core.errors import NotFound

if TYPE_CHECKING:
    from windlass.client.environments.environment import Environment
    from windlass.client.workspace.workspace import Workspace
    from windlass.core.entities import RunSpec

TYPE = "prepare"
EXPERIMENT = "prepare"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
_COPY = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]", re.IGNORECASE | re.MULTILINE)


def prepare(workspace: Workspace, config: ScriptRunConfig) -> ScriptRun:
    """Build the environment of a configuration on its target. Returns at once; the run's log has the progress."""
    spec, sent = _build_request(config)
    body: dict[str, Any] = {"experiment": EXPERIMENT, "type": TYPE, "spec": to_wire(spec), "name": _title(spec)}
    if sent.files:
        body["files"] = sent.manifest()
    key = os.urandom(16).hex()
    view = post_with_files(workspace._session, workspace._path, "runs", body, sent, key)
    return ScriptRun(workspace._experiment(EXPERIMENT), view["id"], _view=view)


def is_prepared(workspace: Workspace, config: ScriptRunConfig) -> bool:
    """Whether a run of this configuration would begin without its environment being built."""
    spec, sent = _build_request(config)
    return _is_built(workspace, to_wire(spec), sent)


def require_prepared(workspace: Workspace, spec: dict[str, Any], sent: Snapshot, name: str) -> None:
    """Refuse a configuration with `auto_prepare_environment = False` whose environment is not built. `spec` and `sent`
    are those of the run.
    """
    if not _is_built(workspace, spec, sent):
        raise UserErrorException(
            f"The compute target {spec['target']} is not prepared for the specified run configuration.",
            f"windlass prepare -c {name}",
        )


def _is_built(workspace: Workspace, spec: dict[str, Any], sent: Snapshot) -> bool:
    body = {"spec": spec, "files": sent.manifest() if _copies(spec["environment"]["dockerfile"]) else []}
    return bool(workspace._session.call("POST", f"{workspace._path}/prepared", body)["prepared"])


def _build_request(config: ScriptRunConfig) -> tuple[RunSpec, Snapshot]:
    """The run that builds, and its files: wheels, and the source folder if a Dockerfile copies from that."""
    wheels = Wheels([config.source_directory])
    spec = run_spec(_build_only(config), wheels)
    copies = _copies(spec.environment.dockerfile)
    sent = take(config.source_directory, embedded_server.home()) if copies else Snapshot("", [])
    sent.add(wheels.files())
    return spec, sent


def _copies(dockerfile: str | None) -> bool:
    return bool(_COPY.search(dockerfile or ""))


def build(
    environment: Environment, workspace: Workspace, target: str | None = None, use_docker: bool = False
) -> ImageBuildDetails:
    """Register an environment and build it, as an image if it names a base image or a Dockerfile."""
    if not curated.is_curated(environment.name or ""):  # curated ones need no registration
        environment = registry.register(environment, workspace)
    docker = environment.docker
    is_image = bool(use_docker or docker.enabled or docker.base_image or docker.base_dockerfile)
    config = ScriptRunConfig(
        ".",
        environment=environment,
        compute_target=target or "local",
        docker_runtime_config=DockerConfiguration(use_docker=is_image),
    )
    return ImageBuildDetails(prepare(workspace, config))


class ImageBuildDetails:
    """The state and the log of a build."""

    def __init__(self, run: ScriptRun) -> None:
        self._run = run

    @property
    def status(self) -> str:
        """Azure's status: Queued, Running, Succeeded, Failed or Canceled."""
        status = self._run.get_status()
        names = {"Completed": "Succeeded", "Failed": "Failed", "Canceled": "Canceled", "Queued": "Queued"}
        return names.get(status, "Running")

    @property
    def log_url(self) -> str:
        return self._run.get_portal_url()

    @property
    def run(self) -> ScriptRun:
        """Ours: the run that builds it."""
        return self._run

    def wait_for_completion(self, show_output: bool = True) -> ImageBuildDetails:
        """Wait until it is built; with `show_output`, show the build log. Raises if the build fails."""
        self._run.wait_for_completion(show_output=show_output)
        return self

    def get_log(self) -> str:
        """The build log so far; "" before the build begins, and for an environment that was built already."""
        try:
            return self._run._read_file(BUILD_LOG).decode("utf-8", "replace")
        except NotFound:
            return ""

    def __repr__(self) -> str:
        return f"ImageBuildDetails(run: {self._run.id}, status: {self.status})"


def _build_only(config: ScriptRunConfig) -> ScriptRunConfig:
    """The same configuration with `python --version` in place of its script."""
    run_config = copy.copy(config.run_config)
    run_config.script, run_config.arguments, run_config.command = None, [], ""
    return ScriptRunConfig(config.source_directory, command=["python", "--version"], run_config=run_config)


def _title(spec: RunSpec) -> str:
    name = spec.environment.name
    return f"prepare {name}:{spec.environment.version}" if spec.environment.version else f"prepare {name}"
