"""Server side of the relay: scripts of a machine are connected to the server, and misbehaving hosts do no harm."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.harnesses import LocalHarness
from tests.drivers.certificates import self_signed
from tests.script_calls import ScriptCall
from windlass import drivers
from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import Driver, Features, ServerAddress
from windlass.drivers.kinds.local import LocalDriver
from windlass.drivers.machine.framing import ProtocolError
from windlass.drivers.machine.host_client import PendingAnswer
from windlass.drivers.machine.relay import MAX_CONNECTIONS, WINDOW, Relay
from windlass.testing.harness import PATIENCE, wait_until
from windlass.testing.programs import Program

ID = "00112233aabbccdd"
MB = 1 << 20

Act = Callable[[socket.socket], None]


class CutOff(LocalDriver):
    """This machine, as if scripts on it could not reach the server."""

    features = Features(gpus=True, built_environments=True)


class CutOffHarness(LocalHarness):
    def __init__(self, folder: Path, server: ServerAddress) -> None:
        super().__init__(folder)
        self.server = server
        self.connections = drivers.open_pool(server)

    def driver(self) -> Driver[Any]:
        return CutOff("box", CutOff.config_model(**self.config()), self.secrets, self.connections)

    def restart(self) -> None:
        self.connections.close()
        self.connections = drivers.open_pool(self.server)

    def call(self) -> ScriptCall:
        return ScriptCall(self.root, self.server.id)


class Server:
    """What listens where the server does. Each connection is treated by a thread; what is sent is counted."""

    def __init__(self, act: Act, tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[socket.socket] = []
        self._act = act
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def address(self, certificate: str = "") -> ServerAddress:
        return ServerAddress(ID, f"http://127.0.0.1:{self.port}", "127.0.0.1", self.port, certificate)

    def _accept(self) -> None:
        while True:
            try:
                call, _ = self._listening.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._treat, args=(call,)))
            self._threads[-1].start()

    def _treat(self, call: socket.socket) -> None:
        try:
            if self._tls is not None:
                call = self._tls.wrap_socket(call, server_side=True)
            self.calls.append(call)
            with call:
                self._act(call)
        except OSError:
            call.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for call in list(self.calls):
            try:
                call.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join()


def echo(call: socket.socket) -> None:
    while data := call.recv(1 << 16):
        call.sendall(data)


@contextmanager
def relayed(folder: Path, act: Act = echo, tls: ssl.SSLContext | None = None, pem: str = "") -> Iterator[CutOffHarness]:
    """A machine whose scripts are relayed to a server that acts so."""
    server = Server(act, tls)
    machine = CutOffHarness(folder, server.address(pem))
    try:
        machine.client()
        yield machine
    finally:
        machine.close()
        server.close()


def relay_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("relay of")]


def test_a_script_and_the_server_hear_each_other(tmp_path: Path) -> None:
    with relayed(tmp_path) as machine:
        script = machine.call()
        for number in range(100):
            script.say(b"%05d" % number)
            assert script.hear(5) == b"%05d" % number
        script.close()


def test_who_calls_from_elsewhere_does_not_pass_for_one_of_this_computer(tmp_path: Path) -> None:
    """Wrong tokens are counted by address, and a proxy in front of the server is believed by its address."""

    def say_who(call: socket.socket) -> None:
        call.recv(1)
        call.sendall(call.getpeername()[0].encode().rjust(20))

    with relayed(tmp_path, say_who) as machine:
        who = []
        for _ in range(2):
            script = machine.call()
            script.say(b"?")
            who.append(script.hear(20).strip().decode())
            script.close()
    assert who[0] == who[1]
    assert who[0].startswith("127.") and who[0] != "127.0.0.1"


def test_twenty_at_once_with_megabytes_both_ways(tmp_path: Path) -> None:
    def exchange(script: ScriptCall, payload: bytes) -> None:
        sender = threading.Thread(target=script.say, args=(payload,))
        sender.start()
        heard[payload[:8]] = hashlib.sha256(script.hear(len(payload))).hexdigest()
        sender.join()

    heard: dict[bytes, str] = {}
    payloads = [os.urandom(2 * MB + number) for number in range(20)]
    with relayed(tmp_path) as machine:
        scripts = [machine.call() for _ in payloads]
        threads = [threading.Thread(target=exchange, args=each) for each in zip(scripts, payloads, strict=True)]
        for thread in threads:
            thread.start()
        assert machine.driver().check().ok  # while it is busy
        for thread in threads:
            thread.join()
        assert heard == {payload[:8]: hashlib.sha256(payload).hexdigest() for payload in payloads}
        for script in scripts:
            script.close()


def test_a_script_that_does_not_read_fills_no_memory_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    sent = 0

    def pour(call: socket.socket) -> None:
        nonlocal sent
        if call.recv(4) != b"pour":
            call.sendall(b"quick")
            return
        for _ in range(64):
            call.sendall(b"x" * MB)
            sent += MB

    with relayed(tmp_path, pour) as machine:
        slow = machine.call()
        slow.say(b"pour")
        [first] = slow.hear(1)
        for _ in range(20):
            other = machine.call()
            other.say(b"ping")
            assert other.hear(5) == b"quick"
            other.close()
        assert machine.driver().check().ok
        # What is under way is in the window and in what the system keeps for a connection.
        assert sent < 32 * MB
        assert len(slow.hear(64 * MB - 1)) == 64 * MB - 1
        assert slow.hears_the_end
        assert first == ord("x")
        slow.close()


def test_a_server_that_does_not_read_is_waited_for(tmp_path: Path) -> None:
    go, done = threading.Event(), threading.Event()
    taken = hashlib.sha256()

    def swallow(call: socket.socket) -> None:
        go.wait(PATIENCE)
        while data := call.recv(1 << 16):
            taken.update(data)
        done.set()

    payload = os.urandom(16 * MB)
    with relayed(tmp_path, swallow) as machine:
        script = machine.call()
        sender = threading.Thread(target=script.say, args=(payload,))
        sender.start()
        assert machine.driver().check().ok
        go.set()
        sender.join()
        script.close()
        assert done.wait(PATIENCE)
    assert taken.hexdigest() == hashlib.sha256(payload).hexdigest()


def test_what_was_said_before_the_end_is_heard(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def listen(call: socket.socket) -> None:
        said = b""
        while data := call.recv(1 << 16):
            said += data
        heard.append(said)

    with relayed(tmp_path, listen) as machine:
        script = machine.call()
        script.say(b"y" * 3 * MB + b"the end")
        script.close()
        wait_until(lambda: bool(heard), "the server hears of the end")
    assert heard[0] == b"y" * 3 * MB + b"the end"


def test_a_server_that_is_away_ends_the_line_and_nothing_else(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # who does not listen, but keeps others from it
        port = nobody.getsockname()[1]
        machine = CutOffHarness(tmp_path, ServerAddress(ID, f"http://127.0.0.1:{port}", "127.0.0.1", port))
        machine.client()
        script = machine.call()
        script.say(b"x")
        assert script.hears_the_end
        script.close()
        assert machine.driver().check().ok
        machine.close()


def test_when_the_pipe_breaks_the_server_hears_the_end_of_all_lines(tmp_path: Path) -> None:
    ends = []

    def listen(call: socket.socket) -> None:
        while call.recv(1 << 16):
            call.sendall(b"!")
        ends.append(call)

    with relayed(tmp_path, listen) as machine:
        scripts = [machine.call() for _ in range(5)]
        for script in scripts:
            script.say(b"?")
            assert script.hear(1) == b"!"
        machine.kill_host()
        wait_until(lambda: len(ends) == 5, "the end of all lines")
        assert all(script.hears_the_end for script in scripts)
        wait_until(lambda: not relay_threads(), "the end of the thread")
        machine.restart()
        machine.client()
        script = machine.call()
        script.say(b"?")
        assert script.hear(1) == b"!"
        for each in (*scripts, script):
            each.close()
    assert not relay_threads()


def test_nothing_runs_for_a_machine_whose_scripts_do_not_call(tmp_path: Path) -> None:
    with relayed(tmp_path) as machine:
        machine.call().close()
        assert machine.driver().check().ok
        assert not relay_threads()


# ---- TLS ----


def test_a_server_that_speaks_tls_is_known_by_its_self_signed(tmp_path: Path) -> None:
    tls, pem = self_signed(tmp_path, "windlass.example.org")
    with relayed(tmp_path, echo, tls, pem) as machine:
        script = machine.call()
        payload = os.urandom(3 * MB)
        sender = threading.Thread(target=script.say, args=(payload,))
        sender.start()
        assert script.hear(len(payload)) == payload
        sender.join()
        script.close()


def test_another_certificate_is_not_spoken_to(tmp_path: Path) -> None:
    tls, _ = self_signed(tmp_path, "windlass.example.org")
    _, other = self_signed(tmp_path, "windlass.example.net")
    with relayed(tmp_path, echo, tls, other) as machine:
        script = machine.call()
        script.say(b"GET / HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n")
        assert script.hears_the_end
        script.close()


# ---- who is relayed ----

SAYS_WHERE = Program("import os; print(os.environ.get('WINDLASS_RELAY'))")


def test_a_script_that_is_cut_off_is_told_where_the_relay_is(tmp_path: Path) -> None:
    with relayed(tmp_path) as machine:
        handle = machine.start(SAYS_WHERE)
        machine.wait(handle)
        relay = str(machine.root / "relays" / ID / "relay.sock")
        assert machine.log(handle).decode().splitlines()[-1] == relay


def test_a_script_on_this_computer_calls_by_itself(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    harness.connections.close()
    harness.connections = drivers.open_pool(ServerAddress(ID, "http://127.0.0.1:1", "127.0.0.1", 1))
    handle = harness.start(SAYS_WHERE)
    harness.wait(handle)
    assert harness.log(handle) == b"None\n"
    assert (harness.root / "relays" / ID / "relay.sock").is_socket()  # for its containers
    harness.close()


# ---- a machine that is not what it should be ----


class FakeHostClient:
    """A pipe to nobody: what is said into it is remembered, and counts as answered."""

    what = "box"

    def __init__(self) -> None:
        self.is_open = True
        self.said: list[tuple[dict[str, Any], bytes]] = []

    def ask(self, do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> PendingAnswer:
        if not self.is_open:
            raise TargetUnreachable("closed")
        self.said.append((fields, data))
        answer = PendingAnswer(do, seconds, len(data))
        answer.came.set()
        return answer

    def wait(self, answer: PendingAnswer) -> tuple[dict[str, Any], bytes]:
        return {}, b""

    def send_window(self, most: int) -> int:
        return most

    def ended(self) -> set[int]:
        return {fields["stream"] for fields, _ in self.said if fields.get("end")}


@pytest.fixture
def silent() -> Iterator[Server]:
    """A server that takes connections and reads nothing."""
    go = threading.Event()

    def wait(_: socket.socket) -> None:
        go.wait(PATIENCE)

    server = Server(wait)
    yield server
    go.set()
    server.close()


@pytest.fixture
def stray(silent: Server) -> Iterator[tuple[FakeHostClient, Relay]]:
    pipe = FakeHostClient()
    relay = Relay(pipe, silent.address(), "box")  # type: ignore[arg-type]
    yield pipe, relay
    pipe.is_open = False
    relay.close()


def test_more_lines_than_there_may_be_are_not_connected(stray: tuple[FakeHostClient, Relay], silent: Server) -> None:
    pipe, relay = stray
    for number in range(MAX_CONNECTIONS + 10):
        relay.take({"event": "relay", "stream": number, "new": True}, b"x")
    wait_until(lambda: len(pipe.ended()) == 10, "ten are refused")
    assert pipe.ended() == set(range(MAX_CONNECTIONS, MAX_CONNECTIONS + 10))
    assert len(silent.calls) <= MAX_CONNECTIONS


def test_who_never_answers_is_waited_for(stray: tuple[FakeHostClient, Relay], caplog: pytest.LogCaptureFixture) -> None:
    """Refusals are frames without bytes: there would be no end to them."""
    pipe, relay = stray
    ask, was_waited_for = pipe.ask, threading.Event()

    def unanswered(do: str, data: bytes = b"", seconds: float = 30.0, **fields: Any) -> PendingAnswer:
        answer = ask(do, data, seconds, **fields)
        answer.came.clear()
        return answer

    def wait(answer: PendingAnswer) -> tuple[dict[str, Any], bytes]:
        was_waited_for.set()
        return {}, b""

    pipe.ask, pipe.wait = unanswered, wait  # type: ignore[method-assign]
    for number in range(MAX_CONNECTIONS + 1000):
        relay.take({"event": "relay", "stream": number, "new": True}, b"")
    assert was_waited_for.wait(PATIENCE)
    assert caplog.text.count("too many connections") == 1


def test_more_than_a_window_ends_the_line(stray: tuple[FakeHostClient, Relay]) -> None:
    pipe, relay = stray
    relay.take({"event": "relay", "stream": 1, "new": True}, b"x")
    relay.take({"event": "relay", "stream": 1}, b"x" * (WINDOW + 1))
    wait_until(lambda: pipe.ended() == {1}, "the end of the line")


def test_a_machine_that_goes_on_and_on_is_not_listened_to(stray: tuple[FakeHostClient, Relay]) -> None:
    pipe, relay = stray
    busy, go = threading.Event(), threading.Event()

    def stuck(*_: object, **__: object) -> PendingAnswer:
        busy.set()
        go.wait(PATIENCE)
        raise TargetUnreachable("too late")

    pipe.ask = stuck  # type: ignore[method-assign]
    relay.take({"event": "relay", "stream": 1, "new": True}, b"x" * (2 * WINDOW))  # that ends it, and is told
    assert busy.wait(PATIENCE)
    try:
        with pytest.raises(ProtocolError, match="more than it may"):
            for _ in range(10 * MAX_CONNECTIONS):
                relay.take({"event": "relay", "stream": 1}, b"x" * WINDOW)
    finally:
        go.set()


@pytest.mark.parametrize(
    "word",
    [
        {"stream": 7},
        {"stream": "7"},
        {},
        {"stream": None, "new": True},
        {"stream": 1, "credit": "much"},
        {"stream": 1, "credit": -(10**9)},
        {"stream": 1, "new": True},
        {"stream": [1], "end": 1},
    ],
)
def test_words_that_make_no_sense_harm_nobody(stray: tuple[FakeHostClient, Relay], word: dict[str, Any]) -> None:
    pipe, relay = stray
    relay.take({"event": "relay", "stream": 1, "new": True}, b"x")
    relay.take({"event": "relay", **word}, b"noise")
    relay.take({"event": "relay", "stream": 2, "new": True}, b"x")
    relay.take({"event": "relay", "stream": 2}, b"x" * (2 * WINDOW))
    wait_until(lambda: 2 in pipe.ended(), "the one after it is heard")
    assert pipe.ended() == {2}
