"""The first process of a host: namespaces of its own, mounts, sshd. Everything of the host ends with it.

Started as a program; knows nothing but the standard library. The first line on stdin says what the host is like, and
is answered by a process number; each further line is a command, answered when it is done. Stdin's end ends the host:
it cannot outlive its test.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import sys
import time

_NEW_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # mount, UTS, IPC, PID, network
_PRIVATE = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE: what we mount is seen by nobody else
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    wanted = json.loads(sys.stdin.readline())
    _must(_libc.unshare(_NEW_NAMESPACES), "unshare")
    # The first child is process 1 of the new namespace; with it the kernel kills all others there.
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        if wanted["removes"]:
            _remove(wanted["removes"])
        return
    _must(_libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0), "prctl")
    signal.signal(signal.SIGCHLD, lambda *_: _reap())
    pid = os.readlink("/proc/self")  # our number outside, for as long as /proc is not our own
    _mount("none", "/", "", _PRIVATE, "")
    for source, target, kind, flags, data in wanted["mounts"]:
        if not os.path.exists(target):
            os.makedirs(target)
        _mount(source, target, kind, flags, data)
    socket.sethostname(wanted["name"])
    _say(pid)
    _serve(wanted["daemon"])


def _serve(daemon: list[str]) -> None:
    for command in sys.stdin:
        match command.strip():
            case "start":
                os.posix_spawn(daemon[0], daemon, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            case "kill":
                _kill_all()
        _say("done")


def _kill_all() -> None:
    """Every process of the host but this one."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    while _reap(is_patient=True):
        pass
    signal.signal(signal.SIGCHLD, lambda *_: _reap())


def _reap(is_patient: bool = False) -> bool:
    """Bury children that ended; False if there are none left."""
    try:
        while os.waitpid(-1, 0 if is_patient else os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _remove(folder: str) -> None:
    """What is left of a network whose test is gone. Its hosts are ending just now, and may still write."""
    deadline = time.monotonic() + 60
    while os.path.exists(folder) and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


def _mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    _must(_libc.mount(*arguments), f"mount {kind} {source} on {target}")


def _must(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    main()
