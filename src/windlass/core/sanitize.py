"""Text that others wrote, made safe for a terminal.

A log may hold anything: sequences that set the window's title, write to the clipboard, answer as if the user had typed,
or hide what is printed. Only colours (SGR) and the plain movements `\\r \\n \\t \\b` pass.
"""

from __future__ import annotations

import codecs
import re
from enum import Enum

# What ends a stretch of plain text: C0 controls but \b \t \n \r, DEL, C1 controls.
_CONTROL = re.compile("[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_COLOUR = re.compile(r"[0-9;:]*\Z")
_STRING_OPENERS = {"]": "\x9d", "P": "\x90", "X": "\x98", "^": "\x9e", "_": "\x9f"}
_C1_STRINGS = frozenset(_STRING_OPENERS.values())
_STRING_END = re.compile("[\x07\x18\x1a\x1b\n\x9c]")
_RESETS = frozenset({"", "0", "00"})
_LONGEST = 64
# In a name, what moves the cursor or turns the direction of its neighbours is shown as an escape.
_UNSHOWABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class _In(Enum):
    TEXT = 0
    ESCAPE = 1  # after ESC
    CHARSET = 2  # ESC and an intermediate byte: one more byte belongs to it
    CONTROL = 3  # CSI: parameters up to a final byte
    STRING = 4  # OSC, DCS, SOS, PM, APC: up to BEL or ST
    STRING_ESCAPE = 5  # ESC inside a string: perhaps the first half of ST


class PlainText:
    """Decodes a log as it comes, in pieces cut anywhere, and changes nothing else."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def close(self) -> str:
        """What was held back at the end. The next piece is the beginning of another log."""
        rest = self._decoder.decode(b"", True)
        self._decoder.reset()
        return rest


class SafeText(PlainText):
    """Decodes a log as it comes, in pieces cut anywhere, and lets only harmless sequences through.

    A newline ends an unfinished sequence, so that a stray opener in binary output cannot hide the rest of the log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._state = _In.TEXT
        self._parameters = ""
        self._coloured = False

    def feed(self, data: bytes) -> str:
        return self._filter(super().feed(data))

    def close(self) -> str:
        """What was held back at the end, and the end of colours that were left on."""
        rest = self._filter(super().close())
        self._state = _In.TEXT
        if self._coloured:
            self._coloured = False
            rest += "\x1b[0m"
        return rest

    def _filter(self, text: str) -> str:
        kept: list[str] = []
        at = 0
        while at < len(text):
            if self._state is _In.TEXT:
                at = self._plain(text, at, kept)
            elif self._state is _In.STRING:
                at = self._string(text, at)
            else:
                at = self._sequence(text, at, kept)
        return "".join(kept)

    def _plain(self, text: str, at: int, kept: list[str]) -> int:
        found = _CONTROL.search(text, at)
        if found is None:
            kept.append(text[at:])
            return len(text)
        kept.append(text[at : found.start()])
        self._state = self._after_control(found.group())
        return found.end()

    def _after_control(self, char: str) -> _In:
        self._parameters = ""
        if char == "\x1b":
            return _In.ESCAPE
        if char == "\x9b":
            return _In.CONTROL
        return _In.STRING if char in _C1_STRINGS else _In.TEXT

    def _string(self, text: str, at: int) -> int:
        found = _STRING_END.search(text, at)
        if found is None:
            return len(text)
        if found.group() == "\x1b":
            self._state = _In.STRING_ESCAPE
            return found.end()
        self._state = _In.TEXT
        return found.start() if found.group() == "\n" else found.end()

    def _sequence(self, text: str, at: int, kept: list[str]) -> int:
        """One character of an escape sequence; a character that cannot belong to one is read again as text."""
        char = text[at]
        if self._state is _In.STRING_ESCAPE:
            self._state = _In.TEXT if char == "\\" else _In.ESCAPE
            return at + 1 if char == "\\" else at
        if not " " <= char <= "~":
            self._state = _In.TEXT
            return at
        if self._state is _In.ESCAPE:
            self._state = self._after_escape(char)
        elif self._state is _In.CHARSET:
            self._state = _In.CHARSET if char < "0" else _In.TEXT
        elif char < "@":
            self._parameters = (self._parameters + char)[: _LONGEST + 1]
        else:
            self._finish_control(char, kept)
        return at + 1

    def _after_escape(self, char: str) -> _In:
        self._parameters = ""
        if char == "[":
            return _In.CONTROL
        if char in _STRING_OPENERS:
            return _In.STRING
        return _In.CHARSET if char < "0" else _In.TEXT

    def _finish_control(self, final: str, kept: list[str]) -> None:
        self._state = _In.TEXT
        if final == "m" and len(self._parameters) <= _LONGEST and _COLOUR.match(self._parameters):
            kept.append(f"\x1b[{self._parameters}m")
            self._coloured = self._parameters not in _RESETS


def escape(text: str) -> str:
    """A name, a path, a message: on one line, with what cannot be seen written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSHOWABLE.sub(_escape_match, text)


def one_line(text: str) -> str:
    """A message of several lines as one. Where a new sentence begins on a line, the one before it ends."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    for at, line in enumerate(lines[1:]):
        if line[0].isupper() and (lines[at][-1].isalnum() or lines[at][-1] in ")]\"'`"):
            lines[at] += "."
    return escape(" ".join(lines))


def _escape_match(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
