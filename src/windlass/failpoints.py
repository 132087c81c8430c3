"""Places where a crash test may hold the program still. Costs one comparison unless WINDLASS_FAILPOINTS names a folder.

A test arms a point by making the file `<folder>/<point>`. Whoever reaches the point first takes it (the file becomes
`<point>.reached` and holds the pid), then waits for `<point>.go`; text in that file is the message of an error to
raise.
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
