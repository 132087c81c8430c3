"""The pipe's framing: any frames, cut anywhere, come out as they went in."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.runner.host.framing import BrokenFrame, Decoder, Pipe, encode

plain = st.none() | st.booleans() | st.integers() | st.text()
values = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
frames = st.lists(st.tuples(st.dictionaries(st.text(), values, max_size=4), st.binary(max_size=300)), max_size=5)


@settings(deadline=None, max_examples=60)
@given(frames, st.data())
def test_frames_survive_any_cutting(sent: list[tuple[dict[str, Any], bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode(head, body) for head, body in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = Decoder()
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += list(decoder.feed(stream[start:end]))
    assert received == sent


@settings(deadline=None)
@given(st.binary(min_size=8, max_size=200))
def test_noise_is_refused_or_waited_for_and_never_taken_for_more(noise: bytes) -> None:
    try:
        for head, _ in Decoder().feed(noise):
            assert isinstance(head, dict)
    except BrokenFrame:
        pass


@pytest.mark.parametrize("text", [b"[]", b"1", b'"x"', b"null", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_head_is_an_object(text: bytes) -> None:
    with pytest.raises(BrokenFrame):
        list(Decoder().feed(len(text).to_bytes(4, "big") + bytes(4) + text))


def test_a_slow_reader_blocks_nobody() -> None:
    """What does not fit into the pipe waits in memory, and requests are not taken while too much waits."""
    request_end, source = os.pipe()
    sink_end, sink = os.pipe()
    pipe = Pipe(request_end, sink)
    body = os.urandom(1 << 20)
    sent = 0
    while pipe.is_listening:
        pipe.send({"n": sent}, body)
        sent += 1
    assert pipe.has_waiting
    decoder = Decoder()
    received: list[tuple[dict[str, Any], bytes]] = []
    while len(received) < sent:
        received += decoder.feed(os.read(sink_end, 1 << 16))
        pipe.flush()
    assert received == [({"n": n}, body) for n in range(sent)]
    assert pipe.is_listening and not pipe.has_waiting
    os.close(sink_end)
    pipe.send({})
    assert not pipe.is_open
    for fd in (request_end, source, sink):
        os.close(fd)
