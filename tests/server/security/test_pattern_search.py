"""Every place of every text is found, whether they are few or many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.server.security.pattern_search import FEW, PatternSet

# Few letters, so that texts overlap themselves, each other, and what is around them.
letters = st.text("ab", min_size=1, max_size=20).map(str.encode)
texts = st.lists(letters | st.binary(min_size=1, max_size=12), min_size=1, max_size=5)
OTHERS = [b"%08d\xff" % number for number in range(FEW)]


@st.composite
def hay(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    chosen = draw(texts)
    piece = st.sampled_from(chosen) | st.sampled_from(chosen).map(lambda text: text[: len(text) // 2])
    piece = piece | letters | st.binary(max_size=5) | st.sampled_from(OTHERS)
    return chosen, b"".join(draw(st.lists(piece, max_size=12)))


def all_places(texts: list[bytes], data: bytes) -> list[tuple[int, int]]:
    return sorted({(at, at + len(text)) for text in texts for at in range(len(data)) if data.startswith(text, at)})


def longest_begun(texts: list[bytes], data: bytes) -> int:
    ends = [data[-length:] for length in range(1, len(data) + 1)]
    return max((len(end) for end in ends for text in texts if text.startswith(end) and text != end), default=0)


@pytest.mark.parametrize("others", [[], OTHERS], ids=["few", "many"])
@given(hay())
def test_all_are_found_where_they_are_and_where_they_begin(
    others: list[bytes], looked_for: tuple[list[bytes], bytes]
) -> None:
    texts, data = [*looked_for[0], *others], looked_for[1]
    patterns = PatternSet(texts)
    assert sorted(set(patterns.matches(data))) == all_places(texts, data)
    assert patterns.partial_suffix(data) == longest_begun(texts, data)


def test_nothing_is_found_where_nothing_is_looked_for() -> None:
    assert list(PatternSet([]).matches(b"anything")) == [] and PatternSet([]).partial_suffix(b"anything") == 0
