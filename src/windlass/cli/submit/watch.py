"""Watch a submitted run at the terminal until it has ended: log, Ctrl-C, exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.errors import INTERRUPTED
from windlass.cli.runs.log_stream import LogFollower, LogPrinter, Run, StatusReporter, exit_code, outcome
from windlass.cli.submit.request import Request

if TYPE_CHECKING:
    from windlass.cli.context import CommandContext


def submit(context: CommandContext, values: dict[str, Any]) -> int:
    """Submit a run, and watch it unless it is detached. `values` are the options of options.py."""
    request = Request(context, values)
    if values["dry_run"]:
        return print_plan(context, request.plan())
    return show_run(context, request.send(), values)


def show_run(context: CommandContext, run: Run, values: dict[str, Any]) -> int:
    """Print the id of a detached run, or watch the run; `values` are the options."""
    if values["detach"]:
        return _print_run(context, run)
    return _RunWatcher(context, run, values["quiet"]).watch()


def watch_run(context: CommandContext, run: Run) -> int:
    """Watch a run that was submitted by other code; returns the exit code."""
    return _RunWatcher(context, run, quiet=False).watch()


def print_plan(context: CommandContext, plan: dict[str, Any]) -> int:
    if context.json:
        context.terminal.json(plan)
    else:
        context.terminal.line(plan["text"].rstrip("\n"))
    return 0


def _print_run(context: CommandContext, run: Run) -> int:
    if context.json:
        context.terminal.json(run)
    else:
        context.terminal.line(run["id"])
    return 0


class _RunWatcher:
    """Shows a run to the user at a terminal."""

    def __init__(self, context: CommandContext, run: Run, quiet: bool) -> None:
        self._context = context
        self._run = run
        self._quiet = quiet
        # With --json the document is on stdout, so the log is written to stderr.
        self._printer = LogPrinter(sys.stderr if context.json else sys.stdout)
        self._status = StatusReporter(context, self._printer)
        status = None if quiet else self._status
        self._follower = LogFollower(context, run["id"], self._printer, status, is_known=True)

    def watch(self) -> int:
        self._note(f"Run {self._run['id']} on {self._run['target']}")
        is_canceled = False
        while True:
            try:
                return self._end(self._follower.follow())
            except KeyboardInterrupt:
                if is_canceled or not self._wants_to_cancel():
                    return self._leave_running(is_canceled)
                is_canceled = True
                self._context.post(f"/runs/{self._run['id']}/cancel")
                self._note("Canceling. Ctrl-C again does not wait for it.", even_if_quiet=True)

    def _end(self, run: Run) -> int:
        self._status.clear()
        self._printer.close()
        if self._context.json:
            self._context.terminal.json(run)
        elif not self._quiet:
            self._note(self._summary(run))
        elif run["state"] != "Completed" and not run.get("exit_code"):
            self._note(self._summary(run), even_if_quiet=True)
        return exit_code(run)

    def _summary(self, run: Run) -> str:
        from windlass.core.sanitize import escape

        return f"{outcome(run, self._context.now)}\n{escape(run.get('url') or '')}".rstrip()

    def _wants_to_cancel(self) -> bool:
        try:
            self._status.clear()
            self._printer.close()
            if sys.stdin.isatty() and sys.stderr.isatty():
                sys.stderr.write("\nThe run goes on. Ctrl-C cancels it, Enter leaves it running. ")
                sys.stderr.flush()
                sys.stdin.readline()
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            return True
        return False

    def _leave_running(self, is_canceled: bool) -> int:
        """Stop watching; the run goes on."""
        from windlass.cli.output import format

        short = format.short_id(self._run["id"])
        text = f"The run goes on.  Follow: windlass logs -f {short}   Cancel: windlass cancel {short}"
        self._note("The run is asked to stop." if is_canceled else text, even_if_quiet=True)
        if self._context.json:
            self._context.terminal.json(self._run)
        return INTERRUPTED

    def _note(self, text: str, even_if_quiet: bool = False) -> None:
        if not self._quiet or even_if_quiet:
            self._context.terminal.note(text)
