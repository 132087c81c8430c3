"""One call of the command line: its shared options, its way to the server, its way to print."""

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
# Somebody waits at a terminal; who follows a run waits longer.
_PATIENCE_SECONDS = 3.0


class Call:
    json = False
    debug = False
    home: str | None = None
    url: str | None = None
    workspace: str | None = None
    failure_code: int | None = None
    is_az = False  # a command line of `az`: errors and exit codes are as there

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
        """The way to the server: the one that is named, or the private one of the home, which is started if need be."""
        from windlass.client.http import embedded_server

        self.point()
        session = embedded_server.session()
        session.patience_seconds = _PATIENCE_SECONDS
        return session

    def point(self) -> None:
        """Let the SDK, and a server that it starts, see what --home and --url said."""
        if self.home:
            os.environ["WINDLASS_HOME"] = self.home
        if self.url or self.home:
            # Who names a server does not mean the one of the run around this command.
            for name in ("WINDLASS_URL", "WINDLASS_RUN_TOKEN", "WINDLASS_RUN_ID"):
                os.environ.pop(name, None)
        if self.url:
            os.environ["WINDLASS_URL"] = self.url

    @property
    def is_remote(self) -> bool:
        """Whether the server is one that was named, and not the private one of a home."""
        self.point()
        return bool(os.environ.get("WINDLASS_URL"))

    def sdk_workspace(self) -> Workspace:
        """The same workspace, as the SDK has it."""
        from windlass.cli.parameters.workspace import workspace
        from windlass.client.workspace.workspace import Workspace

        self.point()
        return Workspace("", "", workspace(self.workspace))

    def ask(self, method: str, path: str, body: Any = None, query: Query | None = None, key: str = "") -> Any:
        """One request to the server itself."""
        return self.session.call(method, path, body, query, key)

    @functools.cached_property
    def root(self) -> str:
        """Where everything of the workspace stands."""
        from windlass.cli.parameters.workspace import workspace

        return f"/workspaces/{workspace(self.workspace)}"

    def get(self, path: str, query: Query | None = None) -> Any:
        """Ask for something of the workspace."""
        return self.ask("GET", self.root + path, None, query)

    def post(self, path: str, body: Any = None, key: str = "") -> Any:
        """`key` makes a repeated request the same request."""
        return self.ask("POST", self.root + path, body, None, key)

    def patch(self, path: str, body: Any) -> Any:
        return self.ask("PATCH", self.root + path, body)

    def other_version(self) -> str:
        """Whether the server is of another version than this command, which explains many surprises."""
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

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int = 0) -> None:
        from windlass.cli.output import table

        terminal = self.terminal
        width = terminal.width
        room = width - indent if width is not None else None
        found = table.lines(columns, rows, room, terminal.ellipsis, terminal.dim)
        terminal.lines([" " * indent + line for line in found])

    def listing(
        self, what: str, found: Sequence[Any], none: str, columns: Sequence[Column], row: Callable[[Any], Sequence[str]]
    ) -> None:
        """What there is, as JSON or as a table; `none` is said if there is nothing."""
        if self.json:
            self.terminal.json({what: found})
        elif not found:
            self.terminal.line(none)
        else:
            self.table(columns, [row(each) for each in found])

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Two columns: what, and its value; those without a value are left out, long ones are wrapped at a terminal."""
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

    def tell(self, found: Problem) -> None:
        """An error: one or two lines on stderr, and with --json a document on stdout."""
        from windlass.core.sanitize import one_line, shown

        if self.json and not self.is_az:
            self.terminal.json(found.to_json())
        sys.stdout.flush()
        if self.is_az:
            lines = ["ERROR: " + found.message, *([found.hint] if found.hint else [])]
            sys.stderr.write("".join(shown(line) + "\n" for text in lines for line in text.splitlines()))
        else:
            hint = f"\n  {one_line(found.hint)}" if found.hint else ""
            sys.stderr.write(f"error: {one_line(found.message)}{hint}\n")
        sys.stderr.flush()
