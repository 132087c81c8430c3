"""A run, seen from outside: what became of it, what it logged, and what one may do to it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, List, Type

from windlass.client.exceptions import (
    ActivityFailedException,
    ExperimentExecutionException,
    NotProvided,
    UserErrorException,
)
from windlass.client.metric_log import MetricLog, metric_line
from windlass.client.run_files import RunFiles
from windlass.client.run_record import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from windlass.client.environment import Environment
    from windlass.client.experiment import Experiment
    from windlass.client.recorder import Recorder
    from windlass.client.workspace import Workspace

INTERACTIVE = "interactive"
SCRIPT = "azureml.scriptrun"
_NO_ERROR = "Detailed error not set on the Run. Please check the logs for details."


class Run(MetricLog, RunFiles):
    """One execution, kept in history.

    >>> run = Run.get_context()                                                             # doctest: +SKIP
    >>> run.log("accuracy", 0.9)                                                            # doctest: +SKIP
    """

    def __init__(self, experiment: Experiment, run_id: str, outputs: Any = None, **kwargs: Any) -> None:
        super().__init__(experiment, run_id, kwargs.get("_view"))
        self._recorder: Recorder | None = None
        if self._seen is None and kwargs.get("_check", True):
            self._refresh()

    # Where a run comes from.

    @classmethod
    def get_context(cls, allow_offline: bool = True, used_for_context_manager: bool = False, **kwargs: Any) -> Any:
        """The run that this script is part of; without one, a stand-in that prints what it is told."""
        from windlass.client.context import current_run

        return current_run(allow_offline, **kwargs)

    @classmethod
    def get_submitted_run(cls, **kwargs: Any) -> Any:
        return cls.get_context(allow_offline=False, **kwargs)

    @staticmethod
    def get(workspace: Workspace, run_id: str) -> Run:
        return workspace.get_run(run_id)

    @staticmethod
    def list(
        experiment: Experiment,
        type: str | None = None,
        tags: Any = None,
        properties: Any = None,
        status: str | None = None,
        include_children: bool = False,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        """The runs of an experiment, the newest first."""
        from windlass.client.run_list import find

        return find(experiment, type, tags, properties, status, None if include_children else "none")

    # What it is.

    @property
    def name(self) -> str:
        return str(self._view["name"])

    @property
    def display_name(self) -> str:
        return str(self._view["name"]) or self.id

    @display_name.setter
    def display_name(self, name: str) -> None:
        self._change(name=name)

    @property
    def description(self) -> str:
        return str(self._view["description"])

    @description.setter
    def description(self, text: str) -> None:
        self._change(description=text)

    @property
    def type(self) -> str | None:
        kind = str(self._view["type"])
        return None if kind == INTERACTIVE else kind

    @property
    def number(self) -> int:
        return int(self._view["number"])

    @property
    def status(self) -> str:
        """The status that was last heard of; get_status() asks."""
        return str(self._view["status"])

    @property
    def parent(self) -> Run | None:
        above = self._view["parent"]
        return None if above is None else self.experiment.workspace.get_run(above)

    def get_portal_url(self) -> str:
        """The address of the run's page."""
        return str(self._view["url"])

    def get_status(self) -> str:
        if self._view["status"] not in FINAL:
            self._refresh()
        return self.status

    def get_detailed_status(self) -> dict[str, Any]:
        """The status, and in words why the run waits or how it ended."""
        status = self.get_status()
        return {"status": status, "details": self._view["message"] or None}

    def get_details(self) -> dict[str, Any]:
        """All about the run, in Azure's words."""
        from windlass.client.run_details import details

        return details(self._refresh(), f"{self._session.address.url}/api/v1{self._path}")

    def get_details_with_logs(self) -> dict[str, Any]:
        """The same, with the contents of the logs in the place of their addresses."""
        found = self.get_details()
        for name in found["logFiles"]:
            found["logFiles"][name] = self._read_file(name).decode("utf-8", "replace")
        return found

    def get_all_logs(self, destination: str | None = None) -> List[str]:
        """Fetch the logs to a folder; returns their paths."""
        folder = destination or os.path.join("assets", self.id)
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise UserErrorException(f"{folder} exists and is not a directory.")
        paths = {name: os.path.join(folder, name) for name in self.get_details()["logFiles"]}
        for name, path in paths.items():
            self._download(name, path)
        return [*paths.values()]

    def get_environment(self) -> Environment:
        from windlass.client.environment import Environment

        definition = (self._refresh().get("spec") or {}).get("definition") or {}
        if "environment" not in definition:
            raise UserErrorException("There is no run definition or environment specified for the run.")
        return Environment.from_dict(definition["environment"])

    # Tags and properties.

    @property
    def tags(self) -> dict[str, Any]:
        return dict(self._view["tags"])

    @property
    def properties(self) -> dict[str, Any]:
        from windlass.client.run_details import properties

        return properties(self._view)

    def get_tags(self) -> dict[str, Any]:
        self._refresh()
        return self.tags

    def get_properties(self) -> dict[str, Any]:
        self._refresh()
        return self.properties

    def tag(self, key: str, value: Any = None) -> None:
        self.set_tags({key: value})

    def set_tags(self, tags: Any) -> None:
        """Add or change tags; others stay."""
        given = {tags: None} if isinstance(tags, str) else tags
        self._change(tags={str(key): None if value is None else str(value) for key, value in given.items()})

    def remove_tags(self, tags: Any) -> None:
        self._change(remove_tags=[tags] if isinstance(tags, str) else [str(tag) for tag in tags])

    def add_properties(self, properties: dict[str, Any]) -> None:
        """Add properties. Each is written once."""
        if properties:
            self._change(properties={str(key): str(value) for key, value in properties.items()})

    # Metrics.

    def get_metrics(
        self, name: str | None = None, recursive: bool = False, run_type: str | None = None, populate: bool = False
    ) -> dict[str, Any]:
        """What was logged; with `recursive`, {run id: metrics} of the run and all below it."""
        if not recursive:
            return self._metrics(name)
        family = [self, *self.get_children(recursive=True)]
        return {run.id: run._metrics(name) for run in family if run_type is None or run.type == run_type}

    def _metrics(self, name: str | None) -> dict[str, Any]:
        from windlass.client.run_metrics import fold

        self.flush()
        return fold(self._call("GET", "/metrics", query={"name": name})["metrics"])

    def _write_metric(self, name: str, value: Any, kind: str, step: int | None, description: str) -> None:
        self._recording().add(metric_line(name, value, kind, step, description))

    def _recording(self) -> Recorder:
        if self._recorder is None:
            from windlass.client.recorder import Recorder

            self._recorder = Recorder(lambda batch: self._call("POST", "/metrics", batch))
        return self._recorder

    def flush(self, timeout_seconds: float = 300) -> None:
        """Return when everything that was logged here is with the server."""
        if self._recorder is not None:
            self._recorder.flush(timeout_seconds)

    # Children.

    def get_children(
        self,
        recursive: bool = False,
        tags: Any = None,
        properties: Any = None,
        type: str | None = None,
        status: str | None = None,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        from windlass.client.run_list import below

        return below(self, recursive, type, tags, properties, status)

    def child_run(self, name: str | None = None, run_id: str | None = None, outputs: Any = None) -> Run:
        """A run below this one, which goes on until complete(), fail() or the end of its `with`."""
        from windlass.client.interactive import start

        return start(self.experiment, name=name, run_id=run_id, outputs=outputs, parent=self.id)

    def create_children(
        self, count: int | None = None, tag_key: str | None = None, tag_values: Any = None
    ) -> List[Run]:
        """Several children at once: a number of them, or one for each value of a tag."""
        from windlass.client.interactive import create_children

        return create_children(self, count, tag_key, tag_values)

    def submit_child(self, config: Any, tags: dict[str, Any] | None = None, **kwargs: Any) -> Run:
        """Submit a run below this one."""
        return self.experiment._submit(config, tags, parent=self.id, **kwargs)

    # Its life.

    def wait_for_completion(
        self, show_output: bool = False, wait_post_processing: bool = False, raise_on_error: bool = True
    ) -> dict[str, Any]:
        """Wait until the run has ended and its outputs are kept; with `show_output`, show what it prints.

        A run that failed raises ActivityFailedException, unless `raise_on_error` is false.
        """
        from windlass.client.following import Printer, follow

        printer = Printer() if show_output else None
        try:
            if printer is not None:
                _say(f"RunId: {self.id}\nWeb View: {self.get_portal_url()}\n")
            follow(self, printer)
        except KeyboardInterrupt:
            raise ExperimentExecutionException(
                "The output streaming for the run interrupted.\nBut the run is still executing on the compute target.",
                f"run.cancel() or windlass cancel {self.id} cancels it.",
            ) from None
        found = self.get_details()
        if printer is not None:
            printer.end()
            self._summarize(found)
        self._conclude(found, show_output, raise_on_error)
        return found

    def _summarize(self, found: dict[str, Any]) -> None:
        _say(f"\nExecution Summary\n=================\nRunId: {self.id}\nWeb View: {self.get_portal_url()}\n")
        messages = [warning["message"] for warning in found.get("warnings") or ()]
        if messages:
            _say("\nWarnings:\n" + "\n".join(messages) + "\n\n")

    def _conclude(self, found: dict[str, Any], show_output: bool, raise_on_error: bool) -> None:
        if found["status"] == "Failed":
            error = json.dumps(found.get("error") or _NO_ERROR, indent=4)
            if raise_on_error:
                raise ActivityFailedException(error)
            if show_output:
                _say(f"\nError:\n{error}\n")
        if show_output:
            _say("\n")

    def start(self) -> None:
        """A run is started by who makes it; nothing is left to do."""

    def complete(self, _set_status: bool = True) -> None:
        """Say that this run has done its work. For runs that are not submitted scripts."""
        self.flush()
        if _set_status:
            self._seen = self._call("POST", "/end", {"state": "Completed"})

    def fail(self, error_details: Any = None, error_code: str | None = None, _set_status: bool = True) -> None:
        """Say that this run failed, and why."""
        self.flush()
        body: dict[str, Any] = {"state": "Failed"}
        if error_details is not None or error_code is not None:
            body["error"] = {"code": error_code or "UserError", "message": _text(error_details)}
        if _set_status:
            self._seen = self._call("POST", "/end", body)

    def cancel(self) -> None:
        """Wish that the run ends. It does as soon as its target can be reached."""
        self._seen = self._call("POST", "/cancel")

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: Type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            self.complete()
        else:
            self.fail(error, kind.__name__)

    # Snapshots.

    def get_snapshot_id(self) -> str | None:
        found = self._refresh()["snapshot"]
        return None if found is None else str(found)

    def take_snapshot(self, file_or_folder_path: str) -> str:
        """Keep a source folder with this run; for runs that are not submitted with one."""
        from windlass.client.submission import attach_snapshot

        return attach_snapshot(self, file_or_folder_path)

    def restore_snapshot(self, snapshot_id: str | None = None, path: str | None = None) -> str:
        """Fetch the source of this run as a ZIP file; returns its path."""
        from windlass.client.snapshot_zip import restore

        return restore(self, snapshot_id, path)

    def _read_file(self, name: str) -> bytes:
        from windlass.client.run_files import quoted

        return b"".join(self._session.download(f"{self._path}/files/{quoted(name)}"))

    # What this version lacks.

    def register_model(self, model_name: str, model_path: str | None = None, **kwargs: Any) -> Any:
        raise NotProvided(
            "The registry of models", f"run.download_file({model_path or model_name!r}) fetches the file."
        )

    def get_secret(self, name: str) -> str:
        raise NotProvided("The key store", "Pass it as an environment variable of the run.")

    def get_secrets(self, secrets: Any) -> dict[str, str]:
        raise NotProvided("The key store", "Pass them as environment variables of the run.")

    @property
    def input_datasets(self) -> Any:
        raise NotProvided("Datasets of a run", "Pass paths as arguments of the script.")

    @property
    def output_datasets(self) -> Any:
        raise NotProvided("Datasets of a run", "Write to ./outputs.")

    # How it looks.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and (self.id, self.experiment) == (other.id, other.experiment)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Run(Experiment: {self.experiment.name},\nId: {self.id},\nType: {self.type},\nStatus: {self.status})"

    def _repr_html_(self) -> str:
        from windlass.client.notebook import run_html

        return run_html(self)


class ScriptRun(Run):
    """A run of a submitted script."""

    RUN_TYPE = SCRIPT


def make_run(experiment: Experiment, view: dict[str, Any]) -> Run:
    """The object for a record of the server."""
    kind = ScriptRun if view["type"] == SCRIPT else Run
    return kind(experiment, view["id"], _view=view)


def get_run(experiment: Experiment, run_id: str, rehydrate: bool = True, clean_up: bool = True) -> Run:
    return experiment.workspace.get_run(run_id)


def _text(error: Any) -> str:
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}"
    return "" if error is None else str(error)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
