"""Lifecycle of a run: status, wait for completion, complete, fail, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.exceptions import ActivityFailedException, ExperimentExecutionException
from windlass.client.metrics.metric_logging import MetricLogging, metric_line
from windlass.client.runs.record import FINAL

if TYPE_CHECKING:
    from types import TracebackType

    from windlass.client.metrics.metric_uploader import MetricUploader

# Kinds of events that wait_for_completion() shows as warnings.
_WARNINGS = ("warning", "log_capped", "left_out")
_NO_ERROR = "Detailed error not set on the Run. Please check the logs for details."


class RunLifecycle(MetricLogging):
    _uploader: MetricUploader | None = None

    @property
    def status(self) -> str:
        """The last status that was received; get_status() asks the server."""
        return str(self._view["status"])

    def get_portal_url(self) -> str:
        """The address of the run's page."""
        return str(self._view["url"])

    def get_status(self) -> str:
        if self._view["status"] not in FINAL:
            self._refresh()
        return self.status

    def get_detailed_status(self) -> dict[str, Any]:
        """The status, and a message why the run waits or how it ended."""
        status = self.get_status()
        return {"status": status, "details": self._view["message"] or None}

    def get_details(self) -> dict[str, Any]:
        """All about the run, with Azure's keys."""
        return self._details(self._refresh())

    def _details(self, view: dict[str, Any]) -> dict[str, Any]:
        from windlass.client.runs.details import details

        return details(view, f"{self._session.address.url}/api/v1{self._path}")

    def wait_for_completion(
        self, show_output: bool = False, wait_post_processing: bool = False, raise_on_error: bool = True
    ) -> dict[str, Any]:
        """Wait until the run has ended and its outputs are stored; with `show_output`, show what it prints.

        A run that failed raises ActivityFailedException, unless `raise_on_error` is false.
        """
        from windlass.client.runs.log_stream import LogPrinter, follow

        printer = LogPrinter(self) if show_output else None
        try:
            if printer is not None:
                _say(f"RunId: {self.id}\nWeb View: {self.get_portal_url()}\n")
            found = self._details(follow(self, printer))
        except KeyboardInterrupt:
            raise ExperimentExecutionException(
                "The output streaming for the run interrupted.\nBut the run is still executing on the compute target.",
                f"run.cancel() or windlass cancel {self.id} cancels it.",
            ) from None
        if printer is not None:
            printer.end()
            self._summarize()
        self._conclude(found, show_output, raise_on_error)
        return found

    def _summarize(self) -> None:
        _say(f"\nExecution Summary\n=================\nRunId: {self.id}\nWeb View: {self.get_portal_url()}\n")
        events = self._call("GET", "/events")["events"]
        messages = [event["message"] for event in events if event["kind"] in _WARNINGS]
        if messages:
            _say("\nWarnings:\n" + "\n".join(messages) + "\n\n")

    def _conclude(self, found: dict[str, Any], show_output: bool, raise_on_error: bool) -> None:
        if found["status"] == "Failed":
            import json

            error = json.dumps(found.get("error") or _NO_ERROR, indent=4)
            if raise_on_error:
                raise ActivityFailedException(error)
            if show_output:
                _say(f"\nError:\n{error}\n")
        if show_output:
            _say("\n")

    def start(self) -> None:
        """Do nothing: a run is started when it is created."""

    def complete(self, _set_status: bool = True) -> None:
        """Mark this run as completed. For runs that are not submitted scripts."""
        self.flush()
        if _set_status:
            self._seen = self._call("POST", "/end", {"state": "Completed"})

    def fail(self, error_details: Any = None, error_code: str | None = None, _set_status: bool = True) -> None:
        """Mark this run as failed, with an error."""
        self.flush()
        body: dict[str, Any] = {"state": "Failed"}
        if error_details is not None or error_code is not None:
            body["error"] = {"code": error_code or "UserError", "message": _text(error_details)}
        if _set_status:
            self._seen = self._call("POST", "/end", body)

    def cancel(self) -> None:
        """Request that the run is canceled. It ends as soon as its target can be reached."""
        self._seen = self._call("POST", "/cancel")

    def archive(self) -> None:
        """Leave this run out of lists, unless they ask for archived runs. All of it is kept."""
        self._change(archived=True)

    def unarchive(self) -> None:
        """Undo archive()."""
        self._change(archived=False)

    @property
    def archived_time(self) -> str | None:
        """When it was archived; None if it is in lists."""
        moment: str | None = self._view["archived_at"]
        return moment

    def delete(self, children: bool = False) -> None:
        """Delete this run with its logs, metrics, files and events. It must have ended. Runs below it are deleted too
        with `children=True`; without it, a run that has some is refused. Registered models stay.
        """
        self._call("DELETE", "", query={"children": "true"} if children else None)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            self.complete()
        else:
            self.fail(error, kind.__name__)

    def _write_metric(self, name: str, value: Any, kind: str, step: int | None, description: str) -> None:
        self._metric_uploader().add(metric_line(name, value, kind, step, description))

    def _metric_uploader(self) -> MetricUploader:
        if self._uploader is None:
            from windlass.client.metrics.metric_uploader import MetricUploader

            self._uploader = MetricUploader(lambda batch: self._call("POST", "/metrics", batch))
        return self._uploader

    def flush(self, timeout_seconds: float = 300) -> None:
        """Return when the server has everything that was logged here."""
        if self._uploader is not None:
            self._uploader.flush(timeout_seconds)


def _text(error: Any) -> str:
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}"
    return "" if error is None else str(error)


def _say(text: str) -> None:
    from windlass.client.runs.log_stream import say

    say(text)
