"""Input of secrets and confirmations: from a file, standard input or a prompt, never from the command line."""

from __future__ import annotations

import os
import sys

from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape

_LARGEST = 1 << 16


def can_ask() -> bool:
    """Whether there is a terminal to ask at."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def ask_secret(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)


def confirm(question: str) -> bool:
    """Ask a yes-or-no question. Only `y` and `yes` mean yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def first_line(what: str, path: str | None) -> str:
    """Read a secret: the first line of a file, or of standard input if there is no path."""
    line = sys.stdin.readline() if path is None else content(path, what).split("\n", 1)[0]
    return require(line.rstrip("\r\n"), what)


def first_line_or_ask(what: str, option: str, path: str | None, is_stdin: bool) -> str:
    """Read a secret from OPTION-file or OPTION-stdin, else from a prompt."""
    if path is not None and is_stdin:
        raise InvalidRequest(f"The {what} comes from two places; one is enough.", f"{option}-file or {option}-stdin")
    if path is not None or is_stdin:
        return first_line(what, path)
    if not can_ask():
        raise InvalidRequest(f"No {what} was given.", f"Add {option}-file FILE or {option}-stdin")
    return require(ask_secret(f"The {what}: "), what)


def require(value: str, what: str) -> str:
    """The value, unless it is empty."""
    if not value:
        raise InvalidRequest(f"The {what} is empty.", "Was it the right file, or the right line?")
    return value


def content(path: str, what: str) -> str:
    """The text of a file, which must not be larger than a secret may be."""
    whole = os.path.expanduser(path)
    try:
        with open(whole, encoding="utf-8") as file:
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise NotFound(f"There is no file {escape(path)} with the {what}.") from None
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text"
        raise InvalidRequest(f"The {what} in {escape(path)} cannot be read: {why}.") from None
    if len(text) > _LARGEST:
        raise InvalidRequest(f"{escape(path)} is too large for a {what}.")
    return text
