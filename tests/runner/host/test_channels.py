"""Commands that members open where a run is: what they see, what they return, and that nothing of them is left."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.channels.process import WINDOW
from windlass.runner.host.channels import MOST_CHANNELS

from ..conftest import Hosts
from ..pipe import Host, RequestRefused, is_alive, wait_for

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
# A process in a session of its own, one in the background, and one in front.
FAMILY = "echo $$; setsid sleep 600 & sleep 601 & echo started; sleep 602"


class Opened:
    """An open channel, as the server's end sees it."""

    def __init__(self, host: Host, number: int, **request: Any) -> None:
        self.host = host
        self.number = number
        host.ask("open_channel", channel=number, **request)

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [e for e in list(self.host.events) if e["event"] == "channel" and e["channel"] == self.number]

    def said(self, stream: str = "stdout") -> bytes:
        return b"".join(frame["data"] for frame in self.frames if frame.get("from") == stream)

    def wait_for(self, text: bytes) -> bytes:
        wait_for(lambda: text in self.said())
        return self.said()

    def send(self, data: bytes = b"", **more: Any) -> None:
        self.host.ask("channel", data, channel=self.number, **more)

    def end(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = wait_for(lambda: [f["end"] for f in self.frames if "end" in f])
        return found[0]

    def marked(self) -> list[int]:
        """The processes that were started through channels to runs of this host."""
        marks = {b"WINDLASS_CHANNEL=", b"WINDLASS_RUN_FOLDER=" + os.fsencode(self.host.root)}
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                variables = Path(f"/proc/{name}/environ").read_bytes()
                if all(mark in variables for mark in marks):
                    found.append(int(name))
            except OSError:
                continue
        return [pid for pid in found if is_alive(pid)]


@pytest.fixture
def running(host: Host) -> Host:
    host.python("job", SLEEPS, env={"COLOUR": "blue"})
    host.wait_running("job")
    return host


def test_a_command_has_the_folder_the_variables_and_the_interpreter_of_the_run(running: Host, root: Path) -> None:
    script = "pwd; echo $COLOUR; echo cookie=$WINDLASS_COOKIE; command -v python; ls; echo problem >&2; exit 7"
    opened = Opened(running, 1, job="job", command=["sh", "-c", script])
    assert opened.end() == {"exit_code": 7, "message": ""}
    folder, colour, cookie, *_, last = opened.said().decode().split()
    assert (folder, colour, cookie) == (f"{root}/runs/job/source", "blue", "cookie=")
    assert last.endswith(".py")
    assert opened.said("stderr") == b"problem\n"


def test_a_command_of_the_machine_has_only_the_variables_of_the_account(hosts: Hosts) -> None:
    host = hosts(env={"SECRET_OF_THE_SERVER": "1", "LC_ALL": "C"})
    opened = Opened(host, 1, command=["sh", "-c", "env; pwd"])
    assert opened.end()["exit_code"] == 0
    said = opened.said().decode()
    assert "SECRET_OF_THE_SERVER" not in said
    assert "LC_ALL=C\n" in said
    assert said.splitlines()[-1] == os.path.expanduser("~")


def test_a_terminal_has_a_size_that_changes_and_passes_ctrl_c_on(running: Host) -> None:
    opened = Opened(running, 1, job="job", command=["sh"], size=[100, 30], term="vt100")
    opened.send(b"stty size; echo $TERM; tty; echo o''ne\n")
    said = opened.wait_for(b"\r\none\r\n")
    assert b"30 100\r\n" in said
    assert b"vt100\r\n" in said
    opened.send(size=[120, 40])
    opened.send(b"stty size; sleep 600\n")
    opened.wait_for(b"40 120\r\n")
    wait_for(lambda: any(b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in opened.marked()))
    opened.send(b"\x03")
    opened.send(b"exit 5\n")
    assert opened.end()["exit_code"] == 5


def test_input_is_passed_on_to_its_end_and_comes_back_unchanged(running: Host) -> None:
    data = os.urandom(4 * WINDOW)
    opened = Opened(running, 1, job="job", command=["cat"])
    sent = confirmed = 0
    while len(opened.said()) < len(data):
        credit = sum(frame.get("credit", 0) for frame in opened.frames)
        piece = data[sent : min(len(data), WINDOW + credit)][:65536]
        sent += len(piece)
        received = len(opened.said())
        if piece or received > confirmed:
            opened.send(piece, credit=received - confirmed)
            confirmed = received
    opened.send(end_input=True)
    assert opened.end()["exit_code"] == 0
    assert hashlib.sha256(opened.said()).digest() == hashlib.sha256(data).digest()


def test_output_that_is_not_confirmed_stops_and_delays_nothing_else(running: Host) -> None:
    opened = Opened(running, 1, job="job", command=["sh", "-c", "yes"])
    wait_for(lambda: len(opened.said()) == WINDOW)
    running.python("other", "print('done')")
    assert running.wait("other")["exit_code"] == 0
    assert len(opened.said()) == WINDOW
    opened.send(close=True)
    opened.end()


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        ({"command": ["no-such-command"]}, 127, "There is no command no-such-command"),
        ({"command": ["./absent"]}, 127, "There is no ./absent"),
        ({"command": ["/etc/passwd"]}, 126, "may not be executed"),
        ({"port": 1}, 1, "Nothing answers on port 1"),
        ({"command": ["true"], "rank": 3}, None, "no process of rank 3"),
    ],
)
def test_what_cannot_be_opened_says_why(running: Host, request_: dict[str, Any], code: int | None, words: str) -> None:
    end = Opened(running, 1, job="job", **request_).end()
    assert end["exit_code"] == code
    assert words in end["message"]


def test_a_connection_to_a_port_carries_bytes_both_ways(running: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        opened = Opened(running, 1, job="job", port=listening.getsockname()[1])
        connection, _ = listening.accept()
        with connection:
            opened.send(b"question")
            assert connection.recv(100) == b"question"
            connection.sendall(b"answer")
            opened.send(end_input=True)
            assert connection.recv(100) == b""
    assert opened.end()["exit_code"] == 0
    assert opened.said() == b"answer"


def test_closing_ends_every_process_of_a_channel(running: Host) -> None:
    opened = Opened(running, 1, job="job", command=["sh", "-c", FAMILY])
    opened.wait_for(b"started\n")
    wait_for(lambda: len(opened.marked()) == 4)
    opened.send(close=True)
    opened.end()
    assert opened.marked() == []
    assert running.observe("job")["phase"] == "running"


def test_a_command_that_ends_leaves_no_process(running: Host) -> None:
    opened = Opened(running, 1, job="job", command=["sh", "-c", "setsid sleep 600 & sleep 601 & exit 3"])
    assert opened.end()["exit_code"] == 3
    assert opened.marked() == []


def test_the_end_of_the_run_ends_its_channels_and_they_are_not_its_leftovers(running: Host) -> None:
    opened = Opened(running, 1, job="job", command=["sh", "-c", FAMILY])
    of_machine = Opened(running, 2, command=["cat"])
    opened.wait_for(b"started\n")
    running.ask("stop", job="job", grace=5)
    assert running.wait("job")["reason"] == "stopped"
    status = (running.root / "runs/job/status.json").read_text()
    assert '"left_behind":0' in status.replace(" ", "")
    assert opened.end() == {"exit_code": None, "message": "The run has ended, and with it what was opened there."}
    of_machine.send(b"still there", end_input=True)
    assert of_machine.end()["exit_code"] == 0
    assert of_machine.said() == b"still there"


@pytest.mark.parametrize("act", ["hang_up", "kill"])
def test_without_its_host_nothing_is_left(running: Host, act: str) -> None:
    opened = Opened(running, 1, job="job", command=["sh", "-c", FAMILY])
    opened.wait_for(b"started\n")
    getattr(running, act)()
    wait_for(lambda: not opened.marked())


def test_a_killed_process_of_a_channel_takes_all_with_it(running: Host) -> None:
    opened = Opened(running, 1, job="job", command=["sh", "-c", FAMILY])
    shell = int(opened.wait_for(b"started\n").split()[0])
    parent = int(Path(f"/proc/{shell}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert opened.end() == {"exit_code": None, "message": "Its process on that machine was killed."}
    wait_for(lambda: not opened.marked())
    assert running.observe("job")["phase"] == "running"


def test_a_run_that_is_not_running_takes_none(host: Host) -> None:
    host.python("job", "pass")
    host.wait("job")
    for job in ("job", "unknown"):
        with pytest.raises(RequestRefused) as refusal:
            host.ask("open_channel", channel=1, job=job, command=["true"])
        assert refusal.value.code == "not_running"


def test_a_malformed_request_and_too_many_channels_are_refused(host: Host) -> None:
    for request in ({"size": [0, 5]}, {"port": 70000}, {"command": ["a\0b"]}, {"term": "$(x)"}, {"command": "sh"}):
        with pytest.raises(RequestRefused) as refusal:
            host.ask("open_channel", channel=1, **request)
        assert refusal.value.code == "invalid"
    opened = [Opened(host, number, command=["cat"]) for number in range(MOST_CHANNELS)]
    with pytest.raises(RequestRefused) as refusal:
        host.ask("open_channel", channel=1000, command=["cat"])
    assert refusal.value.code == "too_many"
    for one in opened:
        one.send(end_input=True)
    for one in opened:
        assert one.end()["exit_code"] == 0
