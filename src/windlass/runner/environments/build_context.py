"""Build context: runs the tools of a build (uv, pip, conda) with clean variables, and logs their output."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..workdir.machine_folder import Machine
from . import network
from .build_once import BuildOnce, EnvironmentFailed

# Variables of the environment in which the runner was started; they would mislead the tools.
_FOREIGN = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
# People put credentials into addresses of channels, package indexes and proxies: before the host, or as a token in the
# path. A proxy may be named without http://.
_CREDENTIALS = (
    re.compile(r"(//)[^/@\s]+(?=@)"),
    re.compile(r"(://\S*?/t/)[^/\s]+"),
    re.compile(r"((?i:_proxy)['\"]?\s*[=:]\s*['\"]?)(?!\w+://)[^/@\s'\"]+(?=@)"),
)
# First line of an error of uv, pip or conda; and uv's progress lines before it.
_ERROR_START = re.compile(r"(error\b|ERROR\b|×|\w*Error:)")
_PROGRESS = re.compile(
    r"Using Python \S+ environment at:|(Resolved|Prepared|Installed|Uninstalled|Audited) \d+ packages?\b"
    r"|(Downloading|Downloaded|Building|Built|Updating|Updated) \S+( @ \S+| \(\S+\))?\Z"
)
_MAX_OUTPUT_BYTES = 1 << 20
_MAX_LINES = 12
_FIRST_LINES = 3
_MAX_CHARACTERS = 2000


def masked(text: str) -> str:
    """The text without the credentials in its URLs."""
    for credentials in _CREDENTIALS:
        text = credentials.sub(r"\1***", text)
    return text


class ToolResult(NamedTuple):
    """Exit code and output of a tool."""

    code: int
    output: str

    @property
    def error(self) -> str:
        """The lines of the output that explain a failure."""
        return error_lines(self.output)


class BuildContext:
    """What one build needs to run tools. `given` is `tools` of run.json: programs and network of the server."""

    def __init__(self, machine: Machine, given: Optional[Mapping[str, Any]], once: BuildOnce) -> None:
        self.machine = machine
        self.given: Mapping[str, Any] = given or {}
        self.once = once

    def log_line(self, text: str) -> None:
        self.once.log_line(masked(text))

    def log_replaced(self, replaced: Dict[str, str]) -> Dict[str, str]:
        """Write the replacements to the build log, and return them."""
        for text in replaced.values():
            self.log_line(text)
        return replaced

    def logged_failure(self, message: str) -> EnvironmentFailed:
        """The exception to raise, without credentials; its message is written to the build log too."""
        return self.once.logged_failure(masked(message))

    def run_checked(self, argv: List[str], env: Optional[Dict[str, str]] = None) -> None:
        """Run a tool. EnvironmentFailed if it fails."""
        result = self.run_tool(argv, env)
        if result.code != 0:
            name = os.path.basename(argv[0])
            raise EnvironmentFailed(result.error or f"{name} ended with code {result.code}")

    def run_tool(self, argv: List[str], env: Optional[Dict[str, str]] = None) -> ToolResult:
        """Run a tool with its output in the build log."""
        before = os.path.getsize(self.once.log)
        code = self.once.hooks.run(argv, self._variables(env or {}), self.once.log, self.once.copy_log_within_limit)
        return ToolResult(code, self.output_since(before))

    def run_unlogged(self, argv: List[str], env: Dict[str, str]) -> int:
        """Run a tool for its exit code and its files only; its output is not written to the build log."""
        log = f"{self.once.scratch}/questions.log"
        return self.once.hooks.run(argv, self._variables(env), log, self.once.copy_log_within_limit)

    def _variables(self, more: Dict[str, str]) -> Dict[str, str]:
        name, _, value = self.once.mark.partition("=")
        kept = {k: v for k, v in os.environ.items() if k not in _FOREIGN}
        return {**kept, **self.network, "NO_COLOR": "1", **more, name: value}

    @property
    def network(self) -> Dict[str, str]:
        """Variables for proxies, package indexes and certificates."""
        return network.variables(self.machine, self.given)

    def output_since(self, offset: int) -> str:
        """The build log from that offset on (at most its last MB), without credentials."""
        with open(self.once.log, "rb") as file:
            file.seek(max(offset, os.fstat(file.fileno()).st_size - _MAX_OUTPUT_BYTES))
            return masked(file.read().decode("utf-8", "replace"))


def error_lines(text: str) -> str:
    """The error in a tool's output, from its first error line on; of a long one, the beginning and the end."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not _PROGRESS.match(line)]
    begins = (at for at, line in enumerate(lines) if _ERROR_START.match(line))
    lines = lines[next(begins, -_MAX_LINES) :]
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_FIRST_LINES], "…", *lines[_FIRST_LINES - _MAX_LINES :]]
    text = "\n".join(lines)
    half = _MAX_CHARACTERS // 2
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:half]}…{text[-half:]}"
