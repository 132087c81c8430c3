"""Lines of text files by number, and a search in them, without reading the whole file for each request.

The index of a file has the number of line feeds up to the end of every 64 KiB: to count them takes a second for a few
gigabytes, and 128 KiB of memory for each. The index of a log that grows is continued.
"""

from __future__ import annotations

import re
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from windlass.core.entities import Run
from windlass.core.errors import TooLarge
from windlass.server.streaming.log_reader import File, Live

BLOCK = 1 << 16
PIECE = BLOCK  # bytes that are read at once: larger buffers are allocated anew each time, which takes longer
LARGEST = 8 << 30  # bytes of a file
LONGEST = 10_000  # characters of a line; longer ones are cut
SHORTEST_CUT = 200  # to these, once the lines of a response have more than this text together
MOST_TEXT = 8 << 20
MOST_SEARCHED = 256 << 20  # bytes in one request
EXCERPT = 1000  # bytes of a longer line around a match
_BEFORE_MATCH = 200
_CACHED_BYTES = 4 << 20
_CACHED = 256


class FileMoved(Exception):
    """A live log was sealed while it was read: it has to be opened again."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A line of which only a part is shown."""

    line: int
    size: int  # of the whole line, in bytes


@dataclass(frozen=True, slots=True)
class Match:
    line: int
    text: str


class LineIndex:
    """Counts of line feeds, for all requests for one file."""

    def __init__(self) -> None:
        self.feeds = array("Q")  # up to the end of each whole block
        self._growing = threading.Lock()

    def grow(self, file: File) -> None:
        blocks = file.size // BLOCK
        with self._growing:
            count = self.feeds[-1] if self.feeds else 0
            while len(self.feeds) < blocks:
                data = file.read(len(self.feeds) * BLOCK, BLOCK)
                if len(data) < BLOCK:
                    raise FileMoved
                count += data.count(b"\n")
                self.feeds.append(count)


class LineIndexes:
    """The indexes of the files that were read last."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[Any, LineIndex] = OrderedDict()
        self._lock = threading.Lock()

    def lines(self, file: File) -> FileLines:
        """The lines of a file. Raises FileMoved if it was sealed meanwhile, TooLarge if it has too many bytes."""
        if file.size > LARGEST:
            raise TooLarge(
                f"{file.path} has {file.size >> 30} GiB: lines are shown of files up to {LARGEST >> 30} GiB.",
                "Download it.",
            )
        key = _key_of(file.run, file.path) if isinstance(file, Live) else file.digest
        with self._lock:
            index = self._indexes.setdefault(key, LineIndex())
            self._indexes.move_to_end(key)
        index.grow(file)
        self._drop_oldest()
        return FileLines(file, index.feeds)

    def _drop_oldest(self) -> None:
        with self._lock:
            size = sum(8 * len(index.feeds) for index in self._indexes.values())
            while len(self._indexes) > 1 and (size > _CACHED_BYTES or len(self._indexes) > _CACHED):
                _, dropped = self._indexes.popitem(last=False)
                size -= 8 * len(dropped.feeds)


def _key_of(run: Run, path: str) -> tuple[object, ...]:
    """The key of a live log. A new run may have the id of a deleted one, but was created at another time."""
    return run.id, run.created_at, run.attempt, path


class FileLines:
    """The lines of a file as it was when it was opened. A live log may have grown since."""

    def __init__(self, file: File, feeds: array[int]) -> None:
        self._file = file
        self._feeds = feeds
        self._blocks = file.size // BLOCK
        rest = self._read(self._blocks * BLOCK, file.size % BLOCK)
        self._in_blocks = feeds[self._blocks - 1] if self._blocks else 0
        self._all_feeds = self._in_blocks + rest.count(b"\n")
        last = rest[-1:] or (self._read(file.size - 1, 1) if file.size else b"\n")
        self.count = self._all_feeds + (last != b"\n")
        self.gap_line = self._line_at(file.gap_offset) if file.gap_length else None

    def read(self, first: int, limit: int) -> tuple[list[str], list[Cut]]:
        """Lines by number. Of long ones only a part, and those are named: the beginning, or the end if there are
        carriage returns, since a terminal shows the end of a line of progress.
        """
        texts: list[str] = []
        cut: list[Cut] = []
        room = MOST_TEXT
        position, last = self._start_of(first), min(first + limit, self.count)
        while first + len(texts) < last:
            data = self._read(position, min(PIECE, self._file.size - position))
            raw_lines, taken = self._split(data, position, first + len(texts), last)
            for raw, size in raw_lines:
                number = first + len(texts)
                text = self._shown(number, raw)
                most = LONGEST if room > 0 else SHORTEST_CUT
                if len(text) > most or size > len(raw):
                    text = text[-most:] if "\r" in text else text[:most]
                    cut.append(Cut(number, size))
                room -= len(text)
                texts.append(text)
            position += taken
        return texts, cut

    def search(self, text: str, ignore_case: bool, after: int, limit: int) -> tuple[list[Match], int | None]:
        """The lines after that number that have the text, and the number after which to go on, None at the end."""
        wanted = _Wanted(text, ignore_case)
        matches: list[Match] = []
        line = after + 1
        begin = position = self._start_of(line)
        while position < self._file.size:
            data = self._read(position, min(PIECE, self._file.size - position))
            end = len(data) if position + len(data) == self._file.size else data.rfind(b"\n") + 1
            if end:
                line = wanted.search(data[:end], line, matches, limit)
                position += end
            else:  # the line is longer than a piece, and a match may begin at the end of this one
                known = len(matches)
                wanted.search(data, line, matches, known + 1)
                if len(matches) > known:
                    line += 1
                    position = self._start_of(line)
                else:
                    position += len(data) - wanted.reach
            if len(matches) >= limit:
                return matches, matches[-1].line
            if position - begin > MOST_SEARCHED and line > after + 1 and position < self._file.size:
                return matches, line - 1
        return matches, None

    def _split(self, data: bytes, position: int, number: int, last: int) -> tuple[list[tuple[bytes, int]], int]:
        """The lines, up to that number, that a piece of the file begins with, each with its size. Returns also how many
        bytes of the file they take.
        """
        is_end = position + len(data) == self._file.size
        end = len(data) if is_end else data.rfind(b"\n") + 1
        if not end:
            following = self._start_of(number + 1)
            size = following - position - (number < self._all_feeds)
            if b"\r" in data:
                data = self._read(position + size - BLOCK, BLOCK)
            return [(data, size)], following - position
        pieces = data[:end].removesuffix(b"\n").split(b"\n", last - number)[: last - number]
        return [(raw, len(raw)) for raw in pieces], sum(map(len, pieces)) + len(pieces)

    def _shown(self, number: int, raw: bytes) -> str:
        if number == self.gap_line:
            at = self._file.gap_offset - self._start_of(number)
            raw = b"%b [%d bytes are not kept] %b" % (raw[:at], self._file.gap_length, raw[at:])
        part = slice(-4 * LONGEST - 4, None) if b"\r" in raw else slice(4 * LONGEST + 4)
        return raw[part].decode("utf-8", "replace")

    def _start_of(self, line: int) -> int:
        """The offset of a line: after as many line feeds as its number. The size of the file if there is no such."""
        if line <= 0:
            return 0
        if line > self._all_feeds:
            return self._file.size
        block = bisect_left(self._feeds, line, 0, self._blocks)
        data = self._read(block * BLOCK, min(BLOCK, self._file.size - block * BLOCK))
        before = self._feeds[block - 1] if block else 0
        return block * BLOCK + len(data) - len(data.split(b"\n", line - before)[-1])

    def _line_at(self, offset: int) -> int:
        """The number of line feeds before an offset."""
        block = offset // BLOCK
        before = self._feeds[block - 1] if block else 0
        return before + self._read(block * BLOCK, offset - block * BLOCK).count(b"\n")

    def _read(self, offset: int, length: int) -> bytes:
        data = self._file.read(offset, length) if length > 0 else b""
        if len(data) < length:
            raise FileMoved
        return data


class _Wanted:
    """The text that a search looks for, as it is or in any case."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self._ignores_case = ignore_case
        raw = text.encode("utf-8", "replace")
        self.reach = 2 * len(raw)  # so many bytes before the end of a piece may be the beginning of a match
        self._text = raw.lower() if ignore_case else raw
        is_plain = text.isascii() or not ignore_case
        self._pattern = None if is_plain else re.compile(b"".join(map(_any_case, text)))

    def search(self, piece: bytes, line: int, matches: list[Match], limit: int) -> int:
        """Add the matching lines of a piece, which begins with that line, up to a limit of all. Returns the number of
        the line after the piece.
        """
        folded = piece.lower() if self._ignores_case else piece  # of ASCII letters: all bytes stay where they are
        counted, found = 0, self._find(folded, 0)
        while found >= 0 and len(matches) < limit:
            line += piece.count(b"\n", counted, found)
            start, end = piece.rfind(b"\n", 0, found) + 1, piece.find(b"\n", found)
            counted = len(piece) if end < 0 else end
            matches.append(Match(line, _excerpt(piece[start:counted], found - start)))
            found = self._find(folded, counted)
        return line + piece.count(b"\n", counted)

    def _find(self, data: bytes, start: int) -> int:
        if self._pattern is None:
            return data.find(self._text, start)
        found = self._pattern.search(data, start)
        return -1 if found is None else found.start()


def _excerpt(line: bytes, at: int) -> str:
    if len(line) > EXCERPT:
        start = max(0, min(at - _BEFORE_MATCH, len(line) - EXCERPT))
        line = line[start : start + EXCERPT]
    return line.decode("utf-8", "replace")


def _any_case(character: str) -> bytes:
    if character.isascii():
        return re.escape(character.lower().encode())
    forms = sorted(
        {form.encode("utf-8", "replace").lower() for form in (character, character.lower(), character.upper())}
    )
    return b"(?:%b)" % b"|".join(map(re.escape, forms))
