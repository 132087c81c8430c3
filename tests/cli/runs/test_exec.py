"""`windlass exec`, `ssh` and `forward` against a real server and real runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import termios
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import COMMAND, PATIENCE_SECONDS, Shell, Terminal
from tests.hosts.proxy import Break, How, Proxy
from windlass.cli.runs.remote_command import EscapeFilter

SCRIPT = """
import functools, http.server, os, sys, threading, time
folder = sys.argv[1]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(os.path.join(folder, "port.tmp"), "w") as file:
    file.write(str(server.server_port))
os.rename(os.path.join(folder, "port.tmp"), os.path.join(folder, "port"))
print("up", flush=True)
while not os.path.exists(os.path.join(folder, "end")):
    time.sleep(0.02)
"""


@pytest.fixture
def run(shell: Shell, project: Path) -> Iterator[str]:
    """A run that serves its project's folder by HTTP, until there is a file `end`."""
    (project / "train.py").write_text(SCRIPT)
    run_id = shell("submit", "-d", "train.py", str(project), cwd=project).out.strip()
    started = Terminal(shell, "logs", "-f", run_id, cwd=project)
    started.wait_for("up")
    started.press("\x03")
    started.end()
    yield run_id
    (project / "end").touch()
    shell("wait", run_id)


def test_output_errors_and_the_exit_code_are_the_commands(shell: Shell, run: str) -> None:
    done = shell("exec", run, "--", "sh", "-c", "pwd; echo problem >&2; exit 7")
    assert (done.code, done.err) == (7, "problem\n")
    assert done.out.endswith(f"/{run}.1/source\n")
    missing = shell("exec", run, "--", "no-such-command")
    assert missing.code == 127
    assert "There is no command no-such-command on the PATH there." in missing.err


def test_fifty_megabytes_pass_in_both_directions_unchanged(shell: Shell, run: str, tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 50
    source = tmp_path / "source"
    source.write_bytes(data)
    with source.open("rb") as stdin:
        assert shell.raw("exec", run, "--", "cat", stdin=stdin).stdout == data


def test_at_a_terminal_it_is_a_shell_with_ctrl_c_and_the_terminals_size(shell: Shell, run: str, project: Path) -> None:
    shown = Terminal(shell, "exec", run, "--", "sh", cwd=project, env={"PS1": "$ "})
    shown.press("stty size; echo $TERM; trap 'echo interrup''ted' INT\r")
    shown.wait_for("24 80")
    shown.wait_for("xterm-256color")
    fcntl.ioctl(shown._master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    shown.process.send_signal(signal.SIGWINCH)
    shown.press("until stty size | grep '40 120'; do sleep 0.05; done; echo rea''dy; cat\r")
    shown.wait_for("ready")
    shown.press("\x03")
    shown.wait_for("interrupted")
    shown.press("exit 3\r")
    assert shown.end() == 3


@pytest.mark.parametrize("how", ["escape", "terminate"])
def test_the_terminal_is_restored_however_the_connection_ends(shell: Shell, run: str, project: Path, how: str) -> None:
    shown = Terminal(shell, "exec", run, "--", "cat", cwd=project)
    before = termios.tcgetattr(shown._master)
    shown.press("hello\r")
    shown.wait_for("hello\r\nhello")
    assert termios.tcgetattr(shown._master) != before
    if how == "escape":
        shown.press("~.")
    else:
        shown.process.terminate()
    code = 125 if how == "escape" else 128 + signal.SIGTERM
    assert shown.process.wait(PATIENCE_SECONDS) == code
    assert termios.tcgetattr(shown._master) == before
    with contextlib.suppress(AssertionError):
        shown.end()


def test_the_end_of_the_run_ends_the_shell_and_says_so(shell: Shell, run: str, project: Path) -> None:
    shown = Terminal(shell, "exec", run, "--", "cat", cwd=project)
    shown.press("hello\r")
    shown.wait_for("hello\r\nhello")
    (project / "end").touch()
    assert shown.end() == 125
    assert "The run has ended, and with it what was opened there." in shown.text


def test_a_run_that_has_ended_and_one_that_is_not_there(shell: Shell, project: Path) -> None:
    ended = shell.submit(project, "pass")["id"]
    done = shell("exec", ended, "--", "true")
    assert done.code == 125
    assert f"Run {ended} has ended (Completed)" in done.err
    assert f"windlass rerun {ended}" in done.err
    assert shell("forward", ended, "6006").code == 6
    assert shell("exec", "no-such-run", "--", "true").code == 125
    done = shell("exec", "@last", "ls", "-l")
    assert (done.code, "-- COMMAND" in done.err) == (125, True)


def test_a_shell_on_the_machine_of_a_target(shell: Shell) -> None:
    done = shell("ssh", "local", "--", "sh", "-c", "pwd; env")
    assert done.code == 0
    assert done.out.splitlines()[0] == os.path.expanduser("~")
    assert "WINDLASS_HOME" not in done.out
    assert shell("ssh", "nowhere", "--", "true").code == 125


def test_what_is_opened_is_audited(shell: Shell, run: str) -> None:
    shell("exec", run, "--", "sh", "-c", "exit 4")
    entries = [e for e in shell("audit", "--json").json["entries"] if e["object"] == f"run/{run}"]
    opened = next(e for e in entries if e["act"] == "channel.open")
    assert opened["details"]["command"] == ["sh", "-c", "exit 4"]
    closed = [e for e in entries if e["act"] == "channel.close"]
    assert [e["details"]["exit_code"] for e in closed] == [4]
    assert closed[0]["details"]["channel"] == opened["details"]["channel"]


def test_a_port_is_forwarded_for_many_connections(shell: Shell, run: str, project: Path) -> None:
    content = os.urandom(300_000)
    (project / "data.bin").write_bytes(content)
    port = (project / "port").read_text()
    forward = subprocess.Popen(
        [*COMMAND, "forward", run, port], cwd=project, env=shell.environment(), stdout=subprocess.PIPE, text=True
    )
    assert forward.stdout is not None
    found = re.match(r"http://(127\.0\.0\.1:(\d+))  leads to port", forward.stdout.readline())
    assert found is not None
    assert found[2] != port, "the run has it, on the same computer"
    received: list[bytes] = []

    def fetch() -> None:
        with urllib.request.urlopen(f"http://{found[1]}/data.bin", timeout=PATIENCE_SECONDS) as answer:
            received.append(answer.read())

    threads = [threading.Thread(target=fetch) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert received == [content] * 6
    forward.send_signal(signal.SIGINT)
    assert forward.wait(PATIENCE_SECONDS) == 130
    forward.stdout.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(found[2])), 1)


@pytest.mark.parametrize(
    ("typed", "passed", "is_closed"),
    [
        ([b"ls\r~."], b"ls\r", True),
        ([b"~", b"."], b"", True),
        ([b"~~x\r~~."], b"~x\r~.", False),
        ([b"a~.\r"], b"a~.\r", False),
        ([b"~/bin\r"], b"~/bin\r", False),
        ([b"\r~", b"a"], b"\r~a", False),
    ],
)
def test_the_escape_counts_at_the_beginning_of_a_line(typed: list[bytes], passed: bytes, is_closed: bool) -> None:
    escape = EscapeFilter()
    assert b"".join(escape.feed(data) for data in typed) == passed
    assert escape.is_closed == is_closed


def test_bytes_pass_unchanged_though_connections_to_the_server_break(
    fresh: Shell, project: Path, tmp_path: Path
) -> None:
    proxy = Proxy("127.0.0.1", ("127.0.0.1", 1))
    url = f"http://127.0.0.1:{proxy.port}"
    fresh.home.mkdir()
    (fresh.home / "settings.json").write_text(json.dumps({"allowed_hosts": [f"127.0.0.1:{proxy.port}"]}))
    fresh.start_server()
    proxy.upstream = ("127.0.0.1", int((fresh.home / "port").read_text()))
    (project / "train.py").write_text(SCRIPT)
    run_id = fresh("submit", "-d", "train.py", str(project), cwd=project).out.strip()
    while fresh("exec", run_id, "--", "true").code == 125:
        pass  # it is being started
    data = os.urandom(3 << 20)
    source = tmp_path / "source"
    source.write_bytes(data)
    for how in [How.RESET, How.CLOSE] * 5:
        proxy.break_next(Break(how, up=1_500_000, down=200_000))
    changes: dict[str, str | None] = {"WINDLASS_URL": url, "WINDLASS_TOKEN": (fresh.home / "token").read_text()}
    with source.open("rb") as stdin:
        done = fresh.raw("exec", run_id, "--", "cat", stdin=stdin, env=changes)
    assert (done.returncode, done.stdout == data) == (0, True), done.stderr
    assert not proxy.breaks_left()
    (project / "end").touch()
    fresh("wait", run_id)
