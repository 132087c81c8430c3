"""Reserves free ports of this machine for the rendezvous of a run's ranks.

A framework binds its port only seconds after it was chosen. So launchers reserve ports among themselves: each port has
an abstract Unix socket, which lives in the same network namespace as the port.
"""

from __future__ import annotations

import socket
import sys
from typing import List, Optional

_MOST_TRIES = 1000
_reserved: List[socket.socket] = []  # until this process ends


def take(first: int, count: int) -> List[int]:
    """Reserve `count` free ports, from `first` on, until this process ends."""
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
    _reserved.append(name)
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
    """Whether the port is free on every address of the machine: the framework's choice is unknown."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
