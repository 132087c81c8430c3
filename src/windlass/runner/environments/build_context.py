"""Where something is built: programs are run here, and what they say goes to one log."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..workdir.machine_folder import Machine
from . import network
from .build_once import EnvironmentFailed, Once

# What belongs to the environment that we were started from, and would mislead the programs.
_FOREIGN = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
# People put credentials into addresses of channels, package indexes and proxies: before the host, or as a token in the
# path. A proxy may be named without http://.
_CREDENTIALS = (
    re.compile(r"(//)[^/@\s]+(?=@)"),
    re.compile(r"(://\S*?/t/)[^/\s]+"),
    re.compile(r"((?i:_proxy)['\"]?\s*[=:]\s*['\"]?)(?!\w+://)[^/@\s'\"]+(?=@)"),
)
# Where uv, pip and the condas begin to say what is wrong; and what uv says of its progress before.
_TROUBLE = re.compile(r"(error\b|ERROR\b|×|\w*Error:)")
_PROGRESS = re.compile(
    r"Using Python \S+ environment at:|(Resolved|Prepared|Installed|Uninstalled|Audited) \d+ packages?\b"
    r"|(Downloading|Downloaded|Building|Built|Updating|Updated) \S+( @ \S+| \(\S+\))?\Z"
)
_MOST_TOLD = 1 << 20
_MOST_LINES = 12
_FIRST_LINES = 3
_LONGEST_WORDS = 2000


def masked(text: str) -> str:
    for credentials in _CREDENTIALS:
        text = credentials.sub(r"\1***", text)
    return text


class Done(NamedTuple):
    code: int
    said: str

    @property
    def words(self) -> str:
        """Those that tell why, if it failed."""
        return telling(self.said)


class Workshop:
    """For one thing that is built. `given` is what the sender knows of programs: `tools` of run.json."""

    def __init__(self, machine: Machine, given: Optional[Mapping[str, Any]], once: Once) -> None:
        self.machine = machine
        self.given: Mapping[str, Any] = given or {}
        self.once = once

    def say(self, text: str) -> None:
        self.once.say(masked(text))

    def tell_replaced(self, replaced: Dict[str, str]) -> Dict[str, str]:
        """Write to the log what was replaced."""
        for text in replaced.values():
            self.say(text)
        return replaced

    def refusal(self, message: str) -> EnvironmentFailed:
        return self.once.refusal(masked(message))

    def run(self, argv: List[str], env: Optional[Dict[str, str]] = None) -> None:
        done = self.attempt(argv, env)
        if done.code != 0:
            name = os.path.basename(argv[0])
            raise EnvironmentFailed(done.words or f"{name} ended with code {done.code}")

    def attempt(self, argv: List[str], env: Optional[Dict[str, str]] = None) -> Done:
        before = os.path.getsize(self.once.log)
        code = self.once.tools.run(argv, self._variables(env or {}), self.once.log, self.once.listen)
        return Done(code, self.said_since(before))

    def ask(self, argv: List[str], env: Dict[str, str]) -> int:
        """Run a program whose words are not for the log of the build, only its code and its files count."""
        log = f"{self.once.aside}/questions.log"
        return self.once.tools.run(argv, self._variables(env), log, self.once.listen)

    def _variables(self, more: Dict[str, str]) -> Dict[str, str]:
        name, _, value = self.once.mark.partition("=")
        kept = {k: v for k, v in os.environ.items() if k not in _FOREIGN}
        return {**kept, **self.network, "NO_COLOR": "1", **more, name: value}

    @property
    def network(self) -> Dict[str, str]:
        return network.variables(self.machine, self.given)

    def said_since(self, offset: int) -> str:
        """The end of what was said, without credentials."""
        with open(self.once.log, "rb") as file:
            file.seek(max(offset, os.fstat(file.fileno()).st_size - _MOST_TOLD))
            return masked(file.read().decode("utf-8", "replace"))


def telling(text: str) -> str:
    """Of all that a program said, what is wrong: of much of it, the beginning and the end."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not _PROGRESS.match(line)]
    begins = (at for at, line in enumerate(lines) if _TROUBLE.match(line))
    lines = lines[next(begins, -_MOST_LINES) :]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_FIRST_LINES], "…", *lines[_FIRST_LINES - _MOST_LINES :]]
    words = "\n".join(lines)
    half = _LONGEST_WORDS // 2
    return words if len(words) <= _LONGEST_WORDS else f"{words[:half]}…{words[-half:]}"
