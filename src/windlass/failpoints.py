"""Failpoints: named places where a crash test pauses the program. Without WINDLASS_FAILPOINTS they cost a comparison.

A test arms a point by creating the file `<folder>/<point>`. The first process that reaches it renames the file to
`<point>.reached`, writes its pid into it, and waits for the file `<point>.go`. If that has text, it raises an error
with it.
"""

from __future__ import annotations

import os
import time

FOLDER = os.environ.get("WINDLASS_FAILPOINTS", "")


class Injected(OSError):
    """Error that a test injects."""


def reach(point: str) -> None:
    """Pause here if a test has armed this failpoint."""
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
