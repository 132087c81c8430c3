"""Exponential back-off: how long to wait before something that failed is tried again."""

from __future__ import annotations

_MOST_STEPS = 64  # far beyond every `longest`; a larger power may not fit a float


def delay(failures: int, first: float, longest: float, factor: float = 2.0, jitter: float = 0.0) -> float:
    """Seconds to wait after so many failures in a row: `first` after one, then `factor` times as long, up to `longest`.

    No failure, no wait. `jitter` is the share by which the result is longer, so that many callers do not retry in the
    same moment: 0.25 adds a quarter, also to `longest`.

    >>> [delay(failures, first=0.5, longest=3.0) for failures in range(5)]
    [0.0, 0.5, 1.0, 2.0, 3.0]
    """
    if failures < 1:
        return 0.0
    return min(first * factor ** min(failures - 1, _MOST_STEPS), longest) * (1 + jitter)
