"""KEY=VALUE, as tags and variables are given."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.errors import InvalidRequest


def parse(texts: Iterable[str], what: str) -> dict[str, str]:
    """A key alone has an empty value."""
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not key.strip():
            raise InvalidRequest(f"{what} is KEY=VALUE, not {text!r}.")
        found[key] = value
    return found
