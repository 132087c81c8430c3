"""Connections that send nothing, more of them than the server has file descriptors; and a log that does not grow."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import ipaddress
import resource
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.faults.world import World, wait_for
from tests.inputs.outside import API, WS, Outside

DESCRIPTORS = 256
MANY = DESCRIPTORS + 100


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server with few file descriptors, which is not started yet."""
    world = World(tmp_path / "home", tmp_path / "ledger")
    world.ledger.mkdir()
    world.wrapper = ("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh")
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def narrow(world: World) -> Outside:
    world.start_server()
    return Outside(world, "sqlite")


def open_descriptors(outside: Outside) -> int:
    return len(list(Path(f"/proc/{outside.world.server.pid}/fd").iterdir()))


def test_idle_connections_do_not_keep_others_out_and_do_not_fill_the_log(narrow: Outside) -> None:
    before = (narrow.home / "server.log").stat().st_size
    with contextlib.ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(narrow.connect())
        assert narrow.call("GET", f"{API}/health", token=None).kept()["status"] == "ok"
        assert narrow.call("GET", f"{WS}/runs").status == 200
        assert open_descriptors(narrow) < DESCRIPTORS * 3 // 4
    log = (narrow.home / "server.log").read_text()
    assert len(log) - before < 2000 and "Traceback" not in log
    assert log.count("connection limit reached") == 1


def test_connections_with_a_token_stay_when_others_flood_the_server(narrow: Outside) -> None:
    run = narrow.interactive()
    with narrow.connect() as follower, contextlib.ExitStack() as stack:
        head = [
            f"GET {WS}/runs/{run}/stream HTTP/1.1",
            f"Host: 127.0.0.1:{narrow.port}",
            f"Authorization: Bearer {narrow.token}",
        ]
        follower.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        received = follower.recv(1 << 16)
        assert b" 200 " in received
        for _ in range(MANY):
            stack.enter_context(narrow.connect())
        narrow.call("POST", f"{WS}/runs/{run}/end", {"state": "Completed"}).kept()
        while more := follower.recv(1 << 16):  # the stream ends with the run, not before
            received += more
            if b"Completed" in received:
                break
        assert b"Completed" in received


def test_a_server_without_free_descriptors_says_so_once_and_recovers(narrow: Outside) -> None:
    pid = narrow.world.server.pid
    assert narrow.call("GET", f"{API}/health", token=None).status == 200
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, DESCRIPTORS))
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(narrow.connect())
        log = narrow.home / "server.log"
        wait_for("word of it", lambda: "cannot accept connections" in log.read_text())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        assert narrow.call("GET", f"{API}/health", token=None).status == 200
    text = log.read_text()
    assert text.count("cannot accept connections") == 1 and "socket.accept()" not in text


def test_connections_without_a_tls_handshake_do_not_keep_others_out(world: World, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    world.environment = {"WINDLASS_TLS_CERTIFICATE": str(certificate), "WINDLASS_TLS_KEY": str(key)}
    world.start_server()
    outside = Outside(world, "sqlite")
    with contextlib.ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(outside.connect())
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", outside.port, timeout=60, context=context)
        stack.callback(connection.close)
        connection.request("GET", f"{API}/health")
        assert connection.getresponse().status == 200
        assert open_descriptors(outside) < DESCRIPTORS * 3 // 4


def make_certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.key").write_bytes(private)
    return folder / "server.pem", folder / "server.key"


def test_the_log_is_rotated_by_size(world: World) -> None:
    limit = 1 << 16
    world.environment = {"WINDLASS_SERVER_LOG_BYTES": str(limit)}
    world.home.mkdir(mode=0o700)
    log, older = world.home / "server.log", world.home / "server.log.1"
    log.write_text("of an earlier server\n" * 5000)
    world.start_server()
    wait_for("the rotation of what was there", lambda: older.exists() and log.exists())
    assert older.read_text().startswith("of an earlier server\n")
    outside = Outside(world, "sqlite")
    for number in range(3):
        with open(log, "a") as file:
            file.write(f"filler {number}\n" * (limit // 8))
        write_line(outside)
        wait_for("a rotation", lambda: log.exists() and log.stat().st_size < limit)
        assert f"filler {number}\n" in older.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert sorted(path.name for path in world.home.glob("server.log*")) == ["server.log", "server.log.1"]
    outside.call("POST", f"{API}/shutdown").kept()
    wait_for("its end", lambda: world.server.poll() is not None)
    assert "Finished server process" in log.read_text()


def write_line(outside: Outside) -> None:
    """Have the server write a line to its log."""
    with outside.connect() as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        connection.recv(1)
