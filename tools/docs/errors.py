"""docs/reference/errors.md: the error tree, with what each means for HTTP, for the command line and for the caller."""

from __future__ import annotations

import re

from tools.docs.markdown import code, document, table
from windlass.cli.errors import BY_CODE as EXIT_CODES
from windlass.cli.errors import MEANINGS, OTHER
from windlass.core import errors
from windlass.core.errors import BY_CODE, WindlassError
from windlass.server.http.errors import STATUS

INTRODUCTION = """\
Every error says what happened, to what, and what to do next. Its `code` is stable: it crosses the wire in
`{"error": {"code", "message", "hint", "transient", "details"}}`, decides the HTTP status and the exit code of the
command line, and the SDK rebuilds the class from it (`from windlass.core.errors import NotFound`). `transient` means
that the same call may succeed later; the SDK repeats such calls by itself for a while.

[Troubleshooting](../how-to/troubleshooting.md) says what to do about the usual ones."""


def page() -> str:
    exits = table(["exit code", "means"], [(str(exit_code), text) for exit_code, text in sorted(MEANINGS.items())])
    return document("Errors", INTRODUCTION, _errors(), "## Exit codes of the command line", exits)


def _errors() -> str:
    meanings = _meanings()
    rows = [
        (
            code(kind.code), code(_path(kind)), meanings.get(kind.__name__, ""), str(STATUS.get(kind.code, "")),
            str(EXIT_CODES.get(kind.code, OTHER)), "yes" if kind.transient else "",
        )
        for kind in BY_CODE.values()
    ]  # fmt: skip
    return table(["code", "class", "means", "HTTP", "exit code", "transient"], rows)


def _path(kind: type[WindlassError]) -> str:
    parents = [parent.__name__ for parent in kind.__mro__ if issubclass(parent, WindlassError) and parent is not kind]
    return f"{kind.__name__}({parents[0]})" if parents else kind.__name__


def _meanings() -> dict[str, str]:
    """What stands beside each class in the tree that is drawn in core/errors.py."""
    drawn = re.findall(r"[├└]── (\w+) *(.*)", errors.__doc__ or "")
    return {name: re.sub(r" ?\(transient\)$", "", text) for name, text in drawn}
