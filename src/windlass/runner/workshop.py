"""Where something is built: programs are run here, and what they say goes to one log."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from .machine import Machine
from .once import EnvironmentFailed, Once

# What belongs to the environment that we were started from, and would mislead the programs.
_FOREIGN = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
# People put credentials into addresses of channels and package indexes: before the host, or as a token in the path.
_CREDENTIALS = (re.compile(r"(//)[^/@\s]+(?=@)"), re.compile(r"(://\S*?/t/)[^/\s]+"))
_LAST_LINES = 12
_LONGEST_WORDS = 2000


def masked(text: str) -> str:
    for credentials in _CREDENTIALS:
        text = credentials.sub(r"\1***", text)
    return text


class Done(NamedTuple):
    code: int
    words: str  # the last ones


class Workshop:
    """For one thing that is built. `given` is what the sender knows of programs: `tools` of run.json."""

    def __init__(self, machine: Machine, given: Optional[Mapping[str, Any]], once: Once) -> None:
        self.machine = machine
        self.given: Mapping[str, Any] = given or {}
        self.once = once

    def say(self, text: str) -> None:
        self.once.say(masked(text))

    def refusal(self, message: str) -> EnvironmentFailed:
        """To be raised; it is in the log too."""
        self.say(message)
        return EnvironmentFailed(masked(message))

    def run(self, argv: List[str], env: Optional[Dict[str, str]] = None) -> None:
        done = self.attempt(argv, env)
        if done.code != 0:
            name = os.path.basename(argv[0])
            raise EnvironmentFailed(done.words or f"{name} ended with code {done.code}")

    def attempt(self, argv: List[str], env: Optional[Dict[str, str]] = None) -> Done:
        before = os.path.getsize(self.once.log)
        code = self.once.tools.run(argv, self._variables(env or {}), self.once.log, self.once.follow)
        return Done(code, masked(self.words_since(before)))

    def _variables(self, more: Dict[str, str]) -> Dict[str, str]:
        name, _, value = self.once.mark.partition("=")
        kept = {k: v for k, v in os.environ.items() if k not in _FOREIGN}
        return {**kept, "NO_COLOR": "1", **more, name: value}

    def words_since(self, offset: int) -> str:
        with open(self.once.log, "rb") as file:
            file.seek(offset)
            lines = file.read().decode("utf-8", "replace").splitlines()
        return "\n".join(line.strip() for line in lines[-_LAST_LINES:])[-_LONGEST_WORDS:].strip()
