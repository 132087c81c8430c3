"""What a run prints is shown once, in order, in Azure's frame, also when the connection breaks."""

from __future__ import annotations

import base64
import json
import pty
import sys
from typing import Any

import pytest

from tests.client.fake_server import FakeServer, answer, serving
from windlass.client.http.session import Address, Session
from windlass.client.runs.log_stream import LogCursor, LogPrinter, follow, say
from windlass.client.runs.record import RunRecord

LOG = "user_logs/std_log.txt"


def log(offset: int, data: bytes, path: str = LOG) -> dict[str, Any]:
    return {"path": path, "offset": offset, "data": base64.b64encode(data).decode()}


class Printed:
    """Events of a stream, as they are printed."""

    def __init__(self) -> None:
        self._cursor = LogCursor()
        self._printer = LogPrinter(RunRecord(None, "r_1"))  # type: ignore[arg-type]
        self.end = self._printer.end

    def event(self, name: str, body: dict[str, Any]) -> None:
        self._cursor.deliver(name, body, self._printer)

    def log(self, body: dict[str, Any]) -> None:
        self.event("log", body)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_each_log_has_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printed()
    printer.log(log(0, b"building\n", "azureml-logs/20_image_build_log.txt"))
    printer.log(log(0, b"one\ntw"))
    printer.log(log(6, b"o"))
    printer.end()
    assert shown(capsys) == (
        "\nStreaming azureml-logs/20_image_build_log.txt\n=============================================\n\nbuilding\n"
        "\nStreaming user_logs/std_log.txt\n===============================\n\none\ntwo\n"
    )


def test_characters_cut_in_two_and_bytes_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printed()
    euro = "\u20ac".encode()
    printer.log(log(0, b"a" + euro[:1]))
    printer.log(log(2, euro[1:] + b"\xff" + euro[:2]))
    printer.end()
    assert shown(capsys).endswith("\n\na\u20ac\ufffd\ufffd\n")


def test_bytes_that_come_again_are_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printed()
    for event in (log(0, b"abc"), log(1, b"bcd"), log(0, b"ab"), log(4, b"e\n")):
        printer.log(event)
    assert shown(capsys).endswith("\n\nabcde\n")


def test_each_attempt_has_a_log_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printed()
    printer.log(log(0, b"one"))
    printer.event("attempt", {"attempt": 2})
    printer.log(log(0, b"two\n"))
    heading = "\nStreaming user_logs/std_log.txt\n===============================\n\n"
    assert shown(capsys) == f"{heading}one\n\nAttempt 2 begins\n{heading}two\n"


def test_what_was_not_kept_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printed()
    printer.log(log(0, b"head\n"))
    printer.event("gap", {"path": LOG, "offset": 5, "length": 100})
    printer.log(log(105, b"tail\n"))
    assert shown(capsys).endswith("head\n\n[... 100 bytes of this log were not kept ...]\ntail\n")


EVIL = b"\x1b]52;c;cm0gLXJmIH4=\x07\x1b[31mred\x1b[2J and \x9b6n"


def test_a_terminal_gets_colours_and_no_other_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as stream, open(ours, "rb", buffering=0) as screen:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            printer = Printed()
            printer.log(log(0, EVIL[:9]))
            printer.log(log(9, EVIL[9:]))
            printer.end()
            say("a warning with \x1b]0;a title\x07 of a run\n")
        stream.write("-- mark --\n")
        stream.flush()
        sent = b""
        while b"-- mark --" not in sent:
            sent += screen.read(4096)
    assert b"\n\n\x1b[31mred and \xef\xbf\xbd6n\x1b[0m\na warning with  of a run\n-- mark" in sent.replace(b"\r", b"")
    assert b"\x1b]" not in sent


def test_a_file_gets_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printed()
    printer.log(log(0, EVIL[:9]))
    printer.log(log(9, EVIL[9:]))
    printer.end()
    say("\x1b]0;a title\x07\n")
    assert shown(capsys).endswith("\n\n" + EVIL.decode("utf-8", "replace") + "\n\x1b]0;a title\x07\n")


class FakeWorkspace:
    _path = "/workspaces/ws"

    def __init__(self, server: FakeServer) -> None:
        self._session = Session(lambda: Address(server.url, "t"), 60.0, 60.0)


class FakeExperiment:
    def __init__(self, server: FakeServer) -> None:
        self.workspace = FakeWorkspace(server)


def stream(*events: tuple[str, Any], is_whole: bool = True) -> bytes:
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events).encode()
    head = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n" + f"{len(body):x}\r\n".encode() + body + b"\r\n"
    return head + b"0\r\n\r\n" if is_whole else head


def run_on(server: FakeServer) -> RunRecord:
    return RunRecord(FakeExperiment(server), "r_1")  # type: ignore[arg-type]


def test_a_broken_stream_is_taken_up_where_it_broke(capsys: pytest.CaptureFixture[str]) -> None:
    final = {"id": "r_1", "status": "Completed"}
    with serving(
        stream(("state", {"status": "Running"}), ("log", log(0, b"one\n")), is_whole=False),
        b"",
        answer({"error": {"code": "server_unavailable", "message": "starting"}}, 503),
        stream(("log", log(4, b"two\n"))),  # a server that ends: no end of the run
        stream(("log", log(8, b"three\n")), ("state", final), ("end", final)),
    ) as server:
        run = run_on(server)
        assert follow(run, LogPrinter(run)) == final
        assert run._seen == final
    assert shown(capsys).endswith("\n\none\ntwo\nthree\n")
    assert [request.target.partition("?")[2] for request in server.requests] == [
        "log=auto&offset=0",
        *["log=auto&offset=user_logs%2Fstd_log.txt%3A4"] * 3,
        "log=auto&offset=user_logs%2Fstd_log.txt%3A8",
    ]


def test_waiting_without_output_asks_for_no_log() -> None:
    final = {"id": "r_1", "status": "Failed"}
    with serving(stream(("state", final), ("end", final))) as server:
        assert follow(run_on(server)) == final
    assert server.requests[0].target == "/api/v1/workspaces/ws/runs/r_1/stream"


def test_an_error_of_the_output_is_no_lost_connection() -> None:
    """stdout may be a pipe whose reader has ended."""

    class Closed(LogPrinter):
        def on_log(self, path: str, data: bytes) -> None:
            raise BrokenPipeError

    with serving(stream(("log", log(0, b"one\n")))) as server:
        run = run_on(server)
        with pytest.raises(BrokenPipeError):
            follow(run, Closed(run))
    assert len(server.requests) == 1


def test_a_gap_that_comes_again_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printed()
    printer.log(log(0, b"head\n"))
    for _ in range(2):
        printer.event("gap", {"path": LOG, "offset": 5, "length": 100})
    assert shown(capsys).count("100 bytes of this log were not kept") == 1
