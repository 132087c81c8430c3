"""Model of a displayed run: its state, the end of its log, its metrics and its children."""

from __future__ import annotations

import base64
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Dict, List

from windlass.client.notebook.log_tail import LogTail
from windlass.client.notebook.metric_series import Metric
from windlass.client.runs.record import FINAL

if TYPE_CHECKING:
    from windlass.client.http.session import Session
    from windlass.client.runs.run import Run

LOG_LINES = 200
MOST_CHILDREN = 20


class LiveRun:
    """Updated by the events of the server's stream, or by `load`. `view` is the server's view of the run."""

    def __init__(self, view: dict[str, Any]) -> None:
        self.view = view
        self.children: List[Dict[str, Any]] = []
        self.has_more_children = False
        self.note = ""  # about the widget itself, such as that the server does not answer
        self.restart()

    @property
    def is_final(self) -> bool:
        return self.view["status"] in FINAL

    def restart(self) -> None:
        """Discard the log and the metrics, which the stream sends again from its beginning."""
        self.log = LogTail(LOG_LINES)
        self.metrics: Dict[str, Metric] = {}
        self.changed()

    def changed(self) -> None:
        self.changed_at = datetime.now(timezone.utc)

    def take(self, event: str, body: dict[str, Any]) -> None:
        """Apply an event of the stream."""
        if event in ("state", "end"):
            self.view = {**self.view, **body}
        elif event == "log":
            self.log.feed(body["path"], body["offset"], base64.b64decode(body["data"]))
        elif event == "gap":
            self.log.skip(body["path"], body["offset"], body["length"])
        elif event == "attempt":
            self.log = LogTail(LOG_LINES)
        elif event == "metric":
            if body.get("i") == 0:  # a later attempt logs it again, from its first value
                self.metrics.pop(body["n"], None)
            self.metrics.setdefault(body["n"], Metric(body.get("k", "scalar"))).add(body["v"], body.get("s"))
        self.changed()

    def take_children(self, page: dict[str, Any]) -> None:
        """Replace the children by the result of `find_children`."""
        if page["runs"] != self.children:
            self.children, self.has_more_children = page["runs"], page["next"] is not None
            self.changed()


def find_children(session: Session, run: Run) -> dict[str, Any]:
    query = {"parent": run.id, "limit": MOST_CHILDREN}
    page: dict[str, Any] = session.call("GET", f"{run.experiment.workspace._path}/runs", query=query)
    return page


def load(run: Run) -> LiveRun:
    """The current state of a run, by requests without the stream."""
    live = LiveRun(run._refresh())
    for name, series in run._call("GET", "/metrics")["metrics"].items():
        for point in series["values"]:
            live.take("metric", {"n": name, "k": series["kind"], "v": point["v"], "s": point.get("s")})
    logs = live.view["log_files"]
    for path in [*(name for name in logs if name.startswith("user_logs/")), *logs][:1]:
        live.log.feed(path, 0, run._read_file(path))
    live.take_children(find_children(run._session, run))
    return live
