"""The part of YAML that run configurations and conda files use.

Read: block and flow maps and lists, plain and quoted scalars, `|` and `>`, comments. Refused, with the line: anchors,
aliases, tags, tabs as indentation, keys that occur twice, several documents. Scalars mean what YAML 1.2 says: `yes`
and `on` are words. Written: the same values, so that reading gives them back.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from typing import Any

from windlass.client.exceptions import UserErrorException
from windlass.client.written import Places, Written

_MAX_DEPTH = 50
_WORDS: dict[str, Any] = {"": None, "~": None, "true": True, "false": False, "null": None}
_INT = re.compile(r"[-+]?[0-9]+\Z|0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_KEY = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^\s\"'\[\]{},#&*!|>%@`].*?)\s*:(?:\s+|\Z)")
_COMMENT = re.compile(r"(?:\A|\s)#")
_BLOCK_SCALAR = re.compile(r"([|>])([-+]?)([1-9]?)([-+]?)\s*(?:#.*)?\Z")
_ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
            " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028",
            "P": "\u2029"}  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class YamlError(UserErrorException):
    pass


def load(path: str) -> Any:
    """What a file says; FileNotFoundError if it is not there."""
    return _Reader(_text(path), path).document()


def load_written(path: str) -> tuple[Any, Written]:
    """And where it says it, for who tells its mistakes. Here a plain value ends with its line: a line that would go on
    with it is one that is indented too far.
    """
    reader = _Reader(_text(path), path, folds=False)
    lines = list(reader.lines)
    return reader.document(), Written(path, lines, reader.places)


def loads(text: str, where: str = "YAML") -> Any:
    return _Reader(text, where).document()


def _text(path: str) -> str:
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for
        raise YamlError(f"{path} is not a file.")
    try:
        with open(path, encoding="utf-8-sig", errors="strict", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise YamlError(f"{path} is not UTF-8 text.") from None
    except FileNotFoundError:
        raise
    except OSError as e:
        raise YamlError(f"{path} cannot be read: {e.strerror}") from e


def scalar(text: str) -> Any:
    """What a plain scalar means."""
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
    def __init__(self, text: str, where: str, folds: bool = True) -> None:
        text = text[1:] if text.startswith("\ufeff") else text
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = (text[:-1] if text.endswith("\n") else text).split("\n")
        self.where = where
        self.folds = folds  # whether a plain scalar may go on below
        self.places: Places = {}
        self.starts = [0]  # of the lines of a flow collection, in its text
        self.at = 0
        self.depth = 0
        for number, line in enumerate(self.lines):
            if _CONTROL.search(line):
                raise self.fail("a control character", number)

    def fail(self, problem: str, line: int | None = None) -> YamlError:
        number = self.at if line is None else line
        text = self.lines[number].strip() if number < len(self.lines) else ""
        return YamlError(f"{self.where}, line {number + 1}: {problem}" + (f" (in {text[:80]!r})" if text else ""))

    def document(self) -> Any:
        if self.next_indent() == 0 and re.match(r"---(\s|\Z)", self.lines[self.at]):
            self.lines[self.at] = "   " + self.lines[self.at][3:]
        said = [at for at, line in enumerate(self.lines) if line.strip()]
        if said and self.lines[said[-1]].rstrip() == "...":
            del self.lines[said[-1] :]
        value = self.block(-1)
        if self.next_indent() >= 0:
            raise self.fail("there is more after the end of the document")
        return value

    def next_indent(self) -> int:
        """Go to the next line that says something; how far it is indented, or -1 at the end."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            content = line.lstrip(" ")
            if content.startswith("\t") and content.strip() and not content.lstrip().startswith("#"):
                raise self.fail("a tab as indentation; use spaces")
            if content.strip() and not content.startswith("#"):
                return len(line) - len(content)
            self.at += 1
        return -1

    def block(self, parent: int) -> Any:
        """The node that begins on the next line, if it is indented more than `parent`; else nothing."""
        indent = self.next_indent()
        if indent <= parent:
            return None
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail(f"nested more than {_MAX_DEPTH} deep")
        try:
            content = self.lines[self.at][indent:]
            if content == "-" or content.startswith("- "):
                return self.sequence(indent)
            if self.split_key(content) is not None:
                return self.mapping(indent)
            self.at += 1
            return self.value(content.strip(), parent, self.at - 1)
        finally:
            self.depth -= 1

    def sequence(self, indent: int) -> list[Any]:
        items: list[Any] = []
        while self.next_indent() == indent:
            content = self.lines[self.at][indent:]
            if content != "-" and not content.startswith("- "):
                break
            rest = content[1:]
            self.places[id(items), len(items)] = self.at + 1
            if _is_nested(rest.strip(), self):
                # A map or list that begins beside the dash: read it as if it stood alone in its column.
                self.lines[self.at] = " " * (indent + 1) + rest
                items.append(self.block(indent))
                continue
            self.at += 1
            is_below = not _strip_comment(rest.strip())
            items.append(self.block(indent) if is_below else self.value(rest.strip(), indent, self.at - 1))
        if self.next_indent() > indent:
            raise self.fail("indented more than its neighbours")
        return items

    def mapping(self, indent: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while self.next_indent() == indent:
            content = self.lines[self.at][indent:]
            pair = self.split_key(content)
            if pair is None:
                if content == "-" or content.startswith("- "):
                    break
                raise self.fail(f"expected 'key: value', not {content.strip()[:60]!r}")
            key, rest = pair
            if key in found:
                raise self.fail(f"the key {key!r} occurs twice")
            self.at += 1
            self.places[id(found), key] = self.at
            found[key] = self.map_value(rest, indent)
        if self.next_indent() > indent:
            raise self.fail("indented more than its neighbours")
        return found

    def map_value(self, rest: str, indent: int) -> Any:
        line = self.at - 1
        if not _strip_comment(rest):
            is_list = self.next_indent() == indent and re.match(r"-(\s|\Z)", self.lines[self.at][indent:])
            return self.sequence(indent) if is_list else self.block(indent)
        if re.match(r"-\s", rest):
            raise self.fail("a list begins on a line of its own", line)
        return self.value(rest, indent, line)

    def split_key(self, content: str) -> tuple[Any, str] | None:
        """(key, what follows the colon), or None if this is not a line of a map."""
        if content.startswith("? "):
            raise self.fail("keys that are not plain words are not supported")
        found = _KEY.match(content)
        if found is None or (content[0] not in "\"'" and _COMMENT.search(found.group(1))):
            return None
        key = found.group(1)
        if key[0] in "\"'":
            return self.quoted(key, 0, self.at)[0], content[found.end() :].strip()
        return scalar(key), content[found.end() :].strip()

    def value(self, text: str, indent: int, line: int) -> Any:
        """A scalar or flow collection that begins with `text` and may go on below."""
        first = text[:1]
        if first in ("|", ">"):
            return self.block_scalar(text, indent, line)
        if first and first in "\"'[{":
            return self.flow(text, line)
        if first and (first in "&*!%@`" or (first in "]},")):
            what = {"&": "anchors", "*": "aliases", "!": "tags"}.get(first, f"values that begin with {first!r}")
            raise self.fail(f"{what} are not supported", line)
        text = _strip_comment(text)
        if re.search(r":(\s|\Z)", text):
            raise self.fail("a map inside a scalar; quote the value if it is one", line)
        return scalar(self.folded(text, indent))

    def folded(self, text: str, indent: int) -> str:
        """A plain scalar with the lines that continue it."""
        if not text:
            return text
        while self.next_indent() > indent:
            content = self.lines[self.at].strip()
            if self.split_key(content) is not None:
                raise self.fail("a map inside a scalar; is the line before it missing a colon?")
            if not self.folds or content == "-" or content.startswith("- "):
                raise self.fail("indented more than the line before; is it too far in, or is a colon missing there?")
            text += " " + _strip_comment(content)
            self.at += 1
        return text

    def block_scalar(self, text: str, indent: int, line: int) -> str:
        found = _BLOCK_SCALAR.match(text)
        if found is None:
            raise self.fail(f"not the head of a block of text: {text[:40]!r}", line)
        style, chomp = found.group(1), found.group(2) or found.group(4)
        lines: list[str] = []
        inner = max(indent, 0) + int(found.group(3)) if found.group(3) else None
        while self.at < len(self.lines):
            raw = self.lines[self.at]
            depth = len(raw) - len(raw.lstrip(" "))
            if raw.strip():
                inner = depth if inner is None else inner
                if depth < inner or inner <= indent:
                    break
            lines.append(raw[inner:] if inner is not None and raw.strip() else "")
            self.at += 1
        body = "\n".join(lines) + "\n" if style == "|" else _fold(lines)
        kept = body.rstrip("\n")
        return body if chomp == "+" else kept if chomp == "-" or not kept else kept + "\n"

    def flow(self, text: str, line: int) -> Any:
        """A quoted scalar or a flow collection; lines are taken until it is whole."""
        self.starts = [0]
        while True:
            try:
                value, end = self.flow_value(text, 0, line, 0)
                break
            except IndexError:
                if self.at >= len(self.lines):
                    raise self.fail("a quote or bracket is not closed", line) from None
                following = self.lines[self.at].strip()
                self.at += 1
                self.starts.append(len(text))
                text = text + (" " + following if following else "\n")
        rest = text[end:].strip()
        if rest and not rest.startswith("#"):
            raise self.fail(f"unexpected {rest[:40]!r}", line)
        return value

    def flow_value(self, text: str, at: int, line: int, depth: int) -> tuple[Any, int]:
        """The value at a position, and where it ends. IndexError: the text ends before it does."""
        if depth > _MAX_DEPTH:
            raise self.fail(f"nested more than {_MAX_DEPTH} deep", line)
        at = _skip(text, at)
        if text[at] in "\"'":
            return self.quoted(text, at, line)
        if text[at] == "[":
            return self.flow_list(text, at + 1, line, depth)
        if text[at] == "{":
            return self.flow_map(text, at + 1, line, depth)
        if text[at] in "&*!":
            raise self.fail("anchors, aliases and tags are not supported", line)
        end = at
        while not (text[end] in ",]}[{" or (text[end] == ":" and text[end + 1] in " ,]}")):
            end += 1
        return scalar(text[at:end].strip()), end

    def flow_list(self, text: str, at: int, line: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            at = _skip(text, at)
            if text[at] == "]":
                return items, at + 1
            self.places[id(items), len(items)] = line + bisect_right(self.starts, at)
            item, at = self.flow_value(text, at, line, depth + 1)
            items.append(item)
            at = self.comma(text, at, "]", line)

    def flow_map(self, text: str, at: int, line: int, depth: int) -> tuple[dict[Any, Any], int]:
        found: dict[Any, Any] = {}
        while True:
            at = _skip(text, at)
            if text[at] == "}":
                return found, at + 1
            number = line + bisect_right(self.starts, at)
            key, at = self.flow_value(text, at, line, depth + 1)
            if isinstance(key, (list, dict)) or key in found:
                raise self.fail(f"the key {key!r} occurs twice or is not a plain word", line)
            self.places[id(found), key] = number
            at = _skip(text, at)
            value = None
            if text[at] == ":":
                at = _skip(text, at + 1)
                if text[at] not in ",}":
                    value, at = self.flow_value(text, at, line, depth + 1)
            found[key] = value
            at = self.comma(text, at, "}", line)

    def comma(self, text: str, at: int, close: str, line: int) -> int:
        at = _skip(text, at)
        if text[at] == ",":
            return at + 1
        if text[at] != close:
            raise self.fail(f"expected ',' or {close!r}, not {text[at : at + 20]!r}", line)
        return at

    def quoted(self, text: str, at: int, line: int) -> tuple[str, int]:
        quote = text[at]
        at += 1
        out: list[str] = []
        while True:
            c = text[at]
            if c == quote:
                if quote == "'" and text[at + 1 : at + 2] == "'":
                    out.append("'")
                    at += 2
                    continue
                return "".join(out), at + 1
            if c == "\\" and quote == '"':
                piece, at = self.escape(text, at + 1, line)
                out.append(piece)
                continue
            out.append(c)
            at += 1

    def escape(self, text: str, at: int, line: int) -> tuple[str, int]:
        c = text[at]
        if c in _HEX_ESCAPES:
            end = at + 1 + _HEX_ESCAPES[c]
            try:
                return chr(int(text[at + 1 : end], 16)), end
            except (ValueError, OverflowError):
                raise self.fail(f"not a character: \\{text[at:end]}", line) from None
        if c not in _ESCAPES:
            raise self.fail(f"unknown escape \\{c}", line)
        return _ESCAPES[c], at + 1


def _is_nested(rest: str, reader: _Reader) -> bool:
    return rest == "-" or rest.startswith("- ") or reader.split_key(rest) is not None


def _strip_comment(text: str) -> str:
    found = _COMMENT.search(text)
    return text[: found.start()].rstrip() if found else text


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\n":
        at += 1
    return at


def _fold(lines: list[str]) -> str:
    """Lines of a `>` block: single breaks become spaces, empty lines breaks; more indented lines stay."""
    out = ""
    for i, line in enumerate(lines):
        before = lines[i - 1] if i else ""
        if not line:
            out += "\n"
        elif out and before and not line[0].isspace() and not before[0].isspace():
            out += " " + line
        elif out and before:
            out += "\n" + line
        else:
            out += line
    return out + "\n"
