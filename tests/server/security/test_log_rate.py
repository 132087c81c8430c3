"""The server's log has a bounded number of lines of one kind."""

from __future__ import annotations

import io
import logging

import pytest

from windlass.server.security import log_rate
from windlass.server.security.log_rate import MOST_RECORDS, RateLimit


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> logging.Logger:
    logger = logging.Logger("machine")
    handler = logging.StreamHandler(written)
    handler.addFilter(RateLimit())
    logger.addHandler(handler)
    return logger


def test_one_kind_of_line_cannot_fill_the_log(log: logging.Logger, written: io.StringIO) -> None:
    for number in range(100_000):
        log.warning("a file was refused: %s", number)
    log.warning("something else: %s", 1)
    lines = written.getvalue().splitlines()
    assert len(lines) == MOST_RECORDS + 1 and lines[-1] == "something else: 1"


def test_what_was_left_out_is_counted(
    log: logging.Logger, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MOST_RECORDS + 7):
        log.warning("a file was refused: %s", number)
    monkeypatch.setattr(log_rate, "WINDOW_SECONDS", 0.0)
    log.warning("a file was refused: %s", "last")
    assert written.getvalue().splitlines()[-1] == "a file was refused: last (7 more like it were left out)"
