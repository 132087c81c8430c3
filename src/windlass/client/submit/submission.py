"""Submit a ScriptRunConfig: build the specification, read the source folder, send both in one request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from windlass.client.http import embedded_server
from windlass.client.runs.run import SCRIPT, ScriptRun
from windlass.client.submit import request, snapshot
from windlass.client.submit.local_wheels import Wheels
from windlass.client.submit.run_spec import run_spec
from windlass.core.codec import to_wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.client.experiment import Experiment
    from windlass.client.runs.run import Run
    from windlass.client.submit.script_run_config import ScriptRunConfig
    from windlass.client.submit.snapshot import Snapshot

    Progress = Callable[[int, int], None]


class Submission:
    """A run that is ready to be sent. The constructor reads the source folder; `send` creates the run."""

    def __init__(
        self,
        config: ScriptRunConfig,
        experiment: Experiment,
        tags: dict[str, Any] | None = None,
        parent: str | None = None,
        run_id: str | None = None,
        display_name: str | None = None,
        attended: bool = False,
    ) -> None:
        run_config, workspace = config.run_config, experiment.workspace
        wheels = Wheels([config.source_directory])
        self.spec = run_spec(config, wheels)
        spec = to_wire(self.spec)

        def check(taken: Snapshot) -> None:
            if not run_config.auto_prepare_environment:
                from windlass.client.environments.build import require_prepared

                require_prepared(workspace, spec, taken, run_config._name or self.spec.target)

        self.snapshot, properties = request.read_source(
            config.source_directory, self.spec.script, wheels.files(), check
        )
        body = {
            "experiment": experiment.name,
            "type": SCRIPT,
            "spec": spec,
            "name": display_name or "",
            "tags": {str(key): None if value is None else str(value) for key, value in (tags or {}).items()},
            "properties": properties,
            "parent": parent,
            "run_id": run_id,
            "attended": attended,
        }
        job = getattr(config, "_job", None)
        place = "" if job is None else job.places.get("node_count", "")
        explain = partial(request.locating_node_count, run_config._file, self.spec.resources.nodes, place)
        self._request = workspace._session, workspace._path, body, self.snapshot, explain

    def plan(self) -> dict[str, Any]:
        """What would be sent to the target: {"text", "target", "kind"}. Nothing is stored."""
        return request.plan(*self._request)

    def send(self, on_progress: Progress | None = None) -> dict[str, Any]:
        """Create the run; returns its view."""
        return request.send(*self._request, on_progress, saves_requests=True)


def submit(
    config: ScriptRunConfig, experiment: Experiment, on_progress: Progress | None = None, **options: Any
) -> ScriptRun:
    """Submit a script to its target. If its files change meanwhile, the snapshot is taken again."""
    view = request.retry_if_changed(lambda: Submission(config, experiment, **options).send(on_progress))
    return ScriptRun(experiment, view["id"], _view=view)


def attach_snapshot(run: Run, path: str) -> str:
    """Store a folder or file as the source of a run that was not submitted. Returns the snapshot's digest."""
    taken, workspace = snapshot.take(path, embedded_server.home()), run.experiment.workspace
    body = {"files": taken.manifest()}
    found = snapshot.post_with_files(workspace._session, workspace._path, f"runs/{run.id}/snapshot", body, taken)
    run._seen = None
    return str(found["digest"])
