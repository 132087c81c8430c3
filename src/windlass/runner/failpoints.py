"""Failpoints: places where a crash test can block the process. Each costs one comparison without WINDLASS_FAILPOINTS.

WINDLASS_FAILPOINTS names a folder. A test arms a point by creating the file `<folder>/<point>`. The first process that
reaches the point takes it (the file becomes `<point>.reached` and holds the pid), then waits for `<point>.go`; text in
that file is the message of an error to raise. The server has the same in `windlass/failpoints.py`; the runner is
shipped alone.
"""

from __future__ import annotations

import os
import time

FOLDER = os.environ.get("WINDLASS_FAILPOINTS", "")


class Injected(OSError):
    """The error that a test asked for."""


def reach(point: str) -> None:
    if FOLDER:
        _hold(os.path.join(FOLDER, point))


def _hold(path: str) -> None:
    try:
        os.rename(path, path + ".taken")
    except FileNotFoundError:
        return
    with open(path + ".taken", "w", encoding="ascii") as taken:
        taken.write(str(os.getpid()))
    os.rename(path + ".taken", path + ".reached")
    while not os.path.exists(path + ".go"):
        time.sleep(0.002)
    with open(path + ".go", encoding="utf-8") as go:
        message = go.read()
    if message:
        raise Injected(message)
