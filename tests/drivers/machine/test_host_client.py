"""A host that speaks frames, by each transport: many threads ask at once, and whatever it does, none of them hangs or
gets a wrong answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.certificates import self_signed
from windlass.core.errors import TargetUnreachable, TooLarge
from windlass.drivers.connection_pool import BackoffPool
from windlass.drivers.machine import framing
from windlass.drivers.machine.host_client import HostClient
from windlass.drivers.machine.transport import ChildProcess, SocketTransport, Transport

FAR_SIDE = Path(__file__).parents[1] / "far_side.py"

Open = Callable[..., HostClient]


class FarSides:
    """Starts far sides, which a transport leads to, and opens connections to them."""

    def __init__(self, transport: str) -> None:
        self._transport = transport
        self._clients: list[HostClient] = []
        self._processes: dict[Transport, subprocess.Popen[bytes]] = {}

    def __call__(self, *manners: str, **options: Any) -> HostClient:
        argv = [sys.executable, "-I", "-S", str(FAR_SIDE), *manners]
        transport = ChildProcess("box", argv) if self._transport == "child" else self._connect(argv)
        client = HostClient(transport, **options)
        self._clients.append(client)
        return client

    def _connect(self, argv: list[str]) -> SocketTransport:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno(), start_new_session=True)
        transport = SocketTransport("box", ours)
        self._processes[transport] = process
        return transport

    def pid(self, client: HostClient) -> int:
        return client.transport.pid or self._processes[client.transport].pid

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for process in self._processes.values():
            process.kill()  # one that sleeps does not notice the end of its input
            process.wait()


@pytest.fixture(params=["child", "socket"])
def far_sides(request: pytest.FixtureRequest) -> Iterator[FarSides]:
    made = FarSides(request.param)
    yield made
    made.close()


@pytest.fixture
def open_client(far_sides: FarSides) -> Open:
    return far_sides


@pytest.fixture
def open_child() -> Iterator[Open]:
    made = FarSides("child")
    yield made
    made.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_answer_brings_its_json_and_its_bytes(open_client: Open) -> None:
    body, data = open_client().call("echo", b"\x00\xff" * 1000, say="grüße\n")
    assert body["said"] == "grüße\n"
    assert data == b"\x00\xff" * 1000


def test_what_a_login_shell_prints_first_is_skipped(open_client: Open) -> None:
    client = open_client("noise")
    assert client.hello == {"boot_id": None, "now": None}
    assert client.call("echo", say=1)[0]["said"] == 1


def test_eight_threads_hear_their_own_answers(open_client: Open) -> None:
    client = open_client()

    def ask(number: int) -> bool:
        payload = os.urandom(number * 97 % 5000)
        body, data = client.call("echo", payload, say=number)
        return body["said"] == number and data == payload

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(400)))


def test_several_requests_may_be_under_way(open_client: Open) -> None:
    client = open_client()
    asked = [client.ask("echo", say=number) for number in range(50)]
    assert [client.wait(answer)[0]["said"] for answer in asked] == list(range(50))


def test_frames_larger_than_the_kernels_buffer_go_both_ways(open_client: Open) -> None:
    payload = os.urandom(3 << 20)
    assert open_client().call("echo", payload)[1] == payload


def test_unasked_frames_reach_the_listener(open_client: Open) -> None:
    heard: list[dict[str, Any]] = []
    open_client(on_event=heard.append).call("news")
    assert heard == [{"event": "file_grew", "job": "a.1", "path": "x", "size": 5}]


@pytest.mark.parametrize(
    ("badly", "why"),
    [
        ("die", "it ended"),
        ("half", "it ended"),
        ("giant", "too large"),
        ("garbage", "not JSON"),
    ],
)
def test_a_far_side_that_breaks_down_is_unreachable(open_client: Open, badly: str, why: str) -> None:
    client = open_client()
    with pytest.raises(TargetUnreachable, match=why):
        client.call(badly)
    assert not client.is_open
    with pytest.raises(TargetUnreachable, match=why):
        client.call("echo")


def test_its_last_words_are_in_the_error(open_child: Open) -> None:
    with pytest.raises(TargetUnreachable, match=r"box cannot be reached: .*Permission denied \(publickey\)"):
        open_child("refuses")
    client = open_child()
    with pytest.raises(TargetUnreachable):
        client.call("die")
    client.close()
    with pytest.raises(TargetUnreachable, match="the disk caught fire"):
        client.call("echo")


def test_a_killed_host_fails_all_requests_that_wait(far_sides: FarSides) -> None:
    broke = threading.Event()
    client = far_sides(on_break=broke.set)
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(client.call, "deaf") for _ in range(4)]
        while client.sent < 4:
            threading.Event().wait(0.005)
        os.kill(far_sides.pid(client), signal.SIGKILL)
        for call in waiting:
            with pytest.raises(TargetUnreachable):
                call.result(timeout=20)
    assert broke.wait(20)  # told after those who wait


def test_a_killed_host_is_replaced_by_the_connection_pool(far_sides: FarSides) -> None:
    connections = BackoffPool()
    first: HostClient = connections.get("box", far_sides)
    os.kill(far_sides.pid(first), signal.SIGKILL)
    with pytest.raises(TargetUnreachable):
        first.call("echo")
    second: HostClient = connections.get("box", far_sides)
    assert second is not first
    assert second.call("echo", say="again")[0]["said"] == "again"
    connections.close()
    assert not second.is_open


def test_silence_ends_at_the_time_out(open_client: Open) -> None:
    client = open_client()
    with pytest.raises(TargetUnreachable, match="did not answer 'deaf' in time"):
        client.call("deaf", seconds=0.05)
    assert not client.is_open


def test_silence_ends_although_others_go_on_asking(open_client: Open) -> None:
    """What we send says nothing about who does not answer."""
    client = open_client()
    first = client.ask("deaf", seconds=2)

    def go_on() -> None:
        try:
            for _ in range(600):
                client.ask("echo", seconds=2)
                time.sleep(0.05)
        except TargetUnreachable:
            return

    others = threading.Thread(target=go_on, daemon=True)
    others.start()
    assert first.came.wait(0.2) is False
    with pytest.raises(TargetUnreachable, match="did not answer 'deaf' in time"):
        client.wait(first)
    others.join()
    assert client.sent < 600, "it took all of them"


def test_nobody_is_late_while_those_ahead_are_not(open_client: Open) -> None:
    client = open_client()
    ahead = client.ask("slowly", seconds=20, pause=0.3)
    behind = client.ask("echo", seconds=0.01, say="here")
    assert client.wait(behind)[0]["said"] == "here"
    assert client.wait(ahead)[0]["ok"]


def test_a_slow_line_is_not_a_dead_one(open_client: Open) -> None:
    client = open_client()
    asked = [client.ask("slowly", seconds=3, pause=0.2) for _ in range(17)]
    assert all(client.wait(answer)[0]["ok"] for answer in asked)  # together longer than anybody's patience


def test_a_host_that_stops_reading_blocks_no_thread_for_ever(open_client: Open) -> None:
    client = open_client()
    client.ask("deaf", seconds=0.2)
    with pytest.raises(TargetUnreachable):
        for _ in range(5):
            client.ask("echo", bytes(1 << 20), seconds=0.2)


def test_a_mute_host_does_not_hold_the_opener(open_client: Open) -> None:
    with pytest.raises(TargetUnreachable, match="did not greet within 0.1 s"):
        open_client("mute", open_seconds=0.1)


def test_a_megabyte_of_chatter_is_no_greeting(open_client: Open) -> None:
    with pytest.raises(TargetUnreachable, match="did not greet"):
        open_client("chatters")


def test_a_program_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(TargetUnreachable, match="no-such-program does not start: No such file"):
        ChildProcess("box", ["no-such-program"])


def test_a_frame_of_ours_that_is_too_large_is_refused_and_breaks_nothing(open_client: Open) -> None:
    client = open_client()
    with pytest.raises(TooLarge):
        client.call("echo", bytes(framing.MAX_BYTES + 1))
    assert client.call("echo", say="fine")[0]["said"] == "fine"


def test_close_ends_the_child_and_says_so(open_child: Open) -> None:
    client = open_child()
    client.close()
    client.close()
    assert client.transport.pid is not None
    assert not is_running(client.transport.pid)
    with pytest.raises(TargetUnreachable, match="closed"):
        client.call("echo")


def test_an_answer_that_is_longer_than_its_question_allows_breaks_the_connection(open_client: Open) -> None:
    client = open_client()
    assert len(client.call("echo", say="x" * 1_000_000)[0]["said"]) == 1_000_000
    with pytest.raises(TargetUnreachable, match="its answer to 'long' is too large"):
        client.call("long", size=2_000_000)


def test_an_event_that_is_too_large_breaks_the_connection(open_client: Open) -> None:
    client = open_client()
    with pytest.raises(TargetUnreachable, match="an event that is too large"):
        client.call("boast", size=2_000_000)


def test_the_end_of_a_socket_ends_the_host(far_sides: FarSides) -> None:
    client = far_sides()
    client.close()
    client.close()
    with pytest.raises(TargetUnreachable, match="the connection was closed"):
        client.call("echo")


def test_a_socket_with_tls_carries_frames_both_ways(tmp_path: Path) -> None:
    """Many threads, and frames that are larger than a record of TLS."""
    context, pem = self_signed(tmp_path, "host.example.org")
    ours, theirs = socket.socketpair()
    far = threading.Thread(target=echo_frames, args=(context, theirs), daemon=True)
    far.start()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(cadata=pem)
    client = HostClient(SocketTransport("box", trusting.wrap_socket(ours, server_hostname="host.example.org")))
    payloads = [os.urandom(100_000 + number) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda payload: client.call("echo", payload)[1], payloads)
    assert list(answers) == payloads
    client.close()
    far.join()


def echo_frames(context: ssl.SSLContext, connection: socket.socket) -> None:
    """A host that sends the bytes of each request back."""
    with context.wrap_socket(connection, server_side=True) as secured, secured.makefile("rwb") as stream:
        stream.write(framing.GREETING + framing.encode({"event": "hello"}))
        stream.flush()
        try:
            while lengths := stream.read(8):
                text, data = struct.unpack(">II", lengths)
                body = json.loads(stream.read(text))
                stream.write(framing.encode({"id": body["id"], "ok": True}, stream.read(data)))
                stream.flush()
        except OSError:
            return  # the client has closed it
