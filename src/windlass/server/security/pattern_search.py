"""Many texts that are looked for in a log at once.

A few are looked for one by one, which is quickest. Where there are more, those of eight bytes and more are known by
their heads: the log is read as numbers of four bytes each, and wherever a text begins, one of them lies within its
first seven bytes. So one question for each number finds all places where any of them may be.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

FEW = 64
_NUMBER = 4
_HEAD = 2 * _NUMBER - 1


class Needles:
    def __init__(self, texts: Iterable[bytes]) -> None:
        found = set(texts)
        self.longest = max(map(len, found), default=0)
        many = [text for text in found if len(text) > _HEAD] if len(found) > FEW else []
        self._few = found.difference(many)
        self._by_head: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._offsets: defaultdict[int, set[int]] = defaultdict(set)  # of a number in a head
        for text in many:
            self._by_head[text[:_HEAD]].append(text)
        for head in self._by_head:
            for offset in range(_NUMBER):
                self._offsets[int.from_bytes(head[offset : offset + _NUMBER], sys.byteorder)].add(offset)
        self._beginnings = {head[:length] for head in self._by_head for length in range(1, _HEAD)}

    def places(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where one begins and ends; they may overlap."""
        for text in self._few:
            yield from ((at, at + len(text)) for at in occurrences(data, text))
        for at, text in self._candidates(data):
            if data.startswith(text, at):
                yield at, at + len(text)

    def begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of one that goes on after it."""
        tail = data[-self.longest :]
        found = [_overlap(tail, text) for text in self._few]
        found += [len(tail) - at for at, text in self._candidates(tail) if _goes_on(text, tail[at:])]
        found += [length for length in range(1, min(len(tail) + 1, _HEAD)) if tail[-length:] in self._beginnings]
        return max(found, default=0)

    def _candidates(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Where one of the many may begin, by its head."""
        numbers = memoryview(data)[: len(data) // _NUMBER * _NUMBER].cast("I")
        if not self._offsets or self._offsets.keys().isdisjoint(numbers):  # as mostly, and that is quick to ask
            return
        for index in [index for index, number in enumerate(numbers) if number in self._offsets]:
            for offset in self._offsets[numbers[index]]:
                at = index * _NUMBER - offset
                for text in self._by_head.get(data[at : at + _HEAD], ()) if at >= 0 else ():
                    yield at, text


def occurrences(data: bytes, text: bytes) -> Iterator[int]:
    at = data.find(text)
    while at >= 0:
        yield at
        at = data.find(text, at + 1)


def _goes_on(text: bytes, rest: bytes) -> bool:
    return len(text) > len(rest) and text.startswith(rest)


def _overlap(data: bytes, text: bytes) -> int:
    """The longest end of `data` with which `text` begins without being whole."""
    tail = data[-(len(text) - 1) :] if len(text) > 1 else b""
    if len(tail) > _HEAD:  # long ones are found by how they begin: to try each length would take its square
        for at in occurrences(tail, text[: _HEAD + 1]):
            if text.startswith(tail[at:]):
                return len(tail) - at
    return next((n for n in range(min(len(tail), _HEAD), 0, -1) if text.startswith(tail[-n:])), 0)
