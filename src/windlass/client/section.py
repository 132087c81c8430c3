"""What all parts of a run configuration have in common: fixed attributes, and a form in camelCase."""

from __future__ import annotations

import functools
import re
import sys
from enum import Enum
from typing import Any, ClassVar, Iterable, NamedTuple, Optional, Tuple, Type, TypeVar

from windlass.client.exceptions import RunConfigurationException, UserErrorException

S = TypeVar("S", bound="Section")
_NEARLY = 0.85  # of 1, which is the same


class Field(NamedTuple):
    """An attribute and how it is written. `each` is a section's class if the value (or each of them) is one."""

    attribute: str
    each: Optional[type] = None
    many: str = ""  # "list", "map" or nothing: one value
    is_optional: bool = False  # a section that may be None

    @property
    def key(self) -> str:
        return camel_case(self.attribute)


class Section:
    """Attributes are those of the original; others are refused, since a misspelt setting would do nothing."""

    FIELDS: ClassVar[Tuple[Field, ...]] = ()
    READ_ELSEWHERE: ClassVar[Tuple[str, ...]] = ()  # keys that are known, too
    HOW_TO_MAKE: ClassVar[str] = ""  # said to who gives something else in its place
    _ready = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and not hasattr(self, name):
            known = ", ".join(field.attribute for field in self.FIELDS)
            raise AttributeError(f"{type(self).__name__} has no attribute {name}; it has {known}")
        if self._ready:
            self._check_section(name, value)
        super().__setattr__(name, value)

    def _check_section(self, name: str, value: Any) -> None:
        """Something else in the place of a section would be noticed where nobody knows it any more."""
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

    def fill(self, body: Any, where: str = "") -> None:
        """Take over what a file says. Keys that nobody knows are left alone: each version of Azure's SDK added some.
        Of those that are misspelt, it is said.
        """
        where = where or type(self).__name__
        if not isinstance(body, dict):
            raise RunConfigurationException(f"{where} must be a map of settings, not {body!r}.")
        given = {camel_case(str(key)): value for key, value in body.items()}
        warn_of_misspelt(given, [*(field.key for field in self.FIELDS), *self.READ_ELSEWHERE], where)
        for field in self.FIELDS:
            value = given.get(field.key)
            is_empty = value is None and field.each is not None and not field.many  # a section that says nothing
            if field.key in given and not is_empty:
                self._take(field, self._read(field, value, f"{where}.{field.key}"), where)

    def _take(self, field: Field, value: Any, where: str) -> None:
        try:
            setattr(self, field.attribute, value)
        except UserErrorException as e:
            e.message = f"{where}.{field.key}: {e.message}"
            raise

    @classmethod
    def from_dict(cls: Type[S], body: Any, where: str = "") -> S:
        made = cls()
        made.fill(body, where)
        return made

    def _read(self, field: Field, value: Any, where: str) -> Any:
        if value is None or field.each is None or not issubclass(field.each, Section):
            return value
        if field.many == "list":
            return [field.each.from_dict(item, where) for item in value]
        if field.many == "map":
            return {key: field.each.from_dict(item, where) for key, item in value.items()}
        section = getattr(self, field.attribute)
        if not isinstance(section, field.each):
            section = field.each()
        section.fill(value, where)
        return section

    def __repr__(self) -> str:
        import json

        return json.dumps(self.to_dict(), indent=4, default=str)


def warn_of_misspelt(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """A setting that is nearly one of ours would do nothing, and nobody would know why."""
    ours = list(known)
    strange = [key for key in given if key not in ours]
    if not strange:
        return
    from difflib import get_close_matches

    for key in strange:
        for meant in get_close_matches(key, ours, 1, _NEARLY):
            print(f"Warning: {where}: there is no setting {key!r}; did you mean {meant!r}?", file=sys.stderr)


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
