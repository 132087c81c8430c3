"""Continues hosts and supervisors that were stopped (SIGSTOP), by a script of the account or by a person."""

from __future__ import annotations

import os
import signal

from ..workdir.run_folder import read_whole
from . import process_tree

_STOPPED = "T"


def continue_all(root: str) -> None:
    """Continue the stopped hosts and supervisors of a machine's folder. A stopped host does not notice the end of its
    connection, and would stay for ever.
    """
    if not process_tree.HAS_PROC:
        return
    for seen in process_tree.table().values():
        if seen.state == _STOPPED and _is_ours(_words(seen.pid), os.fsencode(root)):
            process_tree.send(seen.process, signal.SIGCONT)  # which the system refuses for processes of other accounts


def _is_ours(words: "list[bytes]", root: bytes) -> bool:
    return words[-2:] == [b"--root", root] and b"host" in words[-4:-2]


def _words(pid: int) -> "list[bytes]":
    try:
        return read_whole(f"/proc/{pid}/cmdline").rstrip(b"\0").split(b"\0")
    except OSError:
        return []
