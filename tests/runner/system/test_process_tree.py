"""The processes that belong to a run; no other process is ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import pytest

from windlass.runner.system import process_tree
from windlass.runner.system.process_tree import Process, Tree

from ..pipe import RUNNER, is_alive, wait_for

# Unique: another test worker that kills all processes with this cookie must not kill ours.
COOKIE = f"WINDLASS_COOKIE=tree-test-{os.urandom(8).hex()}"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process that does not descend from us: its parent has died."""
    mark = {**os.environ, "WINDLASS_COOKIE": COOKIE.partition("=")[2]}
    code = "import subprocess as s; print(s.Popen(['sleep', '600'], stdout=s.DEVNULL).pid)"
    made = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=mark, check=True)
    pid = int(made.stdout)
    yield pid
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)


def test_a_process_is_its_number_and_its_beginning(sleeper: subprocess.Popen[bytes]) -> None:
    process = process_tree.identify(sleeper.pid)
    assert process is not None
    assert process_tree.is_alive(process)
    assert not process_tree.is_alive(process._replace(start=process.start + 1))
    assert process_tree.send(process._replace(start=process.start + 1), signal.SIGKILL) is False
    assert sleeper.poll() is None
    assert process_tree.send(process, signal.SIGTERM) is True
    assert sleeper.wait() == -signal.SIGTERM
    assert process_tree.send(process, signal.SIGKILL) is False


@pytest.mark.parametrize("pid", [1, 0, -1])
def test_init_and_groups_are_never_signalled(pid: int) -> None:
    init = process_tree.identify(1)
    assert init is not None
    assert process_tree.send(Process(pid, init.start), 0) is False


def test_the_dead_take_no_room_and_the_living_stay_known(stranger: int) -> None:
    """A script that starts a process every second for months."""
    ours, alive = Tree("WINDLASS_COOKIE=another"), process_tree.read_process(stranger)
    assert alive is not None
    tracemalloc.start()
    try:
        for number in range(200):
            dead = [alive._replace(pid=5_000_000 + 100 * number + i) for i in range(100)]  # beyond any pid
            ours.update([alive, *dead] if number == 0 else dead)
        del dead
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
    assert alive.process in ours.members()


ENDING = """
import builtins, os, sys
sys.path.insert(0, sys.argv[1])
from runner.system import process_tree

def guarded(real):
    def guard(path, *more, **named):
        if str(path).startswith("/proc/1/"):
            raise PermissionError(1, "Operation not permitted", path)
        return real(path, *more, **named)
    return guard

builtins.open, os.open = guarded(open), guarded(os.open)
assert process_tree.read_process(1) is None
print("ended", process_tree.Tree(sys.argv[2]).end(5, lambda: None))
"""


def test_a_machine_that_hides_others_processes_is_no_trouble(stranger: int) -> None:
    """Where /proc is mounted with hidepid=1, they are listed and cannot be looked at. It is ended by a process of its
    own, since ending a tree ends the children of the caller too.
    """
    ending = [sys.executable, "-c", ENDING, str(RUNNER.parent), COOKIE]
    ended = subprocess.run(ending, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "ended 1\n"
    wait_for(lambda: not is_alive(stranger))


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    try:
        wait_for(lambda: (seen := process_tree.read_process(child.pid)) is not None and seen.state == "Z")
        process = process_tree.identify(child.pid)
        assert process is not None and not process_tree.is_alive(process)
    finally:
        child.wait()


def test_the_cookie_finds_those_who_ran_away(stranger: int) -> None:
    assert stranger in [p.pid for p in Tree(COOKIE).members()]
    assert stranger not in [p.pid for p in Tree(COOKIE[:-1]).members()]
    assert stranger not in [p.pid for p in Tree(COOKIE.partition("_")[2]).members()]


def test_descent_finds_those_without_a_cookie(sleeper: subprocess.Popen[bytes]) -> None:
    found = [p.pid for p in Tree("WINDLASS_COOKIE=nobody").members()]
    assert sleeper.pid in found
    assert os.getpid() not in found
    assert os.getppid() not in found


def test_whoever_was_known_stays_known(stranger: int) -> None:
    known = Tree("WINDLASS_COOKIE=nobody")
    process = process_tree.identify(stranger)
    assert process is not None
    known.add(process)
    known.add(Process(os.getppid(), 1))  # another beginning: not the one we knew
    assert stranger in [p.pid for p in known.members()]
    assert os.getppid() not in [p.pid for p in known.members()]


def test_ending_counts_and_leaves_nobody(stranger: int) -> None:
    marked = Tree(COOKIE)
    ours = [p for p in marked.members() if p.pid == stranger]
    assert ours
    assert process_tree.send(ours[0], signal.SIGKILL)
    wait_for(lambda: not is_alive(stranger))
    assert stranger not in [p.pid for p in marked.members()]


def test_the_table_is_the_same_without_proc(sleeper: subprocess.Popen[bytes]) -> None:
    """As macOS sees it, by ps."""
    by_ps, by_proc = process_tree._ps_table(), process_tree.table()
    for pid in (sleeper.pid, os.getpid(), os.getppid()):
        assert by_ps[pid].parent == by_proc[pid].parent
    assert by_ps[sleeper.pid].state not in "ZX"
    assert process_tree._ps_table()[sleeper.pid].start == by_ps[sleeper.pid].start
