"""Orphaned processes that became children of the host: each belongs to a run whose supervisor was killed.

The host is a subreaper. As long as a supervisor lives, it inherits the orphans of its run itself; so an orphan of the
host belongs to one of the jobs that have lost a supervisor and have not ended. Which one is decided by its session, by
the cookie in its environment, or because there is only one. If that is undecided, the orphan is killed when all jobs
that it can belong to have ended.
"""

from __future__ import annotations

import os
from typing import Callable, Container, Dict, List, NamedTuple, Set

from . import process_tree
from .process_tree import Process, ProcessInfo


class JobMarks(NamedTuple):
    """Marks by which processes of a job are recognised."""

    mark: bytes  # the cookie as it stands in an environment
    session: int  # of its script


class Orphans:
    def __init__(self) -> None:
        self._jobs: Set[str] = set()  # that have lost a supervisor, and have not ended
        self._owners: Dict[Process, Set[str]] = {}  # the jobs that an orphan can belong to

    def add_job(self, job: str) -> None:
        """Add a job whose supervisor was killed: its processes may become our children."""
        self._jobs.add(job)

    def update(self, own: Container[int], marks_of: Callable[[str], JobMarks]) -> None:
        """Find new orphans. `own` are children that the host has forked."""
        if not self._jobs:
            return
        us = os.getpid()
        there = [seen for seen in process_tree.descendants(us) if seen.parent == us and seen.pid not in own]
        new = [seen for seen in there if seen.process not in self._owners]
        marks = {job: marks_of(job) for job in self._jobs} if new else {}
        known = {seen.process: self._owners.get(seen.process) or self._candidate_jobs(seen, marks) for seen in there}
        self._owners = known

    def _candidate_jobs(self, seen: ProcessInfo, marks: Dict[str, JobMarks]) -> Set[str]:
        session = _session(seen.pid)
        proven = {
            job for job, own in marks.items() if own.session == session or process_tree.has_mark(seen.pid, own.mark)
        }
        return proven or set(marks)

    def owned_by(self, job: str) -> List[Process]:
        """The orphans that can belong to no other job."""
        return [process for process, owners in self._owners.items() if owners == {job}]

    def end(self, job: str) -> List[Process]:
        """Remove a job that has ended; returns the orphans that can belong to no other job, which must be killed."""
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
