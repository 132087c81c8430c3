"""Tables fit the terminal."""

from __future__ import annotations

from windlass.cli.output.table import Column, cell_width, lines


def test_columns_are_aligned() -> None:
    assert lines([Column("NAME"), Column("SIZE", right=True)], [["a", "1 B"], ["long name", "12 kB"]], 80) == [
        "NAME        SIZE",
        "a            1 B",
        "long name  12 kB",
    ]


def test_the_widest_flexible_column_is_shortened_first() -> None:
    columns = [Column("RUN"), Column("NAME", least=4), Column("WHY", least=4)]
    rows = [["12345678", "n" * 50, "w" * 20]]
    table = lines(columns, rows, 40)
    assert table[1] == "12345678  " + "n" * 13 + "…  " + "w" * 13 + "…"
    assert max(len(line) for line in table) <= 40


def test_what_cannot_shrink_stays_whole() -> None:
    assert lines([Column("RUN")], [["x" * 30]], 10)[1] == "x" * 30


def test_what_does_not_fit_is_a_record_each() -> None:
    columns = [Column("NAME"), Column("SIZE", right=True), Column("WHY", wraps=True)]
    rows = [["x" * 30, "1 B", "It is what it is."], ["y", "", ""]]
    assert lines(columns, rows, 20) == ["x" * 30, "  SIZE  1 B", "  WHY   It is what", "        it is.", "y"]


def test_sentences_continue_below() -> None:
    columns = [Column("STATE"), Column("WHY", wraps=True), Column("AT")]
    assert lines(columns, [["Failed", "one two three four five six seven", "now"]], 36) == [
        "STATE   WHY                      AT",
        "Failed  one two three four five  now",
        "        six seven",
    ]


def test_without_a_terminal_nothing_is_shortened() -> None:
    columns = [Column("NAME", least=4), Column("WHY", wraps=True)]
    assert lines(columns, [["n" * 300, "w " * 300]], None)[1] == "n" * 300 + "  " + ("w " * 300).rstrip()


def test_columns_without_content_are_left_out() -> None:
    assert lines([Column("A"), Column("B"), Column("C")], [["1", "", "3"], ["4", "", "6"]], 80)[0] == "A  C"


def test_wide_characters_take_two_columns() -> None:
    assert cell_width("漢字") == 4
    assert cell_width("e\u0301") == 1
    table = lines([Column("NAME", least=4), Column("X")], [["漢字漢字漢字漢字", "1"], ["a", "2"]], 12)
    assert all(cell_width(line) <= 12 for line in table)
    assert [line.index(end) and cell_width(line) for line, end in zip(table[1:], "12", strict=True)] == [
        cell_width(table[1])
    ] * 2


def test_cells_cannot_move_the_cursor() -> None:
    assert lines([Column("NAME")], [["a\x1b[2Jb\r"]], 80)[1] == r"a\x1b[2Jb\r"


def test_paint_colours_the_padded_cell_and_not_the_gap() -> None:
    table = lines([Column("S", paint=lambda text: lambda cell: f"<{cell}>"), Column("T")], [["ok", "x"]], 80)
    assert table[1] == "<ok>  x"


def test_an_ellipsis_for_terminals_without_one() -> None:
    assert lines([Column("N", least=5)], [["abcdefghij"]], 7, "...")[1] == "abcd..."
