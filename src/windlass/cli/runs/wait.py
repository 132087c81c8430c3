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
from windlass.client.runs.log_stream import StreamListener, follow_stream
from windlass.core.errors import ServerUnavailable

Run = dict[str, Any]
_STREAMS = 32  # each run has a stream of its own; so many at a time


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
@click.pass_obj
def wait(context: CommandContext, runs: tuple[str, ...], timeout: int | None) -> int:
    """Wait until each RUN has ended, and print a line for each when it does.

    The exit code is the one that `windlass submit` would have had, of several runs the highest: 0 if all completed.
    It is 124 if the time of --timeout is over; the runs go on.

    \b
    windlass wait @last @last~1 && windlass compare @last @last~1
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    ids = run_reference.find_all(context, runs)
    ended = _wait(context, ids, deadline)
    late = len(ids) - len(ended)
    if context.json:
        context.terminal.json({"runs": [ended.get(run_id) or context.get(f"/runs/{run_id}") for run_id in ids]})
    elif late:
        context.terminal.note("1 run goes on." if late == 1 else f"{late} runs go on.")
    return max([*map(exit_code, ended.values()), *([TIME_LIMIT] if late else [])])


def _wait(context: CommandContext, ids: list[str], deadline: float | None) -> dict[str, Run]:
    """The final views of the runs that ended before the deadline. Raises the error of a run that cannot be followed."""
    results: queue.SimpleQueue[Run | Exception] = queue.SimpleQueue()
    follower = _Follower(context, ids, results)
    for _ in range(min(len(ids), _STREAMS)):
        threading.Thread(target=follower.follow, daemon=True).start()
    ended: dict[str, Run] = {}
    while len(ended) < len(ids):
        try:
            found = results.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if isinstance(found, Exception):
            raise found
        ended[found["id"]] = found
        if not context.json:
            _print(context, found)
    return ended


def _print(context: CommandContext, run: Run) -> None:
    terminal = context.terminal
    how = outcome(run, context.now)
    state = str(run["status"])
    terminal.line(f"{format.short_id(run['id'])}  {terminal.state(state)}{how.removeprefix(state)}")
    sys.stdout.flush()


class _Follower(StreamListener):
    """Follows the runs of a list in several threads, and queues the final view of each."""

    def __init__(self, context: CommandContext, ids: list[str], results: queue.SimpleQueue[Run | Exception]) -> None:
        self._session, self._root, self._terminal = context.session, context.workspace_path, context.terminal
        self._waiting = collections.deque(ids)
        self._results = results
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

    def on_lost(self, error: Exception) -> None:
        if isinstance(error, CannotStart):  # a retry does not help
            raise error
        if isinstance(error, ServerUnavailable) and not self._is_away:
            self._is_away = True
            self._terminal.note("[the server is away; runs go on; waiting]")
