"""Source locations: the file and line of what a person wrote, for error messages about it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Tuple

from windlass.client.exceptions import UserErrorException

if TYPE_CHECKING:
    from collections.abc import Sequence

# The line of a list's item or a map's key: by the identity of the list or map, and index or key.
Places = Dict[Tuple[int, Any], int]
_LONGEST = 100


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
    except OSError as e:
        raise UserErrorException(f"{path} cannot be read: {e.strerror}.") from None


class SourceFile:
    """The lines of a file. `places` maps the items of the value that was read from it to their lines."""

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
        """`name`, which is that of a setting, after its file and line as far as these are known."""
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


NOWHERE = SourceFile("", [])  # for what stands in no file
