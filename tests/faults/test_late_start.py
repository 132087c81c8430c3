"""A start that is on its way while its run is canceled: in the pipe of a host that hangs."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios

from tests.faults.world import World, wait_for


def waiting_for(pid: int) -> int:
    """How many bytes a process has not read yet from the pipes that it reads."""
    most = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if os.readlink(path).startswith("pipe:") and not os.stat(path, follow_symlinks=False).st_mode & 0o200:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                most = max(most, struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])
            finally:
                os.close(fd)
    return most


def test_a_run_that_was_canceled_before_it_started_cannot_be_started_any_more(world: World) -> None:
    world.start_server()
    world.wait_final(world.submit("first", 1, 0, "run")["id"])  # by which the host is there
    host = world.host_pid()
    os.kill(host, signal.SIGSTOP)
    run_id = world.submit("second", 1, 0, "run")["id"]
    wait_for("the start to be sent", lambda: waiting_for(host) > 500)
    world.cancel(run_id)
    world.kill_server()
    os.kill(host, signal.SIGKILL)  # so that the start is lost; the next server cannot know that
    world.start_server()
    run = world.wait_final(run_id)
    assert (run["state"], run["message"]) == ("Canceled", "canceled before it started")
    assert (world.machine / "ended" / f"{run_id}.1").exists()
