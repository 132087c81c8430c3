"""Commands and connections that members open in the container of a run."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.engines.box import Box
from tests.runner.host.test_channels import Opened
from tests.runner.pipe import wait_for

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
LISTENS = """
import socket
listening = socket.create_server(("127.0.0.1", 5006))
print("up", flush=True)
while True:
    connection, _ = listening.accept()
    with connection:
        connection.sendall(connection.recv(100).upper())
"""


@pytest.fixture
def running(box: Box) -> Box:
    box.python("job", SLEEPS, env={"COLOUR": "blue"})
    box.wait_for_line("job")
    return box


def test_a_command_is_in_the_container_with_the_runs_folder_and_variables(running: Box) -> None:
    script = "pwd; echo $COLOUR; echo cookie=$WINDLASS_COOKIE; id -u; cat /proc/1/comm; echo problem >&2; exit 7"
    opened = Opened(running.host, 1, job="job", command=["sh", "-c", script])
    assert opened.end() == {"exit_code": 7, "message": ""}
    folder = f"{running.host.root}/runs/job/source"
    assert opened.said().decode().split()[:4] == [folder, "blue", "cookie=", str(os.getuid())]
    assert opened.said().decode().split()[4] != Path("/proc/1/comm").read_text().strip()
    assert opened.said("stderr") == b"problem\n"


def test_a_shell_has_a_terminal_that_is_resized(running: Box) -> None:
    opened = Opened(running.host, 1, job="job", size=[100, 30], term="vt100")
    opened.send(b"stty size; echo $TERM; echo o''ne\n")
    said = opened.wait_for(b"\r\none\r\n")
    assert b"30 100\r\n" in said
    assert b"vt100\r\n" in said
    opened.send(size=[120, 40])
    opened.send(b"stty size\n")
    opened.wait_for(b"40 120\r\n")
    opened.send(b"exit 5\n")
    assert opened.end()["exit_code"] == 5


def test_input_passes_through_unchanged(running: Box) -> None:
    data = os.urandom(200_000)
    opened = Opened(running.host, 1, job="job", command=["cat"])
    opened.send(data, end_input=True)
    assert opened.end()["exit_code"] == 0
    assert hashlib.sha256(opened.said()).digest() == hashlib.sha256(data).digest()


def test_closing_ends_every_process(running: Box) -> None:
    opened = Opened(running.host, 1, job="job", command=["sh", "-c", "setsid sleep 600 & echo started; sleep 601"])
    opened.wait_for(b"started\n")
    wait_for(lambda: len(opened.marked()) == 3)
    opened.send(close=True)
    opened.end()
    assert opened.marked() == []
    assert running.host.observe("job")["phase"] == "running"


def test_the_end_of_the_run_ends_a_shell(running: Box) -> None:
    opened = Opened(running.host, 1, job="job", command=["sleep", "600"])
    wait_for(opened.marked)
    running.host.ask("stop", job="job", grace=0)
    assert running.wait("job")["reason"] == "stopped"
    assert opened.end()["exit_code"] != 0
    assert opened.marked() == []


def test_a_port_of_the_container_is_reached(box: Box) -> None:
    box.python("job", LISTENS)
    box.wait_for_line("job")
    opened = Opened(box.host, 1, job="job", port=5006)
    opened.send(b"question")
    assert opened.end()["exit_code"] == 0
    assert opened.said() == b"QUESTION"
    refused = Opened(box.host, 2, job="job", port=5007)
    assert refused.end()["exit_code"] == 1
    assert b"Nothing answers on port 5007" in refused.said("stderr")


def test_a_command_that_is_missing_is_named(running: Box) -> None:
    opened = Opened(running.host, 1, job="job", command=["no-such-command"])
    assert opened.end()["exit_code"] == 127
    assert opened.said("stderr") == b"There is no command no-such-command on the PATH there.\n"
