"""Logs as they grow: nothing twice, nothing lost, and the exit code at the end."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.fake import FakeSession, W, a_run, log, windlass
from tests.cli.shell import Shell, Terminal
from windlass.cli.context import CommandContext
from windlass.cli.runs import log_stream
from windlass.cli.runs.log_stream import LogFollower, LogPrinter, StatusReporter, exit_code
from windlass.client.http.session import Session

RUN = "demo_1763268000_3f9a1c2b"
STREAM = f"GET {W}/runs/{RUN}/stream"
END = ("end", a_run(RUN))


def test_a_log_is_printed_as_it_comes(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    session = FakeSession({STREAM: [[log(b"one\n"), log(b"tw\xff\x1b[2Jo\n", 4), END]]})
    assert windlass(session, "logs", "-f", RUN) == 0
    assert capsysbinary.readouterr().out == b"one\ntw\xff\x1b[2Jo\n"


def test_a_broken_connection_loses_and_repeats_nothing(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    connections: list[list[Any]] = [
        [log(b"building\n", path="azureml-logs/20_image_build_log.txt"), ConnectionError("gone")],
        [log(b"building\nmore\n", path="azureml-logs/20_image_build_log.txt"), log(b"abc")],
        [log(b"bcdef", 1), log(b"gh", 6), END],
    ]
    session = FakeSession({STREAM: connections})
    assert windlass(session, "logs", "-f", RUN) == 0
    assert capsysbinary.readouterr().out == b"building\nmore\nabcdefgh"
    assert [asked[2] for asked in session.asked] == [
        {"log": "auto", "offset": "0"},
        {"log": "auto", "offset": "azureml-logs/20_image_build_log.txt:9"},
        {"log": "auto", "offset": "user_logs/std_log.txt:3"},
    ]


def test_a_gap_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    gap = ("gap", {"path": "user_logs/std_log.txt", "offset": 2, "length": 1000})
    session = FakeSession({STREAM: [[log(b"a\n"), gap, ConnectionError()], [gap, log(b"z\n", 1002), END]]})
    assert windlass(session, "logs", "-f", RUN) == 0
    out, err = capsys.readouterr()
    assert out == "a\nz\n"
    assert err.count("1000 bytes were not kept") == 1


def test_the_next_attempt_has_a_log_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    first, begins = ("state", a_run(RUN, state="Running", attempt=1)), ("attempt", {"attempt": 2})
    connections: list[list[Any]] = [
        [first, log(b"one\n"), ConnectionError()],
        [log(b"more\n", 4), begins, log(b"two\n"), ConnectionError()],
        [log(b"end\n", 4), END],
    ]
    session = FakeSession({STREAM: connections})
    assert windlass(session, "logs", "-f", RUN) == 0
    out, err = capsys.readouterr()
    assert out == "one\nmore\ntwo\nend\n"
    assert err.count("[attempt 2 begins]") == 1
    assert [asked[2] for asked in session.asked] == [
        {"log": "auto", "offset": "0"},
        {"log": "auto", "offset": "user_logs/std_log.txt:4", "attempt": "1"},
        {"log": "auto", "offset": "user_logs/std_log.txt:4", "attempt": "2"},
    ]


def test_states_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession({STREAM: [[("state", a_run(RUN, state="Queued")), ("metric", {"n": "x"}), END]]})
    seen: list[str] = []

    class Recorder(StatusReporter):
        def report(self, run: dict[str, Any]) -> None:
            seen.append(run["state"])

    context = CommandContext(cast(Session, session))
    follower = LogFollower(context, RUN, LogPrinter(sys.stdout), Recorder(context))
    assert follower.follow()["state"] == "Completed"
    assert seen == ["Queued"]


def waiting_for(*told: tuple[str, str], printer: LogPrinter | None = None) -> StatusReporter:
    """What is said of a run in these states, with these messages, once all timers have ended."""
    status = StatusReporter(CommandContext(cast(Session, FakeSession())), printer)
    before = set(threading.enumerate())
    for state, message in told:
        status.report(a_run(RUN, state=state, status=state, message=message, target="box"))
    for timer in set(threading.enumerate()) - before:
        timer.join()
    return status


SENT = "sending files to box: {} of 250.0 MB"
BUILT = "building the environment"


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([("Queued", ""), ("Starting", "")], "Starting: waiting for box to take the run\n"),
        ([("Starting", "connecting to box")], "Starting: connecting to box\n"),
        ([("Starting", SENT.format("1.0"))], "Starting: sending files to box: 1.0 of 250.0 MB\n"),
        ([("Starting", ""), ("Running", "")], ""),
        ([("Starting", ""), ("Completed", "")], ""),
        ([("Starting", ""), ("Preparing", BUILT)], "Preparing: building the environment\n"),
        ([("Preparing", BUILT), ("Preparing", f"{BUILT}: 1 of 3 packages installed")], f"Preparing: {BUILT}\n"),
        ([("Queued", "waiting for box: a"), ("Queued", "waiting for box: b")],
         "Queued: waiting for box: a\nQueued: waiting for box: b\n"),
        ([("Preparing", BUILT), ("Preparing", "pulling: 1 of 2 layers"), ("Preparing", "pulling: 2 of 2 layers")],
         "Preparing: building the environment\nPreparing: pulling: 1 of 2 layers\n"),
    ],
)  # fmt: skip
def test_why_nothing_is_printed_is_told(
    states: list[tuple[str, str]], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "_SILENCE_SECONDS", 0.1)
    waiting_for(*states)
    assert capsys.readouterr() == ("", told)


def test_progress_is_told_again_after_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "LINE_EVERY_SECONDS", 0.0)
    waiting_for(("Preparing", f"{BUILT}: 1 of 3 packages"), ("Preparing", f"{BUILT}: 2 of 3 packages"))
    assert capsys.readouterr().err.splitlines() == [f"Preparing: {BUILT}: {n} of 3 packages" for n in (1, 2)]


def test_a_silent_machine_is_not_told_of_once_there_is_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "_SILENCE_SECONDS", 0.1)
    status = StatusReporter(CommandContext(cast(Session, FakeSession())))
    before = set(threading.enumerate())
    status.report(a_run(RUN, state="Starting", message="", target="box"))
    status.clear()
    for timer in set(threading.enumerate()) - before:
        timer.join()
    assert capsys.readouterr() == ("", "")


PROGRESS = """
import sys
from windlass.cli.context import CommandContext
from windlass.cli.runs.log_stream import LogPrinter, StatusReporter
printer = LogPrinter(sys.stdout)
status = StatusReporter(CommandContext(), printer)
def tell(message):
    status.report({"state": "Preparing", "status": "Preparing", "message": message, "target": "box"})
for n in range(3):
    tell(f"building the environment: {n} of 3 packages installed")
status.clear()
printer.write(b"one\\nhalf a ")
tell("building the environment: 3 of 3 packages installed")
status.clear()
printer.write(b"line\\n")
"""


def test_progress_is_one_line_at_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal(Shell(tmp_path), cwd=tmp_path, command=[sys.executable, "-c", PROGRESS])
    assert terminal.end() == 0
    assert "2 of 3 packages installed" in terminal.seen
    assert terminal.seen.count("\n") == 3, "one for what it does, and two of the log"
    assert terminal.seen.endswith("half a line\r\n"), "what is half printed is not drawn over"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"exit_code": 0}, 0),
        ({"state": "Failed", "exit_code": 7}, 7),
        ({"state": "Failed", "exit_code": 255}, 255),
        ({"state": "Failed", "exit_code": None, "signal": 9, "reason": "out_of_memory"}, 137),
        ({"state": "Failed", "exit_code": None, "signal": 15, "reason": "signaled"}, 143),
        ({"state": "Failed", "exit_code": None, "signal": 15, "reason": "time_limit"}, 124),
        ({"state": "Canceled", "exit_code": None, "signal": 15, "reason": "stopped"}, 130),
        ({"state": "Failed", "exit_code": None, "reason": "environment_failed"}, 125),
        ({"state": "Failed", "exit_code": None, "reason": "exit_unknown"}, 125),
        ({"state": "Failed", "exit_code": 0, "reason": "gave_up"}, 125),
    ],
)
def test_the_exit_code_tells_how_it_ended(changes: dict[str, Any], code: int) -> None:
    assert exit_code(a_run(RUN, **changes)) == code


FILES = f"GET {W}/runs/{RUN}/files"


def with_log(data: bytes, path: str = "user_logs/std_log.txt") -> FakeSession:
    return FakeSession({FILES: {"files": [{"path": path, "size": len(data)}]}, f"{FILES}/{path}": data})


@pytest.mark.parametrize(
    ("data", "count", "last"),
    [
        (b"1\n2\n3\n", "2", b"2\n3\n"),
        (b"1\n2\n3", "2", b"2\n3"),
        (b"1\n2\n", "9", b"1\n2\n"),
        (b"1\n2\n", "0", b""),
        (b"x" * 5000 + b"\n" + b"y" * 5000 + b"\nz\n", "2", b"y" * 5000 + b"\nz\n"),
    ],
)
def test_the_last_lines(data: bytes, count: str, last: bytes, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert windlass(with_log(data), "logs", "--tail", count, RUN) == 0
    assert capsysbinary.readouterr().out == last


def test_another_file_and_one_that_is_not_there(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    session = with_log(b"\x00\xff", "logs/a.bin")
    assert windlass(session, "logs", RUN, "--path", "logs/a.bin") == 0
    assert capsysbinary.readouterr().out == b"\x00\xff"
    assert windlass(session, "logs", RUN, "--path", "logs/b.bin") == 3


def test_no_log_yet_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(FakeSession({FILES: {"files": []}}), "logs", RUN) == 0
    assert capsys.readouterr() == ("", "There is no log.\n")
