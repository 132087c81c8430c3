"""RunDetails: the run widget, as live HTML in a notebook, and as a few lines of text elsewhere."""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from typing import Any, Callable, Dict, Tuple

from windlass.client.exceptions import UserErrorException
from windlass.client.http.embedded_server import background_session
from windlass.client.notebook.live_run import LiveRun, find_children, load
from windlass.client.runs.record import FINAL
from windlass.client.runs.run import Run
from windlass.core.errors import ServerUnavailable, WindlassError

# Minimum interval between updates, since each replaces the whole output of the cell.
REDRAW_SECONDS = 1.0
# Poll interval of the run's children, which the event stream does not include.
CHILDREN_SECONDS = 5.0
# How long to reconnect before the view is not updated any more. The run goes on in any case.
RETRY_SECONDS = 600.0
_RECONNECT_SECONDS = 1.0
# How long a cell waits for the last view of a run that has ended.
_ENDED_SECONDS = 5.0


class RunDetails:
    """A view of a run.

    In a notebook the output of the cell is updated until the run has ended; the cell itself is done at once.
    """

    def __init__(self, run_instance: Run) -> None:
        if not isinstance(run_instance, Run):
            raise UserErrorException(
                f"RunDetails shows a run, not a {type(run_instance).__name__}.",
                "Experiment.submit() returns a run; Run.get(workspace, run_id) finds one.",
            )
        self._run = run_instance

    def show(self, render_lib: Any = None, widget_settings: dict[str, Any] | None = None) -> None:
        """Show the run as it is now. In a notebook the view is updated in the background until the run has ended.

        `render_lib` is a function that shows HTML, such as `displayHTML` of Databricks: it is called once.
        `widget_settings` has no effect here.
        """
        notebook = _Notebook.current()
        if callable(render_lib):
            render_lib(_html(load(self._run), is_live=False))
        elif notebook is None:
            _print_text(self._run)
        else:
            _follower_of(self._run, notebook).show()

    def get_widget_data(self, widget_settings: dict[str, Any] | None = None) -> dict[str, Any]:
        """The data of the view, as a dict with the keys of Azure's widget."""
        from windlass.client.notebook.widget_data import widget_data

        return widget_data(load(self._run), widget_settings)


def _print_text(run: Run) -> None:
    from windlass.client.runs.log_stream import say

    run.get_status()
    say(_text(run._view) + "\n")


class _Notebook:
    """The notebook of this process, which is its kernel."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @classmethod
    def current(cls) -> _Notebook | None:
        """None where the process has not loaded IPython, or IPython has no kernel, as in a terminal."""
        shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        return cls(shell) if getattr(shell, "kernel", None) is not None else None

    def publish(self, html: str, text: str, display_id: str, is_update: bool) -> None:
        """Add an output to the running cell, or replace those that have this display id."""
        data = {"text/html": html, "text/plain": text}
        self._shell.display_pub.publish(data, transient={"display_id": display_id}, update=is_update)

    def call_after_cells(self, function: Callable[..., None]) -> None:
        self._shell.events.register("post_run_cell", function)

    def stop_calling(self, function: Callable[..., None]) -> None:
        self._shell.events.unregister("post_run_cell", function)


def _text(view: dict[str, Any]) -> str:
    from windlass.client.notebook.html import reason

    lines = [f"RunId: {view['id']}", f"Web View: {view['url']}", f"Status: {view['status']}", reason(view)]
    return "\n".join(line for line in lines if line)


def _html(live: LiveRun, is_live: bool) -> str:
    from windlass.client.notebook.widget_html import render

    return render(live, is_live)


_followers: Dict[Tuple[str, str], _Follower] = {}


def _follower_of(run: Run, notebook: _Notebook) -> _Follower:
    """The follower of a run: one per process, so that a cell that is executed again adds no threads."""
    address = run._session.address
    key = (address.home or address.url, run._path)
    if key not in _followers or _followers[key].has_ended.is_set():
        _followers[key] = _Follower(run, notebook)
    return _followers[key]


class _Follower:
    """Two daemon threads: one reads the run's events from the server, one redraws the view when something changed.

    Programs that execute notebooks, such as nbclient, drop what is published between two cells. So the view is
    published once more at the end of a cell if it changed since the one before.
    """

    def __init__(self, run: Run, notebook: _Notebook) -> None:
        self.has_ended = threading.Event()  # the reader has ended
        self._run = run
        self._session = background_session(run._session)
        self._notebook = notebook
        self._id = f"windlass-{uuid.uuid4().hex}"
        self._live = LiveRun(run._view)
        self._lock = threading.Lock()  # guards _live
        self._has_changed = threading.Event()
        self._is_complete = threading.Event()  # the last view is shown
        self._output = threading.Lock()  # guards publish() and the next three fields
        self._shown = ("", "")
        self._shown_in_cell = ("", "")
        self._has_waited = False  # a cell has waited for the last view

    def show(self) -> None:
        is_first = self._shown == ("", "")
        self._draw(is_live=True, is_update=False)
        self._shown_in_cell = self._shown
        if is_first:
            for target, name in ((self._read, "read"), (self._redraw, "redraw")):
                threading.Thread(target=target, name=f"windlass-widget-{name}", daemon=True).start()
            self._notebook.call_after_cells(self._end_cell)

    def _end_cell(self, *_: Any) -> None:
        """Called at the end of each cell. If the Run object has a final status, wait for the last view first."""
        if (self._run._seen or {}).get("status") in FINAL and not self._has_waited:
            self._has_waited = True
            self._is_complete.wait(_ENDED_SECONDS)
        with self._output:
            if self._shown != self._shown_in_cell:
                self._notebook.publish(*self._shown, self._id, True)
                self._shown_in_cell = self._shown
        if self._is_complete.is_set():
            self._notebook.stop_calling(self._end_cell)

    def _read(self) -> None:
        try:
            self._follow()
        except WindlassError as e:
            self._note(f"This view is not updated any more. {e.message}")
        except Exception as e:
            self._note(f"This view is not updated any more: {type(e).__name__}")
            raise
        finally:
            self.has_ended.set()
            self._has_changed.set()

    def _follow(self) -> None:
        """Read the stream until the run has ended. After a lost connection, reconnect and read from its beginning."""
        last_event = time.monotonic()
        while True:
            try:
                for at, (event, data) in enumerate(self._events()):
                    last_event = time.monotonic()
                    self._take(event, json.loads(data), is_first=at == 0)
                    if event == "end":
                        return
            except (OSError, ServerUnavailable) as e:
                if time.monotonic() - last_event > RETRY_SECONDS:
                    raise ServerUnavailable(f"The server did not answer for {RETRY_SECONDS:.0f} s.") from e
            self._note("The server does not answer now. The run goes on; this view waits for the server.")
            time.sleep(_RECONNECT_SECONDS)

    def _events(self) -> Any:
        return self._session.events(f"{self._run._path}/stream", {"log": "auto", "metrics": "true"})

    def _take(self, event: str, body: dict[str, Any], is_first: bool) -> None:
        with self._lock:
            if is_first:
                self._live.restart()
                self._live.note = ""
            self._live.take(event, body)
        self._has_changed.set()

    def _note(self, text: str) -> None:
        with self._lock:
            if self._live.note != text:
                self._live.note = text
                self._live.changed()
        self._has_changed.set()

    def _redraw(self) -> None:
        is_last = False
        while not is_last:
            self._has_changed.wait(CHILDREN_SECONDS)
            is_last = self.has_ended.is_set()
            self._has_changed.clear()
            self._load_children()
            self._draw(is_live=not is_last, is_update=True)
            self.has_ended.wait(REDRAW_SECONDS)
        self._is_complete.set()

    def _draw(self, is_live: bool, is_update: bool) -> None:
        with self._output:
            with self._lock:
                drawn = (_html(self._live, is_live), _text(self._live.view))
            if drawn != self._shown or not is_update:
                self._notebook.publish(*drawn, self._id, is_update)
                self._shown = drawn

    def _load_children(self) -> None:
        """Request the children; while the server does not answer, the last ones stay."""
        try:
            page = find_children(self._session, self._run)
        except (OSError, WindlassError):
            return
        with self._lock:
            self._live.take_children(page)
