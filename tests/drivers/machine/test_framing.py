"""The decoder of the pipe gives the same frames however the stream is cut, and refuses what is none."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.drivers.machine.framing import (
    GREETING,
    MAX_BYTES,
    MAX_JSON,
    MAX_NOISE,
    MOST_VALUES,
    Body,
    Decoder,
    ProtocolError,
    encode,
)

bodies = st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans()), max_size=4)
noises = st.binary(max_size=60).filter(lambda noise: GREETING not in noise)


def decode(stream: bytes, cuts: list[int]) -> list[tuple[Body, bytes]]:
    decoder = Decoder()
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    pieces = [stream[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return [frame for piece in pieces for frame in decoder.feed(piece)]


@given(noises, st.lists(st.tuples(bodies, st.binary(max_size=100)), max_size=5), st.lists(st.integers(0), max_size=9))
def test_frames_survive_any_cut_and_any_noise(noise: bytes, frames: list[tuple[Body, bytes]], cuts: list[int]) -> None:
    before = noise + b"\n" if noise else b""
    stream = before + GREETING + b"".join(encode(body, data) for body, data in frames)
    assert decode(stream, cuts) == frames


@given(st.binary(max_size=300))
def test_whatever_comes_is_a_frame_or_garbled(stream: bytes) -> None:
    decoder = Decoder()
    try:
        frames = list(decoder.feed(GREETING + stream))
    except ProtocolError:
        return
    assert all(isinstance(body, dict) for body, _ in frames)


def test_a_greeting_in_the_middle_of_a_line_is_noise() -> None:
    decoder = Decoder()
    assert list(decoder.feed(b"$ echo windlass-pipe 1\n" + encode({}))) == []
    assert list(decoder.feed(b"\n" + GREETING + encode({"a": 1}))) == [({"a": 1}, b"")]


@pytest.mark.parametrize(("text", "data"), [(MAX_JSON + 1, 0), (2, MAX_BYTES + 1), (2**32 - 1, 2**32 - 1)])
def test_giant_frames_are_refused_before_they_are_taken_in(text: int, data: int) -> None:
    with pytest.raises(ProtocolError, match="too large"):
        list(Decoder().feed(GREETING + struct.pack(">II", text, data)))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 50_000])
def test_only_objects_are_frames(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(Decoder().feed(GREETING + struct.pack(">II", len(text), 0) + text))


def test_frames_of_too_many_values_are_not_read() -> None:
    text = b'{"a":[' + b"0," * MOST_VALUES + b"0]}"
    with pytest.raises(ProtocolError, match="500,000 values"):
        list(Decoder().feed(GREETING + struct.pack(">II", len(text), 0) + text))


def test_endless_noise_is_refused() -> None:
    with pytest.raises(ProtocolError, match="did not greet"):
        list(Decoder().feed(b"x" * (MAX_NOISE + 1)))


def test_texts_that_are_not_unicode_survive() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    [(body, _)] = Decoder().feed(GREETING + encode({"name": name}))
    assert body["name"] == name
    assert json.dumps(body).isascii()
