"""Typed access to the maps of a YAML file, with errors that name file and line."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, Iterator, Tuple

from windlass.client.config import yaml
from windlass.client.config.file_location import SourceFile
from windlass.client.exceptions import UserErrorException

_SCHEMA = "$schema"  # names the file's schema for editors
# The --set option of each changed value, by the map's id() and the key, as in file_location.Places.
_Overridden = Dict[Tuple[int, Any], str]


class YamlMap:
    """A map of the file. `name` is its path inside the file, such as `resources`; empty for the whole file."""

    def __init__(
        self, body: dict[str, Any], source: SourceFile, name: str, overridden: _Overridden, place: str = ""
    ) -> None:
        self.body = body
        self.place = place or source.path  # the file and line of the map itself
        self.source = source
        self.name = name
        self._overridden = overridden

    @property
    def folder(self) -> str:
        """The folder that relative paths in the file start from."""
        return self.source.folder

    def __contains__(self, key: str) -> bool:
        return self.body.get(key) is not None

    def where(self, key: str) -> str:
        """The file and line of a key, or the --set option that gave it."""
        option = self._overridden.get((id(self.body), key))
        return f"{self.source.path}, --set {option}" if option else self.source.where(self.body, key)

    def mistake(self, key: str, problem: str, hint: str = "") -> UserErrorException:
        return UserErrorException(f"{self.where(key)}: {problem}", hint)

    def check_keys(self, known: Iterable[str]) -> None:
        """Refuse an unknown key: a misspelt setting would have no effect."""
        names = list(known)
        for key in self.body:
            if key not in names and key != _SCHEMA:
                raise self.mistake(key, f"there is no key {self._full(key)!r}.", _nearest(str(key), names))

    def text(self, key: str) -> str | None:
        """A text; other scalars are converted to text."""
        value = self.body.get(key)
        if isinstance(value, (dict, list)):
            raise self.mistake(key, f"{self._full(key)} is a text, not {_kind(value)}.")
        return None if value is None else str(value)

    def required_text(self, key: str) -> str:
        found = self.text(key)
        if not found:
            raise UserErrorException(f"{self.place}: the key {self._full(key)!r} is missing.")
        return found

    def choice(self, key: str, known: Iterable[str]) -> str | None:
        """One of the known words, in lower case; the file may write it in capitals and with `-` for `_`."""
        found = self.text(key)
        names = list(known)
        if found is None:
            return None
        plain = found.lower().replace("-", "_")
        if plain not in names:
            raise self.mistake(key, f"there is no {self._full(key)} {found!r:.100}.", f"There are: {', '.join(names)}.")
        return plain

    def whole_number(self, key: str, least: int = 0) -> int | None:
        value = self.body.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.mistake(key, f"{self._full(key)} is a whole number of at least {least}, not {value!r:.100}.")
        return value

    def truth(self, key: str) -> bool | None:
        value = self.body.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.mistake(key, f"{self._full(key)} is true or false, not {value!r:.100}.")
        return value

    def texts(self, key: str) -> dict[str, str]:
        """A map of names and scalars, each as a text."""
        found = self.map(key)
        return {str(name): found.text(name) or "" for name in found.body}

    def items(self, key: str) -> list[Any]:
        value = self.body.get(key)
        if value is not None and not isinstance(value, list):
            raise self.mistake(key, f"{self._full(key)} is a list, not {_kind(value)}.")
        return value or []

    def text_list(self, key: str) -> list[str]:
        found = self.items(key)
        for at, item in enumerate(found):
            if item is None or isinstance(item, (dict, list)):
                where = self.source.where(found, at)
                raise UserErrorException(f"{where}: {self._full(key)} is a list of texts, not of {_kind(item)}.")
        return [str(item) for item in found]

    def maps(self, key: str, known: Iterable[str]) -> Iterator[YamlMap]:
        """The maps of a list, each with its keys checked."""
        found = self.items(key)
        for at, item in enumerate(found):
            if not isinstance(item, dict):
                where = self.source.where(found, at)
                raise UserErrorException(f"{where}: {self._full(key)} is a list of maps, not of {_kind(item)}.")
            place = self.source.where(found, at)
            made = YamlMap(item, self.source, f"{self._full(key)}[{at}]", self._overridden, place)
            made.check_keys(known)
            yield made

    def map(self, key: str, known: Iterable[str] | None = None) -> YamlMap:
        """The map of a key, with its keys checked if they are known; an empty one if the file has none."""
        value = self.body.get(key)
        value = {} if value is None else value
        if not isinstance(value, dict):
            raise self.mistake(key, f"{self._full(key)} is a map, not {_kind(value)}.")
        found = YamlMap(value, self.source, self._full(key), self._overridden, self.where(key))
        if known is not None:
            found.check_keys(known)
        return found

    def existing_path(self, key: str) -> str | None:
        """The absolute path of a file or folder that the file names relative to itself."""
        found = self.text(key)
        if found is None:
            return None
        path = os.path.normpath(os.path.join(self.folder, os.path.expanduser(found)))
        if not os.path.exists(path):
            raise self.mistake(key, f"there is no file or folder {path}.")
        return path

    def _full(self, key: Any) -> str:
        return f"{self.name}.{key}" if self.name else str(key)


def load(path: str, what: str, overrides: Iterable[str] = ()) -> YamlMap:
    """The map of a file, with its values replaced by `overrides` such as `resources.instance_count=2`.

    `what` names the file's subject in errors, such as "job".
    """
    try:
        body, source = yaml.load_located(path, one_line_scalars=False)
    except FileNotFoundError:
        raise UserErrorException(f"There is no {what} file {os.path.abspath(path)}.") from None
    if not isinstance(body, dict):
        raise UserErrorException(f"{source.beginning()} is not a {what}: the file must be a map of settings.")
    overridden: _Overridden = {}
    for override in overrides:
        _override(body, override, overridden)
    return YamlMap(body, source, "", overridden)


def _override(body: dict[str, Any], override: str, overridden: _Overridden) -> None:
    """Set one value: JSON if it can be parsed as that, else a text, as in `az --set`."""
    option, sign, text = override.partition("=")
    *parents, key = option.split(".")
    if not sign or not all((*parents, key)):
        raise UserErrorException(f"--set {override!r:.100} is not of the form KEY=VALUE.", "--set tags.team=vision")
    at = body
    for parent in parents:
        inner = at.get(parent)
        if inner is None:
            inner = at[parent] = {}
        if not isinstance(inner, dict):
            raise UserErrorException(f"--set {option}: {parent} is not a map.")
        at = inner
    try:
        at[key] = json.loads(text)
    except ValueError:
        at[key] = text
    overridden[id(at), key] = option


def _nearest(key: str, names: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names)}."


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else f"{value!r:.100}"
