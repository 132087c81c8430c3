"""What others send cannot add lines to the server's log, control a terminal that shows it, or fill it at once."""

from __future__ import annotations

import logging
import sys

from windlass.server.log_file import LONGEST_MESSAGE, LineFormatter


def record(text: str, **more: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": "%s", "args": (text,), **more})


def test_a_record_is_one_printable_line() -> None:
    line = LineFormatter("%(message)s").format(record("a\nERROR forged\x1b]52;c;eA==\x07\u202e\x9b\udc80"))
    assert line == r"a\nERROR forged\x1b]52;c;eA==\x07\u202e\x9b\udc80"


def test_a_record_is_bounded() -> None:
    assert len(LineFormatter("%(message)s").format(record("x" * 10_000_000))) == LONGEST_MESSAGE + 1


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("\x1b[2J" + "y" * 1_000_000)
    except ValueError:
        text = LineFormatter("%(message)s").format(record("failed", exc_info=sys.exc_info()))
    assert text.startswith("failed\nTraceback") and "in test_a_traceback_keeps_its_lines" in text
    assert r"ValueError: \x1b[2Jyyy" in text and len(text) < 10_000
