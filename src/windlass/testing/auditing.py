"""Recorder of I/O (files, processes, network) by the interpreter's audit hook, without patching any function."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_IO = ("open", "os.", "subprocess.", "socket.", "shutil.", "glob.", "tempfile.")
_thread = threading.local()
_is_installed = False


def _audit_hook(event: str, arguments: tuple[Any, ...]) -> None:
    touched: list[str] | None = getattr(_thread, "touched", None)
    if touched is not None and event.startswith(_IO):
        touched.append(f"{event} {arguments}")


@contextmanager
def audited() -> Iterator[list[str]]:
    """Record the audit events of I/O in this thread until the context ends."""
    global _is_installed
    if not _is_installed:  # a hook cannot be removed
        sys.addaudithook(_audit_hook)
        _is_installed = True
    touched: list[str] = []
    _thread.touched = touched
    try:
        yield touched
    finally:
        _thread.touched = None
