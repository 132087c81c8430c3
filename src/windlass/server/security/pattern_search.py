"""Multi-pattern search in bytes: finds all occurrences of a set of patterns in one pass.

Up to 64 patterns are searched one by one, which is fastest. Beyond that, those of eight bytes and more are indexed by
the four 4-byte words at offsets 0 to 3 of each: a scan of the data in steps of 4 bytes meets one of these words
wherever a pattern starts.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

FEW = 64
_WORD = 4
_HEAD = 2 * _WORD - 1  # bytes that the four words of a pattern cover


class PatternSet:
    def __init__(self, patterns: Iterable[bytes]) -> None:
        found = set(patterns)
        self.longest = max(map(len, found), default=0)
        indexed = [pattern for pattern in found if len(pattern) > _HEAD] if len(found) > FEW else []
        self._unindexed = found.difference(indexed)
        self._by_head: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._offsets: defaultdict[int, set[int]] = defaultdict(set)  # of a word in the head of a pattern
        for pattern in indexed:
            self._by_head[pattern[:_HEAD]].append(pattern)
        for head in self._by_head:
            for offset in range(_WORD):
                self._offsets[int.from_bytes(head[offset : offset + _WORD], sys.byteorder)].add(offset)
        self._head_prefixes = {head[:length] for head in self._by_head for length in range(1, _HEAD)}

    def matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of each occurrence, in no order; they may overlap."""
        for pattern in self._unindexed:
            yield from ((at, at + len(pattern)) for at in occurrences(data, pattern))
        for at, pattern in self._candidates(data):
            if data.startswith(pattern, at):
                yield at, at + len(pattern)

    def partial_suffix(self, data: bytes) -> int:
        """The length of the longest suffix of the data that is a proper prefix of a pattern."""
        tail = data[-self.longest :]
        found = [_overlap(tail, pattern) for pattern in self._unindexed]
        found += [len(tail) - at for at, pattern in self._candidates(tail) if _is_proper_prefix(tail[at:], pattern)]
        found += [length for length in range(1, min(len(tail) + 1, _HEAD)) if tail[-length:] in self._head_prefixes]
        return max(found, default=0)

    def _candidates(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Where an indexed pattern may start: its head is there."""
        words = memoryview(data)[: len(data) // _WORD * _WORD].cast("I")
        if not self._offsets or self._offsets.keys().isdisjoint(words):  # the usual case, and a fast check
            return
        for index in [index for index, word in enumerate(words) if word in self._offsets]:
            for offset in self._offsets[words[index]]:
                at = index * _WORD - offset
                for pattern in self._by_head.get(data[at : at + _HEAD], ()) if at >= 0 else ():
                    yield at, pattern


def occurrences(data: bytes, pattern: bytes) -> Iterator[int]:
    at = data.find(pattern)
    while at >= 0:
        yield at
        at = data.find(pattern, at + 1)


def _is_proper_prefix(data: bytes, pattern: bytes) -> bool:
    return len(pattern) > len(data) and pattern.startswith(data)


def _overlap(data: bytes, pattern: bytes) -> int:
    """The length of the longest suffix of the data that is a proper prefix of the pattern."""
    tail = data[-(len(pattern) - 1) :] if len(pattern) > 1 else b""
    if len(tail) > _HEAD:  # long overlaps are found by their first bytes: trying each length would be quadratic
        for at in occurrences(tail, pattern[: _HEAD + 1]):
            if pattern.startswith(tail[at:]):
                return len(tail) - at
    return next((n for n in range(min(len(tail), _HEAD), 0, -1) if pattern.startswith(tail[-n:])), 0)
