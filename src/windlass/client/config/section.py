"""Base of the sections of a run configuration: fixed attributes, serialized with camelCase keys."""

from __future__ import annotations

import functools
import re
import sys
from enum import Enum
from typing import Any, ClassVar, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar

from windlass.client.config.file_location import NOWHERE, SourceFile
from windlass.client.exceptions import RunConfigurationException, UserErrorException

S = TypeVar("S", bound="Section")
_SIMILARITY = 0.85  # of difflib, 1 for equal texts
_KINDS = {bool: "true or false", int: "a whole number", list: "a list", dict: "a map"}
_NOT_TEXTS = (bool, list, dict)


class Field(NamedTuple):
    """An attribute and its format. `each` is the section's class if the value (or each item of it) is a section."""

    attribute: str
    each: Optional[type] = None
    many: str = ""  # "list", "map" or nothing: one value
    is_optional: bool = False  # a section that may be None

    @property
    def key(self) -> str:
        return camel_case(self.attribute)


class Section:
    """A part of a run configuration with Azure's attributes. Others are refused, since a misspelt one has no effect."""

    FIELDS: ClassVar[Tuple[Field, ...]] = ()
    READ_ELSEWHERE: ClassVar[Tuple[str, ...]] = ()  # known keys that are no fields
    TEXTS: ClassVar[Tuple[str, ...]] = ()  # attributes that are texts but have another default, such as None
    OTHER_KINDS: ClassVar[Dict[str, Tuple[type, ...]]] = {}  # types that an attribute may have beside its default's
    HOW_TO_MAKE: ClassVar[str] = ""  # the hint of the error for a value of another type
    _ready = False
    _unknown: Mapping[str, Any] = {}  # keys of the file that have no meaning here

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and not hasattr(self, name):
            known = ", ".join(field.attribute for field in self.FIELDS)
            raise AttributeError(f"{type(self).__name__} has no attribute {name}; it has {known}")
        if self._ready:
            self._check_section(name, value)
        super().__setattr__(name, value)

    def _check_section(self, name: str, value: Any) -> None:
        """Refuse a value of another type at once: later the error could not name the assignment."""
        field = next((field for field in self.FIELDS if field.attribute == name), None)
        if field is None or field.many or field.each is None or isinstance(value, field.each):
            return
        if value is None and field.is_optional:
            return
        kind = field.each.__name__
        how = getattr(field.each, "HOW_TO_MAKE", "") or f"{kind}() is one with the defaults."
        article = "an" if kind[0] in "AEIOU" else "a"
        raise UserErrorException(f"{type(self).__name__}.{name} is {article} {kind}, not {value!r:.100}.", how)

    def to_dict(self) -> dict[str, Any]:
        """Azure's keys, in Azure's order."""
        return {field.key: _plain(getattr(self, field.attribute)) for field in self.FIELDS}

    def fill(self, body: Any, where: str = "", source: SourceFile = NOWHERE) -> None:
        """Set the attributes from the content of a file. `where` is the section's name in it, `source` has the lines.

        Unknown keys are kept for save(), since each version of Azure's SDK added some. For a key that is similar to a
        known one, a warning is printed.
        """
        _require_map(body, where or source.path)
        given = {camel_case(str(key)): key for key in body}
        known = [*(field.key for field in self.FIELDS), *self.READ_ELSEWHERE]
        self._check_read_elsewhere(body, given, where, source)
        self._unknown = {key: body[key] for short, key in given.items() if short not in known}
        warn_of_misspelt(body, self._unknown, known, where, source)
        for field in self.FIELDS:
            value = body.get(given.get(field.key))
            is_empty = value is None and field.each is not None and not field.many  # a section without content
            if field.key in given and not is_empty:
                name = f"{where}.{field.key}" if where else field.key
                place = source.named(body, given[field.key], name)
                self._check_kind(field, value, place)
                self._take(field, self._read(field, value, name, source), place)

    def _take(self, field: Field, value: Any, place: str) -> None:
        try:
            setattr(self, field.attribute, value)
        except (UserErrorException, RunConfigurationException) as e:
            e.message = f"{place}: {e.message}"
            raise

    def _check_read_elsewhere(
        self, body: Dict[str, Any], given: Dict[str, str], where: str, source: SourceFile
    ) -> None:
        """Check the keys that are no fields but have an attribute."""
        for key in self.READ_ELSEWHERE:
            attribute = re.sub("([A-Z])", lambda found: f"_{found.group(1).lower()}", key)
            if key in given and hasattr(self, attribute):
                place = source.named(body, given[key], f"{where}.{key}" if where else key)
                self._check_kind(Field(attribute), body[given[key]], place)

    def _check_kind(self, field: Field, value: Any, place: str) -> None:
        """Require a map for a section; else a value of the default's type: number, truth value, text, list or map."""
        if value is not None and field.each is not None and not field.many:
            _require_map(value, place)
            return
        kind = type(getattr(self, field.attribute))
        fitting = (type(None), kind, *self.OTHER_KINDS.get(field.attribute, ()))
        if kind in _KINDS and type(value) not in fitting:
            raise RunConfigurationException(f"{place} is {_KINDS[kind]}, not {value!r:.100}.")
        is_text = isinstance(value, (str, type(None))) or type(value) in self.OTHER_KINDS.get(field.attribute, ())
        if (field.attribute in self.TEXTS and not is_text) or (kind is str and type(value) in _NOT_TEXTS):
            raise RunConfigurationException(f"{place} is a text, not {value!r:.100}.")

    @classmethod
    def from_dict(cls: Type[S], body: Any, where: str = "", source: SourceFile = NOWHERE) -> S:
        made = cls._with_defaults()
        made.fill(body, where, source)
        return made

    @classmethod
    def _with_defaults(cls: Type[S]) -> S:
        return cls()

    def _read(self, field: Field, value: Any, where: str, source: SourceFile) -> Any:
        if value is None or field.each is None or not issubclass(field.each, Section):
            return value
        if field.many:
            for key, item in value.items() if field.many == "map" else enumerate(value):
                _require_map(item, source.named(value, key, where))
        if field.many == "list":
            return [field.each.from_dict(item, where, source) for item in value]
        if field.many == "map":
            return {key: field.each.from_dict(item, where, source) for key, item in value.items()}
        section = getattr(self, field.attribute)
        if not isinstance(section, field.each):
            section = field.each()
        section.fill(value, where, source)
        return section

    def add_unknown(self, body: dict[str, Any]) -> None:
        """Add the unknown keys of the file that this was read from to `body`, the result of to_dict()."""
        for key, value in self._unknown.items():
            body.setdefault(key, value)
        for field in self.FIELDS:
            section, inner = getattr(self, field.attribute), body.get(field.key)
            if isinstance(section, Section) and isinstance(inner, dict):
                section.add_unknown(inner)

    def _warn_of_unknown(self, body: Dict[str, Any], source: SourceFile, where: str = "") -> None:
        """Print a warning for each unknown key of the file, but for those that fill() has warned of."""
        known = [*(field.key for field in self.FIELDS), *self.READ_ELSEWHERE]
        for key in self._unknown:
            if not _similar(key, known):
                print(f"Warning: {source.named(body, key, where)}: there is no setting {key!r}.", file=sys.stderr)
        given = {camel_case(str(key)): key for key in body}
        for field in self.FIELDS:
            section, inner = getattr(self, field.attribute), body.get(given.get(field.key, ""))
            if isinstance(section, Section) and isinstance(inner, dict):
                section._warn_of_unknown(inner, source, f"{where}.{field.key}" if where else field.key)

    def __repr__(self) -> str:
        import json

        return json.dumps(self.to_dict(), indent=4, default=str)


def _require_map(body: Any, place: str) -> None:
    if not isinstance(body, dict):
        raise RunConfigurationException(f"{place} must be a map of settings, not {body!r:.100}.")


def warn_of_misspelt(
    body: dict[str, Any], unknown: Iterable[str], known: Sequence[str], where: str, source: SourceFile
) -> None:
    """Print a warning for each unknown key of a map that is similar to a known one: it has no effect."""
    for key in unknown:
        for meant in _similar(key, known):
            place = source.named(body, key, where)
            print(f"Warning: {place}: there is no setting {key!r}; did you mean {meant!r}?", file=sys.stderr)


def _similar(key: Any, known: Sequence[str]) -> Sequence[str]:
    from difflib import get_close_matches

    return get_close_matches(str(key), known, 1, _SIMILARITY)


@functools.lru_cache(maxsize=1000)
def camel_case(name: str) -> str:
    """interpreter_path -> interpreterPath; InterpreterPath and interpreterPath too."""
    name = re.sub(r"_+([a-zA-Z0-9])", lambda found: found.group(1).upper(), name.strip("_"))
    return name[:1].lower() + name[1:]


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
