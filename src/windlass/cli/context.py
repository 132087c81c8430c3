"""Context of one command: shared options, session with the server, terminal output."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from windlass.cli.errors import Problem
    from windlass.cli.output.table import Column
    from windlass.cli.output.terminal import Terminal
    from windlass.client.http.session import Session
    from windlass.client.workspace.workspace import Workspace

Query = dict[str, Any]
# How long a command retries while the server is away. A person waits for it; following a run retries for longer.
_RETRY_SECONDS = 3.0


class CommandContext:
    """What every command gets: click's `obj`. Requests go to the workspace that the options name."""

    json = False
    debug = False
    home: str | None = None
    url: str | None = None
    workspace: str | None = None
    failure_code: int | None = None
    is_az = False  # a command line of `az`: errors and exit codes are those of az

    def __init__(self, session: Session | None = None) -> None:
        if session is not None:
            self.session = session

    @functools.cached_property
    def terminal(self) -> Terminal:
        from windlass.cli.output.terminal import Terminal

        return Terminal()

    @functools.cached_property
    def now(self) -> datetime:
        from datetime import UTC, datetime

        return datetime.now(UTC)

    @functools.cached_property
    def session(self) -> Session:
        """HTTP session with the server that is named, or with the private server of the home, started if necessary."""
        from windlass.client.http import embedded_server

        self.export_options()
        session = embedded_server.session()
        session.retry_seconds = _RETRY_SECONDS
        return session

    def export_options(self) -> None:
        """Export --home and --url as environment variables, for the SDK and for a server that it starts."""
        if self.home:
            os.environ["WINDLASS_HOME"] = self.home
        if self.url or self.home:
            # Inside of a run, a server or home that is named replaces the server of the run.
            for name in ("WINDLASS_URL", "WINDLASS_RUN_TOKEN", "WINDLASS_RUN_ID"):
                os.environ.pop(name, None)
        if self.url:
            os.environ["WINDLASS_URL"] = self.url

    @property
    def is_remote(self) -> bool:
        """Whether a server is named, by --url or WINDLASS_URL; else it is the private server of the home."""
        self.export_options()
        return bool(os.environ.get("WINDLASS_URL"))

    def sdk_workspace(self) -> Workspace:
        """The workspace as an object of the SDK."""
        from windlass.cli.parameters.workspace import resolve
        from windlass.client.workspace.workspace import Workspace

        self.export_options()
        return Workspace("", "", resolve(self.workspace))

    def request(self, method: str, path: str, body: Any = None, query: Query | None = None, key: str = "") -> Any:
        """Send one request to the server; `path` is not relative to the workspace."""
        return self.session.call(method, path, body, query, key)

    @functools.cached_property
    def workspace_path(self) -> str:
        """The path of the workspace in the API."""
        from windlass.cli.parameters.workspace import resolve

        return f"/workspaces/{resolve(self.workspace)}"

    def get(self, path: str, query: Query | None = None) -> Any:
        """GET a path of the workspace."""
        return self.request("GET", self.workspace_path + path, None, query)

    def post(self, path: str, body: Any = None, key: str = "") -> Any:
        """POST to a path of the workspace. A request repeated with the same `key` takes effect once."""
        return self.request("POST", self.workspace_path + path, body, None, key)

    def patch(self, path: str, body: Any) -> Any:
        return self.request("PATCH", self.workspace_path + path, body)

    def version_mismatch(self) -> str:
        """A hint if the server has another version than this command; else empty."""
        from windlass._version import __version__
        from windlass.core.errors import WindlassError

        try:
            version = self.session.call("GET", "/health")["version"] if "session" in self.__dict__ else __version__
        except (WindlassError, OSError, ValueError, LookupError, TypeError):
            return ""
        if version == __version__:
            return ""
        return f"The server is version {version}, and this command is {__version__}: install the same version of both."

    def close(self) -> None:
        if "session" in self.__dict__:
            self.session.close()

    def print_table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int = 0) -> None:
        from windlass.cli.output import table

        terminal = self.terminal
        width = terminal.width
        room = width - indent if width is not None else None
        found = table.lines(columns, rows, room, terminal.ellipsis, terminal.dim)
        terminal.lines([" " * indent + line for line in found])

    def print_list(
        self, what: str, found: Sequence[Any], none: str, columns: Sequence[Column], row: Callable[[Any], Sequence[str]]
    ) -> None:
        """Print a list as JSON or as a table, or the sentence `none` if it is empty."""
        if self.json:
            self.terminal.json({what: found})
        elif not found:
            self.terminal.line(none)
        else:
            self.print_table(columns, [row(each) for each in found])

    def print_facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Print names and values in two columns. Empty values are left out; long ones are wrapped at a terminal."""
        from textwrap import wrap

        there = [(name, value) for name, value in pairs if value]
        widest = max((len(name) for name, _ in there), default=0)
        width = self.terminal.width
        for name, value in there:
            if width is None or "\x1b" in value:
                words = [value]
            else:
                room = max(width - widest - 4, 20)
                words = wrap(value, room, break_long_words=False, break_on_hyphens=False)
            heads = [self.terminal.dim(name.ljust(widest)), *(" " * widest for _ in words[1:])]
            self.terminal.lines([f"  {head}  {part}" for head, part in zip(heads, words, strict=True)])

    def print_error(self, found: Problem) -> None:
        """Print an error: one or two lines on stderr, and with --json a document on stdout."""
        from windlass.core.sanitize import escape, one_line

        if self.json and not self.is_az:
            self.terminal.json(found.to_json())
        sys.stdout.flush()
        if self.is_az:
            lines = ["ERROR: " + found.message, *([found.hint] if found.hint else [])]
            sys.stderr.write("".join(escape(line) + "\n" for text in lines for line in text.splitlines()))
        else:
            hint = f"\n  {one_line(found.hint)}" if found.hint else ""
            sys.stderr.write(f"error: {one_line(found.message)}{hint}\n")
        sys.stderr.flush()
