"""What may reach a terminal from a log or a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.sanitize import SafeText, escape, one_line


def safe(*pieces: bytes) -> str:
    text = SafeText()
    return "".join(text.feed(piece) for piece in pieces) + text.close()


@pytest.mark.parametrize(
    "harmless",
    [
        "plain text\n",
        "tabs\tand\rreturns and back\b\b\n",
        "\x1b[31mred\x1b[0m\n",
        "\x1b[1;38;5;208mbold orange\x1b[m\n",
        "\x1b[38:2::255:0:0mtrue colour\x1b[0m",
        "naïve ümlaut 漢字 🚀\n",
        "\u202eright to left is text in a log\n",
    ],
)
def test_harmless_text_passes_unchanged(harmless: str) -> None:
    assert safe(harmless.encode()) == harmless


@pytest.mark.parametrize(
    ("harmful", "left"),
    [
        (b"a\x1b]0;title\x07b", "ab"),  # window title
        (b"a\x1b]52;c;aGk=\x1b\\b", "ab"),  # clipboard
        (b"a\x1b]8;;http://x\x07link\x1b]8;;\x07b", "alinkb"),
        (b"a\x1b[6nb", "ab"),  # the terminal would answer as if typed
        (b"a\x1b[2J\x1b[Hb", "ab"),
        (b"a\x1b[>4;2mb", "ab"),  # ends in m, but is no colour
        (b"a\x1b[?25lb", "ab"),
        (b"a\x1bPq#0;2;0;0;0\x1b\\b", "ab"),  # sixel
        (b"a\x1b(0b", "ab"),  # charset
        (b"a\x1b%Gb", "ab"),
        (b"a\x1bcb", "ab"),  # full reset
        (b"a\x1b_app\x1b\\b", "ab"),
        (b"a\x1b^pm\x1b\\b", "ab"),
        (b"a\x07\x00\x0e\x0b\x0c\x7fb", "ab"),
        ("a\u009b31mb\u009b2Jc".encode(), "a\x1b[31mbc\x1b[0m"),  # C1 control sequences
        ("a\u009d0;title\u009cb".encode(), "ab"),
        ("a\u0085\u0090dcs\x1b\\b".encode(), "ab"),
        (b"a\x1b]0;never ended\nb", "a\nb"),
        (b"a\x1b[31\nb", "a\nb"),
        (b"a\x1b[" + b"1;" * 500 + b"mb", "ab"),
        (b"a\x1b]x\x18b", "ab"),
        (b"a\x1b\x1b[31mb", "a\x1b[31mb\x1b[0m"),
        (b"a\x1b]x\x1b[31mb", "a\x1b[31mb\x1b[0m"),
        (b"a\x1b", "a"),
        (b"a\x1b]open", "a"),
    ],
)
def test_other_sequences_are_taken_out(harmful: bytes, left: str) -> None:
    assert safe(harmful) == left


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert safe(b"a\xff\xc3(b") == "a\ufffd\ufffd(b"


def test_colours_left_on_are_ended() -> None:
    assert safe(b"\x1b[31mred") == "\x1b[31mred\x1b[0m"
    assert safe(b"\x1b[31mred\x1b[0m") == "\x1b[31mred\x1b[0m"


@given(
    st.lists(
        st.sampled_from([b"\x1b", b"[", b"]", b"31", b"m", b"\\", b"\x07", b"\n", b"x", b"\xc2\x9b", b"\xe2\x82\xac"])
    )
)
def test_where_the_pieces_are_cut_does_not_matter(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert safe(*(whole[i : i + 1] for i in range(len(whole)))) == safe(whole)


@given(st.binary())
def test_nothing_but_colours_gets_through(data: bytes) -> None:
    import re

    left = re.sub(r"\x1b\[[0-9;:]*m", "", safe(data))
    assert not re.search("[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]", left)


def test_names_show_what_hides_in_them() -> None:
    assert escape("train-été.py") == "train-été.py"
    assert escape("a\x1b]0;x\x07b") == r"a\x1b]0;x\x07b"
    assert escape("ab\u202egpj.exe") == r"ab\u202egpj.exe"
    assert escape("zero\u200bwidth\ufeff") == r"zero\u200bwidth\ufeff"
    assert escape("line\nbreak\tand tab") == r"line\nbreak\tand tab"
    assert escape("\udcff") == r"\udcff"


def test_a_message_of_several_lines_becomes_one() -> None:
    assert one_line("No such host\nCheck its name.") == "No such host. Check its name."
    assert one_line("It ends.\nNext") == "It ends. Next"
    assert one_line("first\n  second\n\x1b[31mthird") == r"first second \x1b[31mthird"


def test_a_plain_name_is_shown_as_it_is() -> None:
    assert escape("outputs/model.bin") == "outputs/model.bin"
