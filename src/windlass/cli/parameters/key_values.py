"""Parser of KEY=VALUE arguments: tags and environment variables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from windlass.core.errors import InvalidRequest
from windlass.core.sanitize import escape

_HIDDEN = "***"


def parse(texts: Iterable[str], what: str) -> dict[str, str]:
    """Parse KEY=VALUE texts; a key alone has an empty value. `what` names them in errors."""
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not key.strip():
            raise InvalidRequest(f"{what} is KEY=VALUE, not {text!r}.")
        found[key] = value
    return found


def variables(texts: Collection[str], files: Iterable[str] = (), hides_files: bool = False) -> dict[str, str]:
    """Parse variables; a key alone takes its value from this process's environment, as with `docker run --env`. Those
    of `files` come first, with their values replaced if `hides_files` is set: the result is printed.
    """
    of_files = _of_files(files)
    found = (dict.fromkeys(of_files, _HIDDEN) if hides_files else of_files) | parse(texts, "--env")
    for key in {text for text in texts if "=" not in text}:
        if key not in os.environ:
            raise InvalidRequest(
                f"--env {escape(key)} takes its value from the environment here, where it is not set.",
                f"Write --env {escape(key)}=VALUE; --env {escape(key)}= sets the empty text.",
            )
        found[key] = os.environ[key]
    return found


def _of_files(files: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in files:
        from windlass.client.config.variables_file import load_variables

        found |= load_variables(file)
    return found
