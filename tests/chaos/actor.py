"""The script of the chaos runs. What it prints follows from its arguments, and it writes the truth about itself into a
ledger outside the run folder: each start, how many bytes it has printed, its intended exit code.

Arguments: ledger folder, key, lines, exit code, seconds, act, token. The processes that it leaves behind are `sleep
TOKEN NUMBER`, by which the test finds them and knows their run, however they hide. Standard library, Python 3.8.
"""

import fcntl
import hashlib
import os
import signal
import sys
import time
from typing import NoReturn


def line(key: str, number: int) -> bytes:
    return b"%s line %06d \xc3\xa4\xff\x00 of the output\n" % (key.encode(), number)


def output(key: str, lines: int) -> bytes:
    return b"".join(line(key, number) for number in range(lines))


def tell(word: str) -> None:
    with open(os.path.join(ledger, key), "ab", buffering=0) as file:
        file.write(f"{word} at {time.time():.3f}\n".encode())


def number_of(key: str) -> str:
    return key.rpartition("-")[2]


def sleep_for_ever(environment: "dict[str, str]") -> NoReturn:
    os.execve("/bin/sleep", ["sleep", token, number_of(key)], environment)


def daemonize() -> bool:
    """True in a grandchild of a session of its own, without open files; False in the script, once that is there."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.closerange(0, 256)
    return True


def supervisor() -> int:
    """Our parent, if it is a process of the runner; if it was killed, that may be the host, or 0 for none."""
    parent = os.getppid()
    root = os.path.dirname(os.path.dirname(os.environ["WINDLASS_RUN_FOLDER"]))
    try:
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return 0
    return parent if os.fsencode(root) in words else 0


def strike_parent(number: int) -> None:
    parent = supervisor()
    tell(f"sends {signal.Signals(number).name} to {parent}")
    send_to_parent(parent, number)


def leave_children() -> None:
    for number in range(3):
        if os.fork() == 0:
            if number == 1:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if number == 2:
                os.setsid()
            sleep_for_ever(dict(os.environ))


def hold_lock() -> None:
    """A child asks for the lock of the claim, and holds it once the supervisor is dead."""
    lock = os.open(os.path.join(os.environ["WINDLASS_RUN_FOLDER"], "claim", "lock"), os.O_RDWR)
    if os.fork() == 0:
        os.setsid()
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock, True)
        sleep_for_ever({})
    os.close(lock)
    strike_parent(signal.SIGKILL)


def stop_self(seconds: float) -> None:
    """A child stops the script, and lets it go on after so long; 0: never."""
    script = os.getpid()
    if os.fork() == 0:
        os.setsid()
        send_to_parent(script, signal.SIGSTOP)
        if not seconds:
            sleep_for_ever({})
        time.sleep(seconds)
        send_to_parent(script, signal.SIGCONT)
        os._exit(0)


def send_to_parent(parent: int, number: int) -> None:
    """Unless it has ended."""
    try:
        if parent > 1 and os.getppid() == parent:
            os.kill(parent, number)
    except ProcessLookupError:
        pass


def do(act: str) -> None:
    if act == "fork":
        leave_children()
    elif act == "daemon":
        if daemonize():
            sleep_for_ever({})
    elif act == "stop-parent":
        strike_parent(signal.SIGSTOP)
    elif act == "kill-parent":
        strike_parent(signal.SIGKILL)
    elif act == "daemon-kill-parent":
        if daemonize():
            sleep_for_ever({})
        strike_parent(signal.SIGKILL)
    elif act == "stop-parent-from-daemon":
        parent = supervisor()
        tell(f"has its daemon send SIGSTOP to {parent}")
        if daemonize():
            if parent and os.path.exists(f"/proc/{parent}"):
                os.kill(parent, signal.SIGSTOP)
            sleep_for_ever({})
    elif act == "lock":
        hold_lock()
    elif act == "stop-self":
        stop_self(1.0)
    elif act == "frozen":
        stop_self(0.0)


def main() -> NoReturn:
    tell(f"start {os.environ['WINDLASS_RUN_ID']} {os.environ['WINDLASS_ATTEMPT']} {os.getpid()}")
    if act == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    folder = os.path.join(os.environ["WINDLASS_RUN_FOLDER"], "metrics")
    os.makedirs(folder, exist_ok=True)
    printed, pause, has_acted = 0, seconds / lines, False
    whole = hashlib.sha256()
    with open(os.path.join(folder, "main.jsonl"), "ab", buffering=0) as metrics:
        for number in range(lines):
            text = line(key, number)
            os.write(1, text)
            printed += len(text)
            whole.update(text)
            if number < 100:
                metrics.write(b'{"n":"value","v":%d,"t":%d.5}\n' % (number, 1790000000 + number))
            if lines < 100 or number % 1000 == 0:
                tell(f"printed {printed}")
            if number >= lines // 2 and not has_acted:
                has_acted = True
                do(act)
            if pause and lines < 100:
                time.sleep(pause)
    os.makedirs("outputs", exist_ok=True)
    with open("outputs/result.bin", "wb") as result:
        result.write(output(key, min(lines, 100)))
    tell(f"printed {printed}")
    while act in ("sleep", "stubborn", "frozen"):
        time.sleep(0.05)
    tell(f"exit {code} {printed} {whole.hexdigest()}")
    os._exit(code)


if __name__ == "__main__":
    ledger, key, act, token = sys.argv[1], sys.argv[2], sys.argv[6], sys.argv[7]
    lines, code, seconds = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    main()
