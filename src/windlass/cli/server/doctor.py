"""`windlass doctor`: problems of this machine, each with the command that fixes it."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.errors import OTHER
from windlass.cli.server.doctor_checks import BAD, GOOD, Finding, examine, to_json
from windlass.cli.server.server import home
from windlass.core.sanitize import one_line


@click.command("doctor", cls=Command, short_help="Check this machine, and print what fixes each problem.")
@click.pass_obj
def doctor(context: CommandContext) -> int:
    """Check what Windlass needs on this machine: folders, disk, settings, server, programs, limits, clock. Starts and
    changes nothing.

    The exit code is 1 if something is wrong.
    """
    findings = examine(home(context))
    wrong = [finding for finding in findings if finding.state == BAD]
    if context.json:
        context.terminal.json({"ok": not wrong, "checks": to_json(findings)})
        return OTHER if wrong else 0
    widest = max(len(finding.check) for finding in findings)
    for finding in findings:
        _print(context, finding, widest)
    doubtful = sum(finding.state != GOOD for finding in findings)
    context.terminal.line()
    context.terminal.line(_sum(len(wrong), doubtful - len(wrong)))
    return OTHER if wrong else 0


def _print(context: CommandContext, finding: Finding, widest: int) -> None:
    terminal = context.terminal
    marks = {
        GOOD: terminal.paint(terminal.symbol("✓", "ok"), "green"),
        BAD: terminal.paint(terminal.symbol("✗", "no"), "red"),
    }
    mark = marks.get(finding.state, terminal.paint("!" + terminal.symbol("", " "), "yellow"))
    terminal.line(f"{mark} {finding.check.ljust(widest)}  {one_line(finding.message)}")
    if finding.fix:
        terminal.line(f"  {' ' * widest}  {terminal.bold(one_line(finding.fix))}")


def _sum(wrong: int, doubtful: int) -> str:
    if wrong:
        return f"{wrong} to fix." if not doubtful else f"{wrong} to fix, {doubtful} to look at."
    return "All is well." if not doubtful else f"It works; {doubtful} to look at."
