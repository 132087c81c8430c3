"""Owns one run in this process, without a host: for engines that start one runner a job."""

from __future__ import annotations

import os
import sys

from . import tree
from .environment import is_built
from .machine import Machine
from .supervise import supervise
from .system.cgroup import Groups


def supervise_here(root: str, job: str) -> int:
    """Claim a job and own it in this process: for engines that start one runner a job."""
    os.umask(0o077)
    machine = Machine(root)
    machine.make()
    folder = machine.folder(job)
    if not folder.run():
        print(f"There is no run.json in {folder.path}.", file=sys.stderr)
        return 2
    if folder.run().get("secrets"):
        print(f"{job} was granted secrets, which only a host can hand over.", file=sys.stderr)
        return 1
    folder.make(is_built(folder.run()) or bool(folder.run().get("container")))
    folder.claim()
    lock = folder.lock()
    if lock is None:
        print(f"{job} has a supervisor already.", file=sys.stderr)
        return 1
    run, groups = folder.run(), Groups.find()
    group = groups.group(machine.root, job, run.get("nonce")) if groups is not None else None
    return supervise(machine, folder, lock, run, tree.boot_id(), group=group)
