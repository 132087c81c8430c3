"""Where a value that must be seen nowhere is looked for."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path


def shows(data: bytes, forms: Collection[bytes]) -> bool:
    return any(form in data for form in forms)


def files_that_show(folder: Path, forms: Collection[bytes]) -> list[Path]:
    """Folders may go while they are looked into."""
    found = []
    for path in (Path(top, name) for top, _, names in os.walk(folder) for name in names):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink() and shows(path.read_bytes(), forms):
                found.append(path)
    return found


@contextlib.contextmanager
def watching_processes(forms: Collection[bytes]) -> Iterator[list[str]]:
    """Every process of the machine, again and again: what they were called with, and what they have in variables."""
    seen: list[str] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            for pid in filter(str.isdecimal, os.listdir("/proc")):
                for what in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        if shows(Path("/proc", pid, what).read_bytes(), forms):
                            seen.append(f"{pid} {what}")
            time.sleep(0.001)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
