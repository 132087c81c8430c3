"""Base of runs: the id, the last view that the server sent, and the requests that read and change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.experiment import Experiment
    from windlass.client.http.session import Session

FINAL = ("Completed", "Failed", "Canceled")


class RunRecord:
    def __init__(self, experiment: Experiment, run_id: str, view: dict[str, Any] | None = None) -> None:
        self._experiment = experiment
        self._id = run_id
        self._seen = view

    @property
    def id(self) -> str:
        return self._id

    @property
    def experiment(self) -> Experiment:
        return self._experiment

    @property
    def _session(self) -> Session:
        return self.experiment.workspace._session

    @property
    def _path(self) -> str:
        return f"{self.experiment.workspace._path}/runs/{self._id}"

    @property
    def _view(self) -> dict[str, Any]:
        """The run's view as last received; requested if there is none yet."""
        return self._refresh() if self._seen is None else self._seen

    def _refresh(self) -> dict[str, Any]:
        self._seen = view = self._session.call("GET", self._path)
        assert isinstance(view, dict)
        return view

    def _call(self, method: str, suffix: str, body: Any = None, query: dict[str, Any] | None = None) -> Any:
        return self._session.call(method, self._path + suffix, body, query)

    # Changes to the record: sent by HTTP here, written to the run folder inside a script (submitted_run.py).

    def _change(self, **changes: Any) -> None:
        """Set name, description, tags, properties; remove tags; archive."""
        self._seen = self._session.call("PATCH", self._path, changes)

    def _write_metric(self, name: str, value: Any, kind: str, step: int | None, description: str) -> None:
        raise NotImplementedError

    def _store_file(self, name: str, source: Any) -> None:
        """Add a file to the record; `source` is a path, bytes, or something to read bytes from."""
        raise NotImplementedError
