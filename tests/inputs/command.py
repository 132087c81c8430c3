"""The command as a process, and what it must say about a mistake: two lines, which help."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from tests.cli.shell import Result

_DROP_FROM_BOUNDING_SET = 24  # prctl's PR_CAPBSET_DROP
_OVERRIDES = (1, 2, 3)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER


def complains(done: Result, code: int, *words: str) -> None:
    """At most two lines on stderr, no traceback, nothing on stdout, these words, this exit code."""
    assert done.code == code, done
    assert done.out == "", done
    assert "Traceback" not in done.err and 'File "' not in done.err, done
    assert 1 <= len(done.err.strip().splitlines()) <= 2, done
    for word in words:
        assert word in done.err, done


def humble() -> None:
    """For the process that is about to be: root without the right to pass by permissions, as everybody else is."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for right in _OVERRIDES:
            assert libc.prctl(_DROP_FROM_BOUNDING_SET, right, 0, 0, 0) == 0


def closing(*streams: int) -> Callable[[], None]:
    def close() -> None:
        for stream in streams:
            os.close(stream)

    return close
