"""Errors and hints for what ssh, a login shell or the runner's bootstrap printed before a connection ended."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.errors import (
    LoginRefused,
    NoCapacity,
    TargetQuarantined,
    TargetRejected,
    TargetUnreachable,
    WindlassError,
)
from windlass.drivers.openssh.login import LoginHop

_CHANGED = "The host key of {name} is not the one that was pinned: it may be another machine. Nothing was sent."
_TRUST = "If the machine was set up anew: windlass compute trust {name}"
# Exit codes of ssh itself. Others are of the remote command, whose output may contain the same texts.
_OF_SSH = (255, None)
_PATTERNS: tuple[tuple[str, type[WindlassError], str, str], ...] = (
    ("IDENTIFICATION HAS CHANGED", TargetQuarantined, _CHANGED, _TRUST),
    ("Host key verification failed", TargetQuarantined, _CHANGED, _TRUST),
    ("host key is known for", TargetQuarantined, _CHANGED, _TRUST),
    ("Permission denied", LoginRefused, "{name} does not let us in: {output}",
     "Check user name and credentials, then: windlass compute attach … --update"),
    ("Too many authentication failures", LoginRefused, "{name} does not let us in: {output}",
     "The agent offers too many keys; name one: --private-key-file"),
    ("Could not resolve hostname", TargetUnreachable, "{name} cannot be reached: {output}", "Check the address."),
    ("Connection refused", TargetUnreachable, "{name} cannot be reached: {output}",
     "Is its SSH server running, on that port?"),
    ("No route to host", TargetUnreachable, "{name} cannot be reached: {output}", "Is the machine on?"),
    ("timed out", TargetUnreachable, "{name} cannot be reached: {output}",
     "Is the machine on, and does a firewall let port and address pass?"),
)  # fmt: skip


def explain(hop: LoginHop, code: int | None, output: str) -> WindlassError | None:
    """The error that the exit code and error output mean; None if they match no known problem."""
    for problem, said in _bootstrap_reports(output):
        return _bootstrap_error(hop.name, problem, said)
    for sign, kind, sentence, hint in _PATTERNS if code in _OF_SSH else ():
        if sign.lower() in output.lower():
            if kind is TargetQuarantined and hop.alias not in output:
                return _unknown_host_key(hop.name)
            # With the expected key: another one may be pinned by the time this is read.
            details = {"pin": hop.address.host_key} if kind is TargetQuarantined else {}
            return kind(sentence.format(name=hop.name, output=last_line(output)), hint.format(name=hop.name), details)
    if "account is currently not available" in output:
        return LoginRefused(f"The account on {hop.name} has no login shell.", "There: sudo chsh -s /bin/bash USER")
    if code == 127 or "not found" in output and "python" in output:
        return TargetRejected(
            f"There is no Python on {hop.name} under the name that was given.",
            "There: sudo apt-get install python3; or name another: windlass compute attach ssh … --python /path "
            f"(of one that is attached: windlass compute update {hop.name} --python /path)",
        )
    return None


def explain_behind(
    hop: LoginHop, jump: LoginHop, code: int | None, output: str, jump_output: str
) -> WindlassError | None:
    """The error of a machine or of its jump host, each of which has an error output of its own."""
    problem = explain(hop, code, output)
    is_vague = problem is None or type(problem) is TargetUnreachable  # also if the jump host hangs up
    if not is_vague or not jump_output.strip():
        return problem
    if "forwarding failed" in jump_output:
        return TargetUnreachable(
            f"{hop.name} cannot be reached from its jump host {jump.name}.",
            "Is the machine on, and its SSH server running, on that port?",
        )
    return of_jump(hop, explain(jump, None, jump_output) or unreachable(jump, jump_output))


def of_jump(hop: LoginHop, problem: WindlassError) -> TargetUnreachable:
    """An error of the jump host. For the machine behind it, it is transient: its runs wait."""
    return TargetUnreachable(f"The jump host of {hop.name}: {problem.message}", problem.hint, {"of_jump": problem.code})


def unreachable(hop: LoginHop, output: str) -> TargetUnreachable:
    return TargetUnreachable(f"{hop.name} cannot be reached: {last_line(output)}")


def last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return (lines[-1] if lines else "")[:300]


def _unknown_host_key(name: str) -> TargetUnreachable:
    return TargetUnreachable(
        f"{name} cannot be reached: ssh does not know the host key of a machine on the way there.",
        "It is one that ~/.ssh/config names, as in ProxyJump: log in there once.",
    )


def _bootstrap_reports(output: str) -> Iterator[tuple[str, str]]:
    for line in output.splitlines():
        if line.startswith("windlass-arrival "):
            _, problem, *said = line.split(" ", 2)
            yield problem, said[0] if said else ""


def _bootstrap_error(name: str, problem: str, said: str) -> WindlassError:
    if problem == "old-python":
        return TargetRejected(
            f"Python {said} on {name} is too old: the runner needs 3.8 or newer.",
            "There: sudo apt-get install python3.11, or name another one with --python",
        )
    if problem == "not-private":
        return TargetRejected(
            f"The folder for runs on {name} is not safe from other accounts there: {said}.",
            "There: chmod go-w that folder; or name one that no other account can write or replace: "
            f"windlass compute attach ssh {name} … --update --root FOLDER.",
        )
    if problem == "no-space":  # as the host says of a full disk: runs wait until there is room
        return NoCapacity(f"{name} has no room: {said}.", "Make room there, or name another folder with --root")
    return TargetRejected(
        f"{name} cannot be used: its folder cannot be written: {said}.",
        "Give the right to write there, or name another folder with --root",
    )
