"""Interactive runs: a notebook or a part of another run, not a submitted script. They last until code ends them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.client.exceptions import SnapshotException, UserErrorException
from windlass.client.experiment import DefaultFolder
from windlass.client.metrics.metric_uploader import MetricUploader
from windlass.client.runs.files import files_below
from windlass.client.runs.run import INTERACTIVE, Run

if TYPE_CHECKING:
    from windlass.client.experiment import Experiment

_MOST_CHILDREN = 100
_CHILD_NUMBER = "azureml.batch_child_number"


class _InteractiveRun(Run):
    """Owned by this process: a background thread sends its metrics and a heartbeat."""

    def __init__(self, experiment: Experiment, run_id: str, outputs: Any = None, **kwargs: Any) -> None:
        super().__init__(experiment, run_id, **kwargs)
        self._outputs = None if outputs is False else os.path.abspath(outputs or "outputs")
        self._before = self._scan_outputs()
        self._metric_uploader().start()

    def _metric_uploader(self) -> MetricUploader:
        if self._uploader is None:
            self._uploader = MetricUploader(
                lambda batch: self._call("POST", "/metrics", batch), lambda: self._call("POST", "/heartbeat")
            )
        return self._uploader

    def complete(self, _set_status: bool = True) -> None:
        self._collect()
        super().complete(_set_status)
        self._metric_uploader().close()

    def fail(self, error_details: Any = None, error_code: str | None = None, _set_status: bool = True) -> None:
        self._collect()
        super().fail(error_details, error_code, _set_status)
        self._metric_uploader().close()

    def cancel(self) -> None:
        super().cancel()
        self._metric_uploader().close()

    def _collect(self) -> None:
        """Upload the files that were added or changed in the outputs folder since the run began."""
        after = self._scan_outputs()
        fresh = [name for name, stamp in after.items() if self._before.get(name) != stamp]
        self._before = after
        for name in fresh:
            assert self._outputs is not None
            self.upload_file(f"{os.path.basename(self._outputs)}/{name}", os.path.join(self._outputs, name))

    def _scan_outputs(self) -> dict[str, tuple[int, int]]:
        """Size and time of each file in the outputs folder."""
        if self._outputs is None or not os.path.isdir(self._outputs):
            return {}
        seen = {name: os.stat(location) for name, location in files_below(self._outputs)}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in seen.items()}


def start(
    experiment: Experiment,
    name: str | None = None,
    run_id: str | None = None,
    outputs: Any = None,
    snapshot_directory: Any = None,
    parent: str | None = None,
    tags: dict[str, Any] | None = None,
    display_name: str | None = None,
) -> Run:
    """Create a run that this process owns."""
    body = {
        "experiment": experiment.name,
        "type": INTERACTIVE,
        "name": display_name or name or "",
        "tags": {key: None if value is None else str(value) for key, value in (tags or {}).items()},
        "parent": parent,
        "run_id": run_id,
    }
    workspace = experiment.workspace
    view = workspace._session.call("POST", f"{workspace._path}/runs", body, key=os.urandom(16).hex())
    run = _InteractiveRun(experiment, view["id"], outputs, _view=view)
    if isinstance(snapshot_directory, DefaultFolder):
        _try_snapshot(run)
    elif snapshot_directory is not None:
        run.take_snapshot(snapshot_directory)
    return run


def create_children(run: Run, count: int | None, tag_key: str | None, tag_values: Any) -> list[Run]:
    if count is None and tag_key is None and tag_values is None:
        raise UserErrorException("Either count or tag_key and tag_values must be set")
    if count is not None and (tag_key is not None or tag_values is not None):
        raise UserErrorException("count can not be set when tag_key and tag_values are set")
    if count is None and (tag_key is None or tag_values is None):
        raise UserErrorException("tag_key and tag_values must be set together")
    values = list(range(count)) if count is not None else list(tag_values)
    if len(values) > _MOST_CHILDREN:
        raise UserErrorException(f"create_children can not create more than {_MOST_CHILDREN} runs")
    if not values:
        return []
    body = {
        "experiment": run.experiment.name,
        "type": INTERACTIVE,
        "parent": run.id,
        "count": len(values),
        "tags": [{tag_key or _CHILD_NUMBER: str(value)} for value in values],
    }
    workspace = run.experiment.workspace
    answer = workspace._session.call("POST", f"{workspace._path}/runs", body, key=os.urandom(16).hex())
    return [_InteractiveRun(run.experiment, view["id"], False, _view=view) for view in answer["runs"]]


def _try_snapshot(run: Run) -> None:
    """Take a snapshot of the current folder. The caller did not name it, so one that is too large is only a warning."""
    try:
        run.take_snapshot(".")
    except SnapshotException as e:
        print(f"Warning: the run has no snapshot of its source. {e.message}", file=sys.stderr)
