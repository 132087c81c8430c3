"""What ssh, a login shell or our arrival on a machine meant by their last words, and what to do about it."""

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
from windlass.drivers.openssh.login import Hop

_CHANGED = "The host key of {name} is not the one that was pinned: it may be another machine. Nothing was sent."
_TRUST = "If the machine was set up anew: windlass compute trust {name}"
# What ssh itself says. It ends with 255 then: other codes are of what was started there, which may say so, too.
_OF_SSH = (255, None)
_SIGNS: tuple[tuple[str, type[WindlassError], str, str], ...] = (
    ("IDENTIFICATION HAS CHANGED", TargetQuarantined, _CHANGED, _TRUST),
    ("Host key verification failed", TargetQuarantined, _CHANGED, _TRUST),
    ("host key is known for", TargetQuarantined, _CHANGED, _TRUST),
    ("Permission denied", LoginRefused, "{name} does not let us in: {words}",
     "Check user name and credentials, then: windlass compute attach … --update"),
    ("Too many authentication failures", LoginRefused, "{name} does not let us in: {words}",
     "The agent offers too many keys; name one: --private-key-file"),
    ("Could not resolve hostname", TargetUnreachable, "{name} cannot be reached: {words}", "Check the address."),
    ("Connection refused", TargetUnreachable, "{name} cannot be reached: {words}",
     "Is its SSH server running, on that port?"),
    ("No route to host", TargetUnreachable, "{name} cannot be reached: {words}", "Is the machine on?"),
    ("timed out", TargetUnreachable, "{name} cannot be reached: {words}",
     "Is the machine on, and does a firewall let port and address pass?"),
)  # fmt: skip


def explain(hop: Hop, code: int | None, words: str) -> WindlassError | None:
    """What is wrong with a machine; None if that is not known."""
    for problem, said in _arrivals(words):
        return _cannot(hop.name, problem, said)
    for sign, kind, sentence, hint in _SIGNS if code in _OF_SSH else ():
        if sign.lower() in words.lower():
            if kind is TargetQuarantined and hop.alias not in words:
                return _another(hop.name)
            # With the key that was expected: another one may have been pinned when this is read.
            details = {"pin": hop.address.host_key} if kind is TargetQuarantined else {}
            return kind(sentence.format(name=hop.name, words=last_line(words)), hint.format(name=hop.name), details)
    if "account is currently not available" in words:
        return LoginRefused(f"The account on {hop.name} has no login shell.", "There: sudo chsh -s /bin/bash USER")
    if code == 127 or "not found" in words and "python" in words:
        return TargetRejected(
            f"There is no Python on {hop.name} under the name that was given.",
            "There: sudo apt-get install python3; or name another: windlass compute attach ssh … --python /path "
            f"(of one that is attached: windlass compute update {hop.name} --python /path)",
        )
    return None


def explain_behind(hop: Hop, jump: Hop, code: int | None, words: str, jump_words: str) -> WindlassError | None:
    """What is wrong with a machine or with its jump host, each of which has its own words."""
    problem = explain(hop, code, words)
    is_vague = problem is None or type(problem) is TargetUnreachable  # as is said when the jump host hangs up
    if not is_vague or not jump_words.strip():
        return problem
    if "forwarding failed" in jump_words:
        return TargetUnreachable(
            f"{hop.name} cannot be reached from its jump host {jump.name}.",
            "Is the machine on, and its SSH server running, on that port?",
        )
    return of_jump(hop, explain(jump, None, jump_words) or unreachable(jump, jump_words))


def of_jump(hop: Hop, problem: WindlassError) -> TargetUnreachable:
    """Trouble with the jump host says nothing against the machine behind it, which is waited for."""
    return TargetUnreachable(f"The jump host of {hop.name}: {problem.message}", problem.hint, {"of_jump": problem.code})


def unreachable(hop: Hop, words: str) -> TargetUnreachable:
    return TargetUnreachable(f"{hop.name} cannot be reached: {last_line(words)}")


def last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return (lines[-1] if lines else "")[:300]


def _another(name: str) -> TargetUnreachable:
    return TargetUnreachable(
        f"{name} cannot be reached: ssh does not know the host key of a machine on the way there.",
        "It is one that ~/.ssh/config names, as in ProxyJump: log in there once.",
    )


def _arrivals(words: str) -> Iterator[tuple[str, str]]:
    for line in words.splitlines():
        if line.startswith("windlass-arrival "):
            _, problem, *said = line.split(" ", 2)
            yield problem, said[0] if said else ""


def _cannot(name: str, problem: str, said: str) -> WindlassError:
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
