"""Reader and writer of YAML files (run configurations, conda files, `.compute` files) on ruamel.yaml, imported late.

Scalars follow the core schema of YAML 1.2: `yes`, `on` and dates are texts. Refused, with the line: duplicate keys,
anchors and aliases, tags, several documents, documents that are nested too deep or too large. A file that is written
again keeps its comments and the order of its keys.
"""

from __future__ import annotations

import io
import os
import re
from typing import Any

from windlass.client.config.file_location import Places, SourceFile, text_of
from windlass.client.exceptions import UserErrorException

_MAX_DEPTH = 50
_MAX_BYTES = 1 << 20
_CORE_TAGS = ("null", "bool", "int", "float", "timestamp", "value", "merge")
_WORDS: dict[str, Any] = {"": None, "~": None, "true": True, "false": False, "null": None}
_INT = re.compile(r"[-+]?[0-9]+\Z|0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# Texts that parsers of YAML 1.1 (PyYAML) read as a truth value, a number in base 60, or another number.
_QUOTED_FOR_1_1 = re.compile(
    r"(?i:y|n|yes|no|on|off|=|<<)\Z|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z|[-+]?[0-9.][0-9_.ebx+-]*\Z"
)
# Error messages in plain words, by patterns in ruamel.yaml's.
_PLAINER = (
    (re.compile(r"'\\t' that cannot start|tabs? "), "a tab as indentation; use spaces"),
    (re.compile(r"alias|anchor"), "anchors and aliases are not supported"),
    (re.compile(r"mapping values are not allowed"), "a map inside a scalar; quote the value, or is a colon missing?"),
    (re.compile(r"depth of data structure"), f"nested more than {_MAX_DEPTH} deep"),
    (re.compile(r"but found another document"), "a second document; one file holds one"),
    (re.compile(r"end of stream|stream end"), "a quote or bracket is not closed"),
    (re.compile(r"expected <block end>"), "it fits neither the list or map before it nor its indentation"),
    (re.compile(r"sequence entries are not allowed"), "a list begins on a line of its own"),
)


class YamlError(UserErrorException):
    pass


def load(path: str) -> Any:
    """The value of a file. Raises FileNotFoundError, or YamlError with the line."""
    return loads(_text(path), path)


def load_located(path: str, one_line_scalars: bool = True) -> tuple[Any, SourceFile]:
    """The value of a file and the lines of its parts, for error messages. A plain scalar of several lines is refused
    by default: in hand-written lists, its second line is an item that is indented too far.
    """
    text = _text(path)
    reader = _Reader(path, text, one_line_scalars)
    return reader.value, SourceFile(path, reader.lines, reader.places)


def place_of(path: str | None, key: str, value: Any) -> str:
    """The file and line of a key, in any spelling, that has this value; "" if the file does not have it."""
    try:
        body, source = load_located(path or "", one_line_scalars=False)
    except (FileNotFoundError, YamlError):
        return ""
    wanted = key.replace("_", "").lower()
    found = (each for each in body if str(each).replace("_", "").lower() == wanted) if isinstance(body, dict) else ()
    return next((source.named(body, each, str(each)) for each in found if body[each] == value), "")


def loads(text: str, where: str = "YAML") -> Any:
    """The value of a text; `where` names it in errors."""
    return _Reader(where, text).value


def dumps(value: Any, over: str = "") -> str:
    """A document of maps, lists, texts, numbers, booleans and None.

    `over` is the document that it replaces: its comments, order of keys and quotes are kept where possible.
    """
    kept = _merged_text(over, value) if over.strip() else None
    return _emit(value) if kept is None else kept


def has_value(path: str, value: Any) -> bool:
    """Whether a file is there and holds this value."""
    try:
        return bool(load(path) == value)
    except (FileNotFoundError, YamlError):
        return False


def write(path: str, value: Any, like: str = "") -> None:
    """Write a file. Comments are kept from the existing file, else from the file `like`."""
    text = dumps(value, text_of(path) or text_of(like))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _text(path: str) -> str:
    if os.path.exists(path) and not os.path.isfile(path):  # reading a pipe would block
        raise YamlError(f"{path} is not a file.")
    try:
        with open(path, encoding="utf-8-sig", errors="strict", newline="") as file:
            text = file.read(_MAX_BYTES + 1)
    except UnicodeDecodeError:
        raise YamlError(f"{path} is not UTF-8 text.") from None
    except FileNotFoundError:
        raise
    except OSError as e:
        raise YamlError(f"{path} cannot be read: {e.strerror}.") from e
    return text


def _ruamel(typ: str) -> Any:
    try:
        from ruamel.yaml import YAML  # the only dependency of the SDK; scripts on targets need none
    except ImportError:
        raise UserErrorException(
            "YAML files are read and written with the package ruamel.yaml, which this Python does not have.",
            "pip install ruamel.yaml; in a run, list it in the environment's packages.",
        ) from None
    made = YAML(typ=typ, pure=True)
    made.max_depth = _MAX_DEPTH
    made.allow_duplicate_keys = False
    return made


def _scalar(text: str) -> Any:
    """The value of a plain scalar in the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if text in ("True", "TRUE", "False", "FALSE", "Null", "NULL"):
        return _WORDS[text.lower()]
    if _INT.match(text):
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)
    if _FLOAT.match(text):
        return float(text)
    if _SPECIAL_FLOAT.match(text):
        return float(text.replace(".", "", 1))
    return text


class _Reader:
    """Builds plain values from the node tree, with the line of every part."""

    def __init__(self, where: str, text: str, one_line_scalars: bool = False) -> None:
        self.where = where
        self.one_line_scalars = one_line_scalars
        self.places: Places = {}
        text = text[1:] if text.startswith("\ufeff") else text
        self.lines = re.split(r"\r\n|\n|\r", text)
        if len(text) > _MAX_BYTES:
            raise YamlError(f"{where} is larger than the {_MAX_BYTES >> 20} MB that a YAML file may have.")
        for number, line in enumerate(self.lines):
            if _CONTROL.search(line):
                raise self.fail("a control character", number)
        root = self._compose(text)
        self.value = None if root is None else self._value(root)

    def fail(self, problem: str, line: int) -> YamlError:
        text = self.lines[line].strip() if line < len(self.lines) else ""
        return YamlError(f"{self.where}, line {line + 1}: {problem}" + (f" (in {text[:80]!r})" if text else ""))

    def _compose(self, text: str) -> Any:
        yaml = _ruamel("safe")
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            return yaml.compose(text)
        except MarkedYAMLError as e:
            is_open = e.context is not None and "while scanning a quoted" in e.context
            mark = e.context_mark if is_open else e.problem_mark or e.context_mark
            raise self.fail(_plainer(e.problem or e.context or "not YAML"), mark.line if mark else 0) from None
        except (YAMLError, ValueError) as e:
            raise self.fail(_plainer(str(e)), 0) from None

    def _value(self, node: Any) -> Any:
        line = node.start_mark.line
        if node.anchor:
            raise self.fail("anchors and aliases are not supported", line)
        tag = str(node.tag).rpartition(":")[2]
        if node.id == "mapping" and tag == "map":
            return self._map(node)
        if node.id == "sequence" and tag == "seq":
            return self._list(node)
        if node.id == "scalar" and tag == "str":
            return self._text(node)
        if node.id == "scalar" and tag in _CORE_TAGS and not node.style:
            try:
                return _scalar(node.value)
            except ValueError:
                raise self.fail("a number with too many digits", line) from None
        raise self.fail("tags are not supported", line)

    def _text(self, node: Any) -> str:
        first, last = node.start_mark.line, node.end_mark.line
        if self.one_line_scalars and not node.style and last > first:
            problem = "indented more than the line before; is it too far in, or is a colon missing there?"
            raise self.fail(problem, next(line for line in range(first + 1, last + 1) if self.lines[line].strip()))
        return str(node.value)

    def _list(self, node: Any) -> list[Any]:
        made: list[Any] = []
        for item in node.value:
            self.places[id(made), len(made)] = item.start_mark.line + 1
            made.append(self._value(item))
        return made

    def _map(self, node: Any) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line
            key = self._value(key_node)
            if isinstance(key, (list, dict)):
                raise self.fail("keys that are lists or maps are not supported", line)
            if key in made:
                raise self.fail(f"the key {key!r} occurs twice", line)
            self.places[id(made), key] = line + 1
            made[key] = self._value(value_node)
        return made


def _plainer(problem: str) -> str:
    return next((plain for pattern, plain in _PLAINER if pattern.search(problem)), problem)


def _emit(value: Any) -> str:
    yaml = _ruamel("rt")
    yaml.width = 1 << 20  # never fold a line: other tools read these files line by line
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):  # type: ignore[misc, unused-ignore]
        pass

    for kind, represent in ((type(None), _null), (str, _string), (float, _number), (tuple, _tuple)):
        Representer.add_representer(kind, represent)
    yaml.Representer = Representer
    text = io.StringIO()
    yaml.dump(value, text)
    found = text.getvalue()
    return found[: -len("...\n")] if found.endswith("\n...\n") else found


def _null(representer: Any, value: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


def _string(representer: Any, value: str) -> Any:
    is_odd = _QUOTED_FOR_1_1.match(value) or not value.isprintable() or not isinstance(_scalar(value), str)
    return representer.represent_scalar("tag:yaml.org,2002:str", value, style='"' if is_odd else None)


def _number(representer: Any, value: float) -> Any:
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")  # parsers of YAML 1.1 need the point
    text = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(text, text)
    return representer.represent_scalar("tag:yaml.org,2002:float", text)


def _tuple(representer: Any, value: tuple[Any, ...]) -> Any:
    return representer.represent_list(list(value))


def _merged_text(old: str, value: Any) -> str | None:
    """The document `old` with another value, comments kept; None if it cannot be parsed, or cannot hold the value."""
    try:
        loads(old)
        yaml = _ruamel("rt")
        yaml.preserve_quotes = True
        merged = _merge(yaml.load(old), value)
        text = _emit(merged)
        return text if loads(text) == value else None
    except YamlError:
        return None


def _merge(old: Any, new: Any) -> Any:
    """`new`, with the objects of `old`, which carry the comments, where both are the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [key for key in old if key not in new]:
            del old[key]
        for key, value in new.items():
            old[key] = _merge(old[key], value) if key in old else value
        return old
    if isinstance(old, list) and isinstance(new, (list, tuple)):
        _merge_list(old, list(new))
        return old
    return old if _same(old, new) else new


def _merge_list(old: list[Any], new: list[Any]) -> None:
    import difflib

    matcher = difflib.SequenceMatcher(None, [_key(item) for item in old], [_key(item) for item in new], autojunk=False)
    for what, old_from, old_to, new_from, new_to in reversed(matcher.get_opcodes()):
        if what == "equal":
            for at in range(old_to - old_from):
                old[old_from + at] = _merge(old[old_from + at], new[new_from + at])
            continue
        for at in reversed(range(old_from, old_to)):
            del old[at]
        for at, item in enumerate(new[new_from:new_to]):
            old.insert(old_from + at, item)


def _key(item: Any) -> Any:
    """The key by which items of two lists are matched: a map by its keys, anything else by its value."""
    if isinstance(item, dict):
        return ("map", *map(str, item))
    return repr(item) if isinstance(item, (list, tuple)) else (type(item) is bool, str(item))


def _same(old: Any, new: Any) -> bool:
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)
