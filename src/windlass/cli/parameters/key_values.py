"""KEY=VALUE, as tags and variables are given."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from windlass.core.errors import InvalidRequest
from windlass.core.sanitize import shown


def parse(texts: Iterable[str], what: str) -> dict[str, str]:
    """KEY=VALUE each; a key alone has an empty value."""
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not key.strip():
            raise InvalidRequest(f"{what} is KEY=VALUE, not {text!r}.")
        found[key] = value
    return found


def variables(texts: Collection[str]) -> dict[str, str]:
    """KEY=VALUE each; a key alone has the value that the variable has here, as with `docker run --env`."""
    found = parse(texts, "--env")
    for key in {text for text in texts if "=" not in text}:
        if key not in os.environ:
            raise InvalidRequest(
                f"--env {shown(key)} takes the value that {shown(key)} has here, and it is not set.",
                f"Write --env {shown(key)}=VALUE; --env {shown(key)}= sets the empty text.",
            )
        found[key] = os.environ[key]
    return found
