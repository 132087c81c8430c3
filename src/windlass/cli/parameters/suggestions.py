"""Suggestions for mistyped names, in the hints of errors."""

from __future__ import annotations

from collections.abc import Iterable

_MOST_LISTED = 5


def similar(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar to a mistyped one; empty if none is."""
    import difflib

    # Without the dashes of options: they would make all of these alike.
    lowered = {each.lower().lstrip("-"): each for each in known}
    near = difflib.get_close_matches(name.lower().lstrip("-"), lowered, n=1)
    return lowered[near[0]] if near else ""


def did_you_mean(name: str, known: Iterable[str], all_of_them: str) -> str:
    """ "Did you mean X?", else the existing names if they are few, else `all_of_them`: the command that lists them."""
    from windlass.core.sanitize import escape

    names = list(known)
    near = similar(name, names)
    if near:
        return f"Did you mean {escape(near)}?"
    if 0 < len(names) <= _MOST_LISTED:
        return f"There {'is' if len(names) == 1 else 'are'} {', '.join(map(escape, names))}."
    return all_of_them
