"""Ports for the processes of a run to find each other at, free ones on this machine.

A port is used only seconds after it was chosen, when a framework was loaded. So launchers keep each other from choosing
the same one: each port goes with a name of a Unix socket, in the abstract namespace, which is as wide as that of ports.
"""

from __future__ import annotations

import socket
import sys
from typing import List, Optional

_MOST_TRIES = 1000
_kept: List[socket.socket] = []  # until this process ends


def take(first: int, count: int) -> List[int]:
    """So many free ports, from that one on."""
    found: List[int] = []
    for port in range(first, first + _MOST_TRIES):
        if len(found) == count:
            return found
        if _take(port):
            found.append(port)
    raise OSError(f"There are no {count} free ports between {first} and {first + _MOST_TRIES}.")


def _take(port: int) -> bool:
    name = _reserve(port)
    if name is None:
        return False
    if not _is_free(port):
        name.close()
        return False
    _kept.append(name)
    return True


def _reserve(port: int) -> Optional[socket.socket]:
    holder = socket.socket(socket.AF_UNIX)
    try:
        if sys.platform.startswith("linux"):
            holder.bind(f"\0windlass-port-{port}")
    except OSError:
        holder.close()
        return None
    return holder


def _is_free(port: int) -> bool:
    """On every address of the machine: which one a framework listens at is not known."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
