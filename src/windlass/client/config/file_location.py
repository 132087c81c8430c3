"""Source locations: the file and line of a value, for error messages about files that users write."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, Match, Tuple

from windlass.client.exceptions import UserErrorException

if TYPE_CHECKING:
    from collections.abc import Sequence

# The line of a list's item or a map's key, by the id() of the list or map and the index or key.
Places = Dict[Tuple[int, Any], int]
_LONGEST = 100
_JSON_TOKEN = r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+'


def text_of(path: str) -> str:
    """The text of a file; empty if the file cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_json(path: str) -> Any:
    """The value of a JSON file. Raises UserErrorException with the line."""
    import json

    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except json.JSONDecodeError as e:
        raise UserErrorException(f"{path}, line {e.lineno}: not valid JSON: {e.msg}.") from None
    except UnicodeDecodeError:
        raise UserErrorException(f"{path} is not UTF-8 text.") from None
    except RecursionError:
        raise UserErrorException(f"{path} is nested too deep.") from None
    except OSError as e:
        raise UserErrorException(f"{path} cannot be read: {e.strerror}.") from None


def read_located_json(path: str) -> Tuple[Any, SourceFile]:
    """The value of a JSON file, and the lines of its keys and items. Raises UserErrorException with the line."""
    value = read_json(path)
    text = text_of(path).lstrip("\ufeff")
    places: Places = {}
    with contextlib.suppress(RecursionError):
        _place(value, re.finditer(_JSON_TOKEN, text), text, places)
    return value, SourceFile(path, text.splitlines(), places)


def _place(value: Any, tokens: Iterator[Match[str]], text: str, places: Places) -> None:
    """Add the lines of a value's items to `places`. `tokens` are those of a valid document, beginning at the value."""
    import json

    opening = next(tokens).group()
    if opening not in ("{", "["):
        return
    items = iter(enumerate(value) if isinstance(value, list) else ())
    for token in tokens:
        if token.group() in ("}", "]"):
            return
        if token.group() == ",":
            continue
        if opening == "{":
            key = json.loads(token.group())
            next(tokens)  # the colon
            first = next(tokens)
            inner = value.get(key) if isinstance(value, dict) else None
        else:
            key, inner = next(items, (None, None))
            first = token
        places[id(value), key] = text.count("\n", 0, token.start()) + 1
        _place(inner, itertools.chain([first], tokens), text, places)


class SourceFile:
    """The lines of a file. `places` maps the items of the value that was parsed from it to their lines."""

    def __init__(self, path: str, lines: Sequence[str], places: Places | None = None) -> None:
        self.path = path
        self.lines = lines
        self._places = places or {}

    def __repr__(self) -> str:
        return f"SourceFile({self.path!r})"

    @property
    def folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def line(self, number: int) -> str:
        """The location of a line, and its text. Lines count from 1."""
        text = self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        return f"{self.path}, line {number}: {shown!r}"

    def where(self, whole: Any, key: Any) -> str:
        """The file and line of an item of a list, or of a key of a map; the file alone where the line is unknown."""
        number = self._places.get((id(whole), key))
        return f"{self.path}, line {number}" if number else self.path

    def named(self, whole: Any, key: Any, name: str) -> str:
        """A setting's name, after its file and line as far as these are known."""
        return ": ".join(filter(None, (self.where(whole, key), name)))

    def at(self, whole: Any, key: Any) -> str:
        """The location of an item of a list, or of a key of a map."""
        number = self._places.get((id(whole), key))
        return self.line(number) if number else self.path

    def beginning(self) -> str:
        """The location of the first line that is neither empty nor a comment."""
        if not self.path:
            return ""
        content = (number for number, line in enumerate(self.lines, 1) if line.split("#")[0].strip() not in ("", "---"))
        number = next(content, None)
        return self.line(number) if number else f"{self.path}, which is empty,"


NOWHERE = SourceFile("", [])  # for values that come from no file
