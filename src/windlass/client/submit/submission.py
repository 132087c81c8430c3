"""How a script becomes a run: its specification and its snapshot in one request."""

from __future__ import annotations

import dataclasses
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ContextManager

from windlass.client.exceptions import UserErrorException
from windlass.client.http import embedded_server
from windlass.client.runs.run import SCRIPT, ScriptRun
from windlass.client.submit import git_info, snapshot
from windlass.client.submit.local_wheels import Wheels
from windlass.client.submit.run_cluster import FOR_ONE_RUN, RunCluster, new_run_id, no_plan
from windlass.client.submit.run_spec import naming_file, run_spec
from windlass.core.codec import to_wire
from windlass.core.digests import snapshot_digest
from windlass.core.entities import SnapshotFile
from windlass.core.errors import SnapshotIncomplete

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.client.experiment import Experiment
    from windlass.client.runs.run import Run
    from windlass.client.submit.script_run_config import ScriptRunConfig
    from windlass.client.submit.snapshot import Snapshot

    Progress = Callable[[int, int], None]

# A snapshot with more files than this is named by its digest first: the server may have its manifest.
_MANY_FILES = 200
# So few bytes that changed go ahead of the request: to send them in vain costs less than to be asked for them.
_FEW_BYTES = 1 << 20
_TRIES = 3


class Submission:
    """A run that is ready to be sent. Making one looks at the source folder; sending it makes the run."""

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
        self.experiment = experiment
        self._file = config.run_config._file
        job = getattr(config, "_job", None)
        self._place_of_nodes = "" if job is None else job.places.get("node_count", "")
        wheels = Wheels([config.source_directory])
        self.spec = run_spec(config, wheels)
        repository = git_info.find(config.source_directory)
        changes = git_info.Question(repository) if repository is not None else None
        self.snapshot = snapshot.take(config.source_directory, embedded_server.home())
        if self.spec.script is not None and self.spec.script not in self.snapshot:
            raise UserErrorException(
                f"The script {self.spec.script} is not part of the snapshot of {self.snapshot.folder}.",
                "Its ignore file (.amlignore, else .gitignore) leaves it out, or it is a link out of the folder.",
            )
        self.snapshot.add(wheels.files())
        if not config.run_config.auto_prepare_environment:
            from windlass.client.environments.build import require_prepared

            name = config.run_config._name or self.spec.target
            require_prepared(experiment.workspace, to_wire(self.spec), self.snapshot, name)
        properties = {}
        if repository is not None and changes is not None:
            properties = git_info.properties(repository, changes.answer())
        self._cluster: RunCluster | None = None
        if self.spec.target == FOR_ONE_RUN:
            run_id = run_id or new_run_id(experiment.name)
            self._cluster = RunCluster(to_wire(self.spec), run_id)
            self.spec = dataclasses.replace(self.spec, target=self._cluster.name)
        self._body = {
            "experiment": experiment.name,
            "type": SCRIPT,
            "name": display_name or "",
            "tags": {str(key): None if value is None else str(value) for key, value in (tags or {}).items()},
            "properties": properties,
            "parent": parent,
            "run_id": run_id,
            "attended": attended,
        }

    def plan(self) -> dict[str, Any]:
        """What would be sent to the target: {"text", "target", "kind"}. Nothing is stored."""
        workspace = self.experiment.workspace
        if self._cluster is not None:
            raise no_plan()
        with self._naming_file():
            found: dict[str, Any] = workspace._session.call("POST", f"{workspace._path}/plan", self._with_files())
        return found

    def send(self, on_progress: Progress | None = None) -> dict[str, Any]:
        """One request if the server knows the files; else they are sent, and the request is repeated."""
        with nullcontext() if self._cluster is None else self._cluster.created(self._ask):
            return self._send(on_progress)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        workspace = self.experiment.workspace
        return workspace._session.call(method, workspace._path + path, body)

    def _send(self, on_progress: Progress | None) -> dict[str, Any]:
        workspace = self.experiment.workspace
        key = os.urandom(16).hex()
        body = self._first_body(on_progress)
        while True:
            try:
                with self._naming_file():
                    view: dict[str, Any] = workspace._session.call("POST", f"{workspace._path}/runs", body, key=key)
                return view
            except SnapshotIncomplete as e:
                _supply(self.experiment, self.snapshot, e, on_progress)
                body = self._with_files()

    def _naming_file(self) -> ContextManager[None]:
        return naming_file(self._file, self.spec.resources.nodes, self._place_of_nodes)

    def _first_body(self, on_progress: Progress | None) -> dict[str, Any]:
        changed = self.snapshot.changed
        if changed and sum(file.size for file in changed) <= _FEW_BYTES:
            workspace = self.experiment.workspace
            digests = [file.digest for file in changed]
            snapshot.upload(workspace._session, workspace._path, self.snapshot, digests, on_progress)
            return self._with_files()
        return self._with_digest() if len(self.snapshot.files) > _MANY_FILES else self._with_files()

    def _with_files(self) -> dict[str, Any]:
        return {**self._body, "spec": to_wire(self.spec), "files": self.snapshot.manifest()}

    def _with_digest(self) -> dict[str, Any]:
        digest = snapshot_digest(SnapshotFile(f.path, f.digest, f.size, f.executable) for f in self.snapshot.files)
        return {**self._body, "spec": to_wire(dataclasses.replace(self.spec, snapshot=digest))}


def submit(
    config: ScriptRunConfig, experiment: Experiment, on_progress: Progress | None = None, **options: Any
) -> ScriptRun:
    """Send a script to its target. Files that are changed meanwhile make it begin anew."""
    for attempt in range(_TRIES):
        submission = Submission(config, experiment, **options)
        try:
            view = submission.send(on_progress)
        except snapshot.SourceChanged:
            if attempt == _TRIES - 1:
                raise
            continue
        return ScriptRun(experiment, view["id"], _view=view)
    raise AssertionError("unreachable")


def attach_snapshot(run: Run, path: str) -> str:
    """Keep a folder or file as the source of a run that was not submitted. Returns the snapshot's digest."""
    taken = snapshot.take(path, embedded_server.home())
    while True:
        try:
            found = run._call("POST", "/snapshot", {"files": taken.manifest()})
        except SnapshotIncomplete as e:
            _supply(run.experiment, taken, e, None)
        else:
            run._seen = None
            return str(found["digest"])


def _supply(experiment: Experiment, taken: Snapshot, lack: SnapshotIncomplete, on_progress: Progress | None) -> None:
    workspace = experiment.workspace
    missing = lack.details.get("missing") or []
    if missing:
        snapshot.upload(workspace._session, workspace._path, taken, missing, on_progress)
    elif not lack.details.get("manifest"):
        raise lack
