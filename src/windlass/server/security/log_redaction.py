"""Redaction of logs: replaces the values of a run's secrets by as many `*`, so that offsets stay valid.

Each value is searched in the encodings of `encodings_of`, which docs/how-to/secrets.md lists, and so is each of its
lines. Logs are redacted piece by piece. A value that crosses the border of two pieces is found too: a possible
beginning of one is held back until the next bytes have arrived. Redacting a piece needs only the bytes around it, which
are still on the machine, so no state is kept between pieces, and another server can go on.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus

from windlass.server.security.pattern_search import PatternSet

SHORTEST = 4  # bytes: shorter values would redact half of any log
_SHORTEST_LINE = 8  # of a value that has several
_STAR = b"*"
_UNESCAPED = "!~*'()"  # beside letters, digits and -_. by encodeURIComponent
Read = Callable[[int, int], bytes]  # from an offset, at most so many bytes


class SecretVariants:
    """All byte strings to search for a set of values. Runs with the same secrets share one instance."""

    def __init__(self, values: Iterable[str]) -> None:
        self.all = {variant for value in values for part in _parts(value) for variant in encodings_of(part)}
        self.patterns = PatternSet(self.all)


class Redactor:
    """Redacts the logs of one attempt, and records how far each was redacted without a gap."""

    def __init__(self, variants: SecretVariants) -> None:
        self._variants = variants
        self._patterns = variants.patterns
        self.margin = max(self._patterns.longest - 1, 0)  # bytes before and after a piece that can be of the same value
        self.progress: dict[str, RedactionProgress] = {}

    def redact(self, data: bytes) -> tuple[bytes, list[int]]:
        """The data without values, and the offsets at which redacted ranges begin."""
        found = sorted(self._patterns.matches(data))
        if not found:
            return data, []
        redacted, starts, end = bytearray(data), [], 0
        for start, stop in found:
            if start >= end:
                starts.append(start)
            if stop > end:
                redacted[max(start, end) : stop] = _STAR * (stop - max(start, end))
                end = stop
        return bytes(redacted), starts

    def redact_piece(
        self,
        read: Read,
        offset: int,
        limit: int,
        end: int | None,
        progress: RedactionProgress | None = None,
        cut: int | None = None,
        floor: int = 0,
    ) -> bytes:
        """At most `limit` bytes of a file from an offset, redacted. Fewer or none if the rest cannot be decided before
        more bytes have arrived.

        `end` is the file's size once that is final. `cut` and `floor` are the edges of the removed middle of a capped
        log. Bytes across the edge may be gone, so a possible partial secret at an edge is redacted.
        """
        start = max(0, offset - self.margin)
        raw = read(start, offset - start + limit + self.margin)
        at = offset - start
        is_whole = end is not None and start + len(raw) >= end
        kept = min(limit, len(raw) - at - (0 if is_whole else self._patterns.partial_suffix(raw)))
        if kept <= 0:
            return b""
        redacted, starts = self.redact(raw)
        piece = bytearray(redacted[at : at + kept])
        if offset + kept == cut:
            _blank(piece, kept - self._patterns.partial_suffix(raw[: at + kept]), kept)
        if offset == floor and floor:
            _blank(piece, 0, self._partial_prefix(raw[at:]))
        if progress is not None and progress.size == offset:
            progress.add(raw[at : at + kept], sum(at <= start < at + kept for start in starts))
        return bytes(piece)

    def progress_of(self, name: str) -> RedactionProgress:
        return self.progress.setdefault(name, RedactionProgress())

    def has_redacted(self, name: str, size: int, digest: str | None) -> bool:
        """Whether what was redacted so far is exactly the file of this size and digest."""
        progress = self.progress.get(name)
        return progress is not None and (progress.size, progress.digest) == (size, digest)

    def _partial_prefix(self, data: bytes) -> int:
        """The length of the longest prefix of the data that can be the end of a value which began before it."""
        reverse = PatternSet(variant[::-1] for variant in self._variants.all)
        return reverse.partial_suffix(data[: self.margin][::-1])

    def redact_stream(self, chunks: Iterable[bytes], progress: RedactionProgress) -> Iterator[bytes]:
        """A whole file, redacted."""
        before, rest = b"", b""
        for chunk in chunks:
            rest += chunk
            kept = len(rest) - self._patterns.partial_suffix(rest)
            yield self._next(before, rest, kept, progress)
            before, rest = (before + rest[:kept])[-self.margin :] if self.margin else b"", rest[kept:]
        yield self._next(before, rest, len(rest), progress)

    def _next(self, before: bytes, rest: bytes, kept: int, progress: RedactionProgress) -> bytes:
        redacted, starts = self.redact(before + rest)
        at = len(before)
        progress.add(rest[:kept], sum(at <= start < at + kept for start in starts))
        return redacted[at : at + kept]


class RedactEverything(Redactor):
    """For logs of a run whose secret values are not known any more: every byte but the line ends becomes `*`."""

    def __init__(self) -> None:
        super().__init__(SecretVariants(()))

    def redact(self, data: bytes) -> tuple[bytes, list[int]]:
        return b"\n".join(_STAR * len(line) for line in data.split(b"\n")), [0] if data else []


class RedactionProgress:
    """How much of a file was redacted: size and digest of the original bytes, and the number of redacted ranges."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self._digest = hashlib.sha256()

    def add(self, raw: bytes, redacted: int) -> None:
        self._digest.update(raw)
        self.size += len(raw)
        self.count += redacted

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def is_redactable(value: str) -> bool:
    return len(value.strip().encode()) >= SHORTEST


def _parts(value: str) -> Iterator[str]:
    """A value as it is, stripped (scripts drop the line end of a file), and line by line."""
    yield value
    yield value.strip()
    for line in value.splitlines():
        if len(line.strip().encode()) >= _SHORTEST_LINE:
            yield line.strip()


def encodings_of(value: str) -> set[bytes]:
    """All encodings of a value that are searched."""
    raw = value.encode()
    if len(raw) < SHORTEST:
        return set()
    texts = {*_quoted(value), *_escaped(value), *_hex(raw)}
    return {raw, *_base64(raw), *_base32(raw), *(text.encode() for text in texts)}


def _quoted(value: str) -> set[str]:
    """For URLs (also by encodeURIComponent and encodeURI of JavaScript), HTML and shells."""
    safe = ("", "/", _UNESCAPED, _UNESCAPED + ";,/?:@&=+$#")
    urls = {*(quote(value, safe=each) for each in safe), quote_plus(value)}
    pages = {html.escape(value), html.escape(value, quote=False)}
    shells = {value.replace("'", "'\"'\"'"), value.replace("'", "'\\''")}
    return {*urls, *map(_lower_quoted, urls), *pages, *shells}


def _escaped(value: str) -> set[str]:
    """In JSON, in JSON within JSON, and by the `repr` of Python's str and bytes."""
    once = {json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    twice = {json.dumps(text, ensure_ascii=is_ascii)[1:-1] for text in once for is_ascii in (True, False)}
    return {*once, *twice, repr(value)[1:-1], repr(value.encode())[2:-1]}


def _hex(raw: bytes) -> set[str]:
    found = {raw.hex(), *(raw.hex(separator) for separator in ":- ")}
    return {*found, *(text.upper() for text in found)}


def _base64(raw: bytes) -> set[bytes]:
    """Alone, and within a longer text: at each of the three alignments, without the characters at the edges that
    depend on the neighbours.
    """
    found = {base64.b64encode(raw), base64.urlsafe_b64encode(raw)}
    for lead in range(3):
        first, end = -(-lead * 8 // 6), (lead + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.add(encode(bytes(lead) + raw)[first:end])
    return {text.rstrip(b"=") for text in found} | found | set(_wrapped(raw))


def _base32(raw: bytes) -> set[bytes]:
    """Like base64, with five alignments."""
    found = {base64.b32encode(raw), base64.b32encode(raw).rstrip(b"=")}
    for lead in range(5):
        first, end = -(-lead * 8 // 5), (lead + len(raw)) * 8 // 5
        found.add(base64.b32encode(bytes(lead) + raw)[first:end])
    return found | {text.lower() for text in found}


def _wrapped(raw: bytes) -> Iterator[bytes]:
    """The lines that `base64` and `openssl` print, of the value with and without the line end that `echo` adds."""
    for given in (raw, raw + b"\n"):
        encoded = base64.b64encode(given)
        for width in (64, 76):
            if len(encoded) > width:
                lines = (encoded[start : start + width] for start in range(0, len(encoded), width))
                yield from (line for line in lines if len(line) >= _SHORTEST_LINE)


def _lower_quoted(text: str) -> str:
    first, *rest = text.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _blank(data: bytearray, start: int, stop: int) -> None:
    start, stop = max(0, start), min(stop, len(data))
    data[start:stop] = _STAR * (stop - start)
