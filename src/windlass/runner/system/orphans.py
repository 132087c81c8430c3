"""Processes that became children of the host: each belongs to a run whose supervisor was killed.

The host is a subreaper. As long as a supervisor lives, it inherits the orphans of its run itself; so an orphan of the
host stems from one of the jobs that have lost a supervisor and have not ended. Which one is known by its session, by
the cookie in its environment, or because there is only one. An orphan of which that is not known is ended when all the
jobs that it can belong to have ended.
"""

from __future__ import annotations

import os
from typing import Callable, Container, Dict, List, NamedTuple, Set

from . import process_tree
from .process_tree import Process, Seen


class Signs(NamedTuple):
    """By what processes of a job are known."""

    mark: bytes  # the cookie as it stands in an environment
    session: int  # of its script


class Orphans:
    def __init__(self) -> None:
        self._jobs: Set[str] = set()  # that have lost a supervisor, and have not ended
        self._owners: Dict[Process, Set[str]] = {}  # the jobs that an orphan can belong to

    def expect(self, job: str) -> None:
        """A supervisor of this job was killed: from now on what it has left may be our child."""
        self._jobs.add(job)

    def look(self, own: Container[int], signs_of: Callable[[str], Signs]) -> None:
        """Note the orphans that are new. `own` are children that we have forked ourselves."""
        if not self._jobs:
            return
        us = os.getpid()
        there = [seen for seen in process_tree.descendants(us) if seen.parent == us and seen.pid not in own]
        new = [seen for seen in there if seen.process not in self._owners]
        signs = {job: signs_of(job) for job in self._jobs} if new else {}
        known = {seen.process: self._owners.get(seen.process) or self._judge(seen, signs) for seen in there}
        self._owners = known

    def _judge(self, seen: Seen, signs: Dict[str, Signs]) -> Set[str]:
        session = _session(seen.pid)
        proven = {
            job for job, sign in signs.items() if sign.session == session or process_tree.has_mark(seen.pid, sign.mark)
        }
        return proven or set(signs)

    def of(self, job: str) -> List[Process]:
        """Those that can belong to no other job."""
        return [process for process, owners in self._owners.items() if owners == {job}]

    def end(self, job: str) -> List[Process]:
        """A job has ended: the orphans that belong to no other, which are to be ended."""
        self._jobs.discard(job)
        for owners in self._owners.values():
            owners.discard(job)
        ended = [process for process, owners in self._owners.items() if not owners]
        for process in ended:
            del self._owners[process]
        return ended


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1
