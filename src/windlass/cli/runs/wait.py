"""`windlass wait`: wait until runs have ended."""

from __future__ import annotations

import collections
import queue
import sys
import threading
import time
from typing import Any

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.errors import OWN_FAILURE, TIME_LIMIT
from windlass.cli.output import format
from windlass.cli.parameters import run_reference
from windlass.cli.parameters.types import RUN
from windlass.cli.runs.log_stream import exit_code, outcome
from windlass.cli.submit.options import read_duration
from windlass.client.http.embedded_server import CannotStart
from windlass.client.http.progress import CLEAR_LINE
from windlass.client.runs.log_stream import StreamListener, follow_stream
from windlass.client.runs.record import FINAL
from windlass.core.errors import InvalidRequest, ServerUnavailable
from windlass.core.sanitize import one_line

Run = dict[str, Any]
STREAMS = 32  # each run has a stream of its own; so many at a time


def _duration(ctx: click.Context, option: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else read_duration(text)
    except ValueError as e:
        raise click.BadParameter(str(e), ctx, option) from None


class _Wait(Command):
    failure_code = OWN_FAILURE  # as submit: other codes are the scripts'


@click.command("wait", cls=_Wait, short_help="Wait until runs have ended.")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@click.option("--timeout", callback=_duration, metavar="TIME", help="Wait for so long at most: 90 (seconds), 15m, 2h.")
@click.option("--any", "first_only", is_flag=True, help="Wait only until the first of them has ended.")
@click.pass_obj
def wait(context: CommandContext, runs: tuple[str, ...], timeout: int | None, first_only: bool) -> int:
    """Wait until each RUN has ended, and print a line for each when it does.

    The exit code is the one that `windlass submit` would have had; of several runs that of the first one, in the order
    of the command line, that did not complete. It is 0 if all completed, and 124 if the time of --timeout is over: the
    runs go on.

    \b
    windlass wait @last @last~1 && windlass compare @last @last~1
    windlass wait --timeout 2h 3f9a1c2b || windlass logs 3f9a1c2b
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    ids = run_reference.find_all(context, runs)
    if first_only and len(ids) > STREAMS:
        raise InvalidRequest(f"--any takes at most {STREAMS} runs, not {len(ids)}.", "Name fewer.")
    ended = _wait(context, ids, deadline, 1 if first_only else len(ids))
    late = len(ids) - len(ended)
    if context.json:
        context.terminal.json({"runs": [ended.get(run_id) or context.get(f"/runs/{run_id}") for run_id in ids]})
    elif late:
        context.terminal.note("1 run goes on." if late == 1 else f"{late} runs go on.")
    failed = next((code for code in (exit_code(ended[run_id]) for run_id in ids if run_id in ended) if code), 0)
    is_over = late and not (first_only and ended)
    return failed or (TIME_LIMIT if is_over else 0)


def _wait(context: CommandContext, ids: list[str], deadline: float | None, count: int) -> dict[str, Run]:
    """The final views of the first `count` runs that end, or of those that ended before the deadline. Raises the error
    of a run that cannot be followed.
    """
    results: queue.SimpleQueue[Run | Exception] = queue.SimpleQueue()
    progress = _Progress(context, ids)
    follower = _Follower(context, ids, results, progress)
    for _ in range(min(len(ids), STREAMS)):
        threading.Thread(target=follower.follow, daemon=True).start()
    ended: dict[str, Run] = {}
    try:
        while len(ended) < count:
            found = results.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            if isinstance(found, Exception):
                raise found
            ended[found["id"]] = found
            progress.clear()
            if not context.json:
                _print(context, found)
            progress.show(found)
    except queue.Empty:
        pass
    finally:
        progress.close()
    return ended


def _print(context: CommandContext, run: Run) -> None:
    terminal = context.terminal
    how = outcome(run, context.now)
    state = str(run["status"])
    terminal.line(f"{format.short_id(run['id'])}  {terminal.state(state)}{how.removeprefix(state)}")
    sys.stdout.flush()


class _Progress:
    """One line at a terminal that says how many runs are in which state, or for one run why it waits."""

    def __init__(self, context: CommandContext, ids: list[str]) -> None:
        self._terminal, self._total = context.terminal, len(ids)
        self._is_shown = sys.stderr.isatty() and not context.json
        self._lock = threading.Lock()  # of all that follows: each run is followed by a thread
        self._runs: dict[str, Run] = {}

    def show(self, run: Run) -> None:
        """Draw the line with the new state of a run."""
        with self._lock:
            self._runs[run["id"]] = run
            text = self._text()
            if self._is_shown and text:
                sys.stderr.write(f"{CLEAR_LINE}{text[: (self._terminal.width or 80) - 1]}")
                sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line, before something else is printed."""
        with self._lock:
            if self._is_shown:
                sys.stderr.write(CLEAR_LINE)
                sys.stderr.flush()

    def close(self) -> None:
        self.clear()
        self._is_shown = False

    def _text(self) -> str:
        active = [run for run in self._runs.values() if run["state"] not in FINAL]
        if self._total == 1:
            why = [one_line(run.get("message") or "") if run["state"] != "Running" else "" for run in active]
            return "".join(
                f"{run['status']}{f': {text}' if text else ''}" for run, text in zip(active, why, strict=True)
            )
        counts = collections.Counter(str(run["status"]) for run in active)
        states = [f"{count} {state}" for state, count in sorted(counts.items())]
        ended = f"{len(self._runs) - len(active)} of {self._total} ended"
        return self._terminal.symbol(" · ", ", ").join([ended, *states]) if active else ""


class _Follower(StreamListener):
    """Follows the runs of a list in several threads, and queues the final view of each."""

    def __init__(
        self,
        context: CommandContext,
        ids: list[str],
        results: queue.SimpleQueue[Run | Exception],
        progress: _Progress,
    ) -> None:
        self._session, self._root, self._terminal = context.session, context.workspace_path, context.terminal
        self._waiting = collections.deque(ids)
        self._results, self._progress = results, progress
        self._is_away = False

    def follow(self) -> None:
        """The body of a thread: follow one run after the other."""
        while self._waiting:
            try:
                path = f"{self._root}/runs/{self._waiting.popleft()}/stream"
            except IndexError:
                return  # another thread has taken the last one
            try:
                self._results.put(follow_stream(self._session, path, self, log=None))
            except Exception as e:
                self._results.put(e)

    def on_event(self) -> None:
        self._is_away = False

    def on_state(self, run: Run) -> None:
        self._progress.show(run)

    def on_lost(self, error: Exception) -> None:
        if isinstance(error, CannotStart):  # a retry does not help
            raise error
        if isinstance(error, ServerUnavailable) and not self._is_away:
            self._is_away = True
            self._progress.clear()
            self._terminal.note("[the server is away; runs go on; waiting]")
