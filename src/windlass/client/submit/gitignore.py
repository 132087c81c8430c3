"""Ignore rules of a source folder, with exactly the semantics of .gitignore.

One file of rules is read, at the root of the folder: .amlignore if it exists, else .gitignore.
"""

from __future__ import annotations

import codecs
import os
import re
from typing import TYPE_CHECKING

from windlass.client.exceptions import SnapshotException

if TYPE_CHECKING:
    from collections.abc import Iterable

# Ignored by default. A rule of the user's file may include them (`!/outputs/`).
ALWAYS = (".git", "__pycache__/", ".ipynb_checkpoints/", "/azureml-logs/", "/azureml-setup/", "/outputs/")
FILES = (".amlignore", ".gitignore")

_SPECIAL = re.compile(r"[*?\[\\]")
_LONGEST = 1 << 16  # no path is as long
_SOME = "[^/]*"
_FOLDERS = ("(?:.*/)?", ".*")
# Classes of ASCII characters, as git's matcher knows them.
_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


class _MatchesNothing(Exception):
    """A pattern that matches nothing, such as one with an open bracket."""


class Rule:
    """One line of a file of rules."""

    def __init__(self, pattern: str) -> None:
        self.is_negated = pattern.startswith("!")
        if self.is_negated:
            pattern = pattern[1:]
        self.only_folders = pattern.endswith("/")
        if self.only_folders:
            pattern = pattern[:-1]
        self.is_path = "/" in pattern
        self.matches = re.compile(_expression(_as_bytes(pattern), self.is_path), re.DOTALL).match


class Rules:
    def __init__(self, lines: Iterable[str], always: Iterable[str] = ALWAYS) -> None:
        rules = [Rule(line) for line in always]
        rules += [Rule(line) for line in (_trim(line) for line in lines) if line and not line.startswith("#")]
        # The last rule that matches decides, so they are tried from the end.
        self._rules = rules[::-1]

    @classmethod
    def of_folder(cls, folder: str) -> Rules:
        for name in FILES:
            path = os.path.join(folder, name)
            if not os.path.isfile(path):  # a pipe would block
                continue
            try:
                with open(path, "rb") as file:
                    content = file.read()
            except OSError as e:
                raise SnapshotException(f"Cannot read {path}: {e.strerror}") from e
            lines = _decoded(content, path).split("\n")
            return cls(line[:-1] if line.endswith("\r") else line for line in lines)
        return cls([])

    def ignores(self, path: str, name: str, is_folder: bool) -> bool:
        """Whether a file or folder is ignored. Files below an ignored folder are ignored whatever this returns."""
        if not path.isascii():
            path, name = _as_bytes(path), _as_bytes(name)
        for rule in self._rules:
            if (is_folder or not rule.only_folders) and rule.matches(path if rule.is_path else name):
                return not rule.is_negated
        return False


def _decoded(content: bytes, path: str) -> str:
    """The text of a file of rules: UTF-8, or UTF-16 with a byte order mark, as PowerShell writes it. Other bytes
    are kept as they are, since git compares bytes.
    """
    try:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16")
    except UnicodeDecodeError:
        raise SnapshotException(f"{path} begins as UTF-16 text and is not: save it as UTF-8.") from None
    if b"\0" in content:
        raise SnapshotException(f"{path} is not text: it has a NUL byte. Save it as UTF-8.")
    text = content.decode("utf-8", "surrogateescape")
    return text[1:] if text.startswith("\ufeff") else text


def _as_bytes(text: str) -> str:
    """One character a byte: git's `?` is one byte, not one letter."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _trim(line: str) -> str:
    """Remove spaces at the end, unless a backslash escapes them."""
    kept = len(line.rstrip(" "))
    backslashes = kept - len(line[:kept].rstrip("\\"))
    return line[: kept + 1] if backslashes % 2 and kept < len(line) else line[:kept]


def _expression(pattern: str, is_path: bool) -> str:
    """A regular expression for the whole path (or the name alone)."""
    if len(pattern) > _LONGEST:
        return r"(?!)"
    if is_path and pattern.startswith("/"):
        pattern = pattern[1:]
    found = _SPECIAL.search(pattern)
    plain = pattern if found is None else pattern[: found.start()]
    try:
        # git compares the plain beginning by itself, so `**` right after it counts as standing at the beginning.
        return re.escape(plain) + _joined(_pieces(pattern[len(plain) :], is_path)) + r"\Z"
    except _MatchesNothing:
        return r"(?!)"


def _pieces(pattern: str, is_path: bool) -> list[str]:
    """Expressions in a row: for one character each, for some characters of a name, and for whole folders."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        at += 1
        if c == "*":
            piece, at = _stars(pattern, at - 1, is_path)
        elif c == "?":
            piece = "[^/]"
        elif c == "[":
            piece, at = _bracket(pattern, at)
        elif c == "\\":
            if at == len(pattern):
                raise _MatchesNothing
            piece = re.escape(pattern[at])
            at += 1
        else:
            piece = re.escape(c)
        if piece not in (_SOME, _FOLDERS[0]) or out[-1:] != [piece]:  # twice in a row means the same as once
            out.append(piece)
    return out


def _joined(pieces: list[str]) -> str:
    """Join to one expression. All stars in a name but the last are possessive: they stop at the first match.
    Backtracking would find nothing more, and take exponential time for `*a*a*a*a*a*b`."""
    out = ""
    at = 0
    while at < len(pieces):
        piece, at = pieces[at], at + 1
        if piece != _SOME:
            out += piece
            continue
        end = at
        while end < len(pieces) and pieces[end] not in (_SOME, "/", *_FOLDERS):
            end += 1
        fixed = "".join(pieces[at:end])
        if pieces[end : end + 1] == [_SOME]:
            out += f"(?=(?P<s{at}>[^/]*?{fixed}))(?P=s{at})"  # possessive; Python has syntax for it from 3.11 on
        else:
            out += _SOME + fixed
        at = end
    return out


def _stars(pattern: str, at: int, is_path: bool) -> tuple[str, int]:
    end = at
    while pattern[end : end + 1] == "*":
        end += 1
    follows = pattern[end : end + 2]
    stands_alone = (at == 0 or pattern[at - 1] == "/") and (not follows or follows[0] == "/" or follows == "\\/")
    if end - at == 1 or not is_path or not stands_alone:
        return _SOME, end
    return (_FOLDERS[0], end + 1) if follows[:1] == "/" else (_FOLDERS[1], end)


def _bracket(pattern: str, at: int) -> tuple[str, int]:
    """A bracket expression; `at` is the position after the opening bracket."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    out = ""
    first = True
    while first or pattern[at : at + 1] != "]":
        first = False
        end = pattern.find("]", at + 2) if pattern.startswith("[:", at) else -1
        if end > at + 2 and pattern[end - 1] == ":":
            if pattern[at + 2 : end - 1] not in _CLASSES:
                raise _MatchesNothing
            out += _CLASSES[pattern[at + 2 : end - 1]]
            at = end + 1
            continue
        low, at = _member(pattern, at)
        out += re.escape(low)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(pattern, at + 1)
            out += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
    return f"(?!/)[{'^' if negated else ''}{out}]", at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    at += pattern[at : at + 1] == "\\"
    if at >= len(pattern):
        raise _MatchesNothing
    return pattern[at], at + 1
