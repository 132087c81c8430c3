"""What happens between a submit and its end: the log at the terminal, Ctrl-C, the exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.errors import INTERRUPTED
from windlass.cli.runs.log_stream import Following, LogPrinter, Run, Waiting, exit_code
from windlass.cli.submit.request import Request

if TYPE_CHECKING:
    from windlass.cli.context import Call


def submit(call: Call, values: dict[str, Any]) -> int:
    """Send the run, and watch it unless told otherwise. `values` are the options of submit_options.py."""
    request = Request(call, values)
    if values["dry_run"]:
        return _print_plan(call, request.plan())
    run = request.send()
    if values["detach"]:
        return _leave(call, run)
    return _Attendance(call, run, values["quiet"]).to_end()


def attend(call: Call, run: Run) -> int:
    """Watch a run that was sent some other way."""
    return _Attendance(call, run, quiet=False).to_end()


def _print_plan(call: Call, plan: dict[str, Any]) -> int:
    if call.json:
        call.terminal.json(plan)
    else:
        call.terminal.line(plan["text"].rstrip("\n"))
    return 0


def _leave(call: Call, run: Run) -> int:
    if call.json:
        call.terminal.json(run)
    else:
        call.terminal.line(run["id"])
    return 0


class _Attendance:
    """Somebody sits at the terminal and watches the run."""

    def __init__(self, call: Call, run: Run, quiet: bool) -> None:
        self._call = call
        self._run = run
        self._quiet = quiet
        # With --json stdout belongs to the document, so the log goes where notes go.
        self._printer = LogPrinter(sys.stderr if call.json else sys.stdout)
        self._waiting = Waiting(call, self._printer)
        tell = None if quiet else self._waiting.tell
        self._following = Following(call, run["id"], self._printer, tell, is_known=True, before_log=self._waiting.clear)

    def to_end(self) -> int:
        self._note(f"Run {self._run['id']} on {self._run['target']}")
        is_canceled = False
        while True:
            try:
                return self._end(self._following.to_end())
            except KeyboardInterrupt:
                if is_canceled or not self._wants_to_cancel():
                    return self._go(is_canceled)
                is_canceled = True
                self._call.post(f"/runs/{self._run['id']}/cancel")
                self._note("Canceling. Ctrl-C again does not wait for it.", even_if_quiet=True)

    def _end(self, run: Run) -> int:
        self._waiting.clear()
        self._printer.close()
        if self._call.json:
            self._call.terminal.json(run)
        elif not self._quiet:
            self._note(self._summary(run))
        elif run["state"] != "Completed" and not run.get("exit_code"):
            self._note(self._summary(run), even_if_quiet=True)
        return exit_code(run)

    def _summary(self, run: Run) -> str:
        from windlass.cli.output import format
        from windlass.core.sanitize import one_line, shown

        why = "" if run["state"] == "Completed" else f": {one_line(format.brief(run.get('message') or ''))}"
        length = format.duration(format.took(run, self._call.now))
        how = f"{run['status']} after {length}" if length else run["status"]
        return f"{how}{why}\n{shown(run.get('url') or '')}".rstrip()

    def _wants_to_cancel(self) -> bool:
        try:
            self._waiting.clear()
            self._printer.close()
            if sys.stdin.isatty() and sys.stderr.isatty():
                sys.stderr.write("\nThe run goes on. Ctrl-C cancels it, Enter leaves it running. ")
                sys.stderr.flush()
                sys.stdin.readline()
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            return True
        return False

    def _go(self, is_canceled: bool) -> int:
        """Leave the run to itself."""
        from windlass.cli.output import format

        short = format.short_id(self._run["id"])
        text = f"The run goes on.  Follow: windlass logs -f {short}   Cancel: windlass cancel {short}"
        self._note("The run is asked to stop." if is_canceled else text, even_if_quiet=True)
        if self._call.json:
            self._call.terminal.json(self._run)
        return INTERRUPTED

    def _note(self, text: str, even_if_quiet: bool = False) -> None:
        if not self._quiet or even_if_quiet:
            self._call.terminal.note(text)
