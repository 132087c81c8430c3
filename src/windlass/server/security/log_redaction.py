"""Keeps the values of a run's secrets out of its stored logs: each becomes as many `*`, so that offsets hold.

The values are looked for as they are and in the forms of `spellings`, which docs/how-to/secrets.md lists; and so are
their lines, by themselves. However a log is cut into pieces, no value gets through in two of them: what may be the
beginning of one is held back until more is there. To mask a piece needs only the bytes around it, which the machine
still has, so that nothing is remembered between two pieces, nor by the next server.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus

from windlass.server.security.pattern_search import Needles

SHORTEST = 4  # bytes: what is shorter would mask half of any log
_SHORTEST_LINE = 8  # of a value that has several
_STAR = b"*"
_UNESCAPED = "!~*'()"  # beside letters, digits and -_. by encodeURIComponent
Read = Callable[[int, int], bytes]  # from an offset, at most so many bytes


class Forms:
    """How values may be written. Runs that were granted the same share them: a thousand runs are as many logs."""

    def __init__(self, values: Iterable[str]) -> None:
        self.all = {form for value in values for part in _parts(value) for form in spellings(part)}
        self.needles = Needles(self.all)


class Masker:
    """Knows what the logs of one attempt must not show, and how far each was masked without a gap."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms  # which lives as long as somebody needs it
        self._needles = forms.needles
        self.reach = max(self._needles.longest - 1, 0)  # how far around a piece one must look
        self.followed: dict[str, Followed] = {}

    def mask(self, data: bytes) -> tuple[bytes, list[int]]:
        """The same bytes without values, and where what was masked begins."""
        found = sorted(self._needles.places(data))
        if not found:
            return data, []
        masked, starts, end = bytearray(data), [], 0
        for start, stop in found:
            if start >= end:
                starts.append(start)
            if stop > end:
                masked[max(start, end) : stop] = _STAR * (stop - max(start, end))
                end = stop
        return bytes(masked), starts

    def piece(
        self,
        read: Read,
        offset: int,
        limit: int,
        end: int | None,
        followed: Followed | None = None,
        cut: int | None = None,
        floor: int = 0,
    ) -> bytes:
        """At most `limit` bytes of a file from an offset, masked; fewer, or none, if more must be there to decide.

        `end` is the file's size once that is final. Of what lies beyond `cut` and before `floor` nothing may be left on
        the machine: what looks like a part of a value there is taken for one.
        """
        start = max(0, offset - self.reach)
        raw = read(start, offset - start + limit + self.reach)
        at = offset - start
        is_whole = end is not None and start + len(raw) >= end
        kept = min(limit, len(raw) - at - (0 if is_whole else self._needles.begun(raw)))
        if kept <= 0:
            return b""
        masked, starts = self.mask(raw)
        piece = bytearray(masked[at : at + kept])
        if offset + kept == cut:
            _blank(piece, kept - self._needles.begun(raw[: at + kept]), kept)
        if offset == floor and floor:
            _blank(piece, 0, self._orphaned(raw[at:]))
        if followed is not None and followed.size == offset:
            followed.add(raw[at : at + kept], sum(at <= start < at + kept for start in starts))
        return bytes(piece)

    def following(self, name: str) -> Followed:
        return self.followed.setdefault(name, Followed())

    def has_followed(self, name: str, size: int, digest: str | None) -> bool:
        """Whether what was masked so far is that file, and the whole of it."""
        followed = self.followed.get(name)
        return followed is not None and (followed.size, followed.digest) == (size, digest)

    def _orphaned(self, data: bytes) -> int:
        """How many bytes at the beginning may be the end of a value whose beginning is not here."""
        return Needles(form[::-1] for form in self._forms.all).begun(data[: self.reach][::-1])

    def stream(self, chunks: Iterable[bytes], followed: Followed) -> Iterator[bytes]:
        """A whole file, masked."""
        before, rest = b"", b""
        for chunk in chunks:
            rest += chunk
            kept = len(rest) - self._needles.begun(rest)
            yield self._next(before, rest, kept, followed)
            before, rest = (before + rest[:kept])[-self.reach :] if self.reach else b"", rest[kept:]
        yield self._next(before, rest, len(rest), followed)

    def _next(self, before: bytes, rest: bytes, kept: int, followed: Followed) -> bytes:
        masked, starts = self.mask(before + rest)
        at = len(before)
        followed.add(rest[:kept], sum(at <= start < at + kept for start in starts))
        return masked[at : at + kept]


class Blind(Masker):
    """For logs of which nobody can say any more what they must not show: they show nothing."""

    def __init__(self) -> None:
        super().__init__(Forms(()))

    def mask(self, data: bytes) -> tuple[bytes, list[int]]:
        return b"\n".join(_STAR * len(line) for line in data.split(b"\n")), [0] if data else []


class Followed:
    """The machine's own bytes so far, as a digest, and how often something in them was masked."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self._digest = hashlib.sha256()

    def add(self, raw: bytes, masked: int) -> None:
        self._digest.update(raw)
        self.size += len(raw)
        self.count += masked

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def is_maskable(value: str) -> bool:
    return len(value.strip().encode()) >= SHORTEST


def _parts(value: str) -> Iterator[str]:
    """A value, and what scripts make of it: without the line's end that its file had, or line by line."""
    yield value
    yield value.strip()
    for line in value.splitlines():
        if len(line.strip().encode()) >= _SHORTEST_LINE:
            yield line.strip()


def spellings(value: str) -> set[bytes]:
    """A value in every form that is looked for."""
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
    """As JSON, as JSON within JSON, and as Python shows texts and bytes."""
    once = {json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    twice = {json.dumps(text, ensure_ascii=is_ascii)[1:-1] for text in once for is_ascii in (True, False)}
    return {*once, *twice, repr(value)[1:-1], repr(value.encode())[2:-1]}


def _hex(raw: bytes) -> set[str]:
    found = {raw.hex(), *(raw.hex(separator) for separator in ":- ")}
    return {*found, *(text.upper() for text in found)}


def _base64(raw: bytes) -> set[bytes]:
    """By itself, and in a longer text: there it begins at one of three places, and only its inner signs are sure."""
    found = {base64.b64encode(raw), base64.urlsafe_b64encode(raw)}
    for lead in range(3):
        first, end = -(-lead * 8 // 6), (lead + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.add(encode(bytes(lead) + raw)[first:end])
    return {form.rstrip(b"=") for form in found} | found | set(_wrapped(raw))


def _base32(raw: bytes) -> set[bytes]:
    """Like base64, with five places where it may begin in a longer text."""
    found = {base64.b32encode(raw), base64.b32encode(raw).rstrip(b"=")}
    for lead in range(5):
        first, end = -(-lead * 8 // 5), (lead + len(raw)) * 8 // 5
        found.add(base64.b32encode(bytes(lead) + raw)[first:end])
    return found | {form.lower() for form in found}


def _wrapped(raw: bytes) -> Iterator[bytes]:
    """As `base64` and `openssl` print it, line by line; `echo` adds an end of line to what they get."""
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
