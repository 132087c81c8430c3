"""A script on a machine that cannot reach the server: the SDK calls through the machine's relay."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.fake_server import FakeServer, answer, serving
from tests.client.runs.test_submitted_run import SOURCES, oldest_python
from windlass.client.http import embedded_server
from windlass.client.http.session import Address, Session
from windlass.core.errors import ServerUnavailable

URL = "https://windlass.example.org:8443"


class FakeRelay:
    """A socket that leads to a server. Not the runner's: no pipe is between."""

    def __init__(self, path: Path, server: FakeServer) -> None:
        self.path = path
        self._server = server
        path.parent.mkdir(parents=True, exist_ok=True)
        self.open()

    def open(self) -> None:
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.getcwd()
        os.chdir(self.path.parent)
        self._listening.bind(self.path.name)
        os.chdir(before)
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                script, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", int(self._server.url.rpartition(":")[2])))
            threading.Thread(target=pump, args=(script, server), daemon=True).start()
            threading.Thread(target=pump, args=(server, script), daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    source.close()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(*[answer({"n": number}) for number in range(5)]) as server:
        yield server


@pytest.fixture
def relay(tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRelay]:
    """A script's surroundings on such a machine."""
    for name in [name for name in os.environ if name.startswith(("WINDLASS_", "AZUREML_"))]:
        monkeypatch.delenv(name)
    made = FakeRelay(tmp_path / "relay.sock", server)
    monkeypatch.setenv("WINDLASS_URL", "http://127.0.0.1:9")  # no server listens there
    monkeypatch.setenv("WINDLASS_RUN_TOKEN", "wr1:token")
    monkeypatch.setenv("WINDLASS_RELAY", str(made.path))
    yield made
    made.close()


def test_a_call_goes_through_the_relay_to_the_server_by_its_name(relay: FakeRelay, server: FakeServer) -> None:
    (relay.path.parent / "url").write_text(URL)
    session = embedded_server._new_session("unused")
    assert session.call("GET", "/x") == {"n": 0}
    assert session.call("GET", "/x") == {"n": 1}
    assert [request.headers["host"] for request in server.requests] == ["windlass.example.org:8443"] * 2
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer wr1:token"}
    assert {request.connection for request in server.requests} == {1}  # it is kept
    session.close()


@pytest.mark.parametrize("content", [None, "", "not an address\r\nHost: evil", "ftp://x"])
def test_without_a_valid_url_file_the_host_is_that_of_windlass_url(
    relay: FakeRelay, server: FakeServer, content: str | None
) -> None:
    if content is not None:
        (relay.path.parent / "url").write_text(content)
    session = embedded_server._new_session("unused")
    assert session.call("GET", "/x") == {"n": 0}
    assert server.requests[0].headers["host"] == "127.0.0.1:9"
    session.close()


def test_a_server_that_comes_back_under_another_name_is_called_by_that(relay: FakeRelay, server: FakeServer) -> None:
    (relay.path.parent / "url").write_text("http://127.0.0.1:1111")
    session = embedded_server._new_session("unused")
    assert session.call("GET", "/x") == {"n": 0}
    relay.close()
    server.drop_connections()
    relay.path.unlink()
    (relay.path.parent / "url").write_text("http://127.0.0.1:2222")
    threading.Timer(0.2, relay.open).start()
    assert session.call("GET", "/x") == {"n": 1}
    assert [request.headers["host"] for request in server.requests] == ["127.0.0.1:1111", "127.0.0.1:2222"]
    session.close()


def test_a_path_that_is_longer_than_the_address_of_a_socket(tmp_path: Path, server: FakeServer) -> None:
    relay = FakeRelay(tmp_path / ("long" * 40) / "relay.sock", server)
    session = Session(lambda: Address(URL, "t", relay=str(relay.path)))
    assert session.call("GET", "/x") == {"n": 0}
    session.close()
    relay.close()


def test_a_relay_that_nobody_serves_is_told_in_a_sentence(tmp_path: Path) -> None:
    session = Session(lambda: Address(URL, "t", relay=str(tmp_path / "relay.sock")), 0.1, 0.1)
    with pytest.raises(ServerUnavailable, match="cannot be reached from this machine now: No such file") as caught:
        session.call("GET", "/x")
    assert "calls this machine again" in caught.value.hint


def test_a_script_waits_longer_for_a_network_than_for_a_server(
    relay: FakeRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert embedded_server._new_session("unused").first_retry_seconds == embedded_server.RELAY_RETRY_SECONDS
    monkeypatch.delenv("WINDLASS_RELAY")
    assert embedded_server._new_session("unused").first_retry_seconds == embedded_server.SCRIPT_RETRY_SECONDS


OLD = "from windlass.client.http import embedded_server; print(embedded_server.session().call('GET', '/x'))"


def test_an_old_python_calls_through_the_relay(relay: FakeRelay) -> None:
    done = subprocess.run(
        [oldest_python(), "-W", "error", "-c", OLD],
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{'n': 0}\n", "")
