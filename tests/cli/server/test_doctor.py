"""What is wrong is found, with the line that fixes it."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from windlass.cli.server import doctor_checks
from windlass.cli.server.doctor_checks import BAD, GOOD, WARNING


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def test_a_new_machine_is_well(tmp_path: Path) -> None:
    findings = {f.check: f for f in doctor_checks.examine(str(tmp_path / "not" / "yet"))}
    assert len(findings) == len(doctor_checks.ALL)
    for check in ("python", "home", "settings", "token", "server", "lock"):
        assert findings[check].state == GOOD
    assert not (tmp_path / "not").exists()


def test_a_home_open_to_others(home: Path) -> None:
    home.chmod(0o755)
    assert doctor_checks.folder(str(home))[1:] == (BAD, f"{home} can be read by other users", f"chmod 700 {home}")


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert doctor_checks.folder(str(tmp_path / "home")).state == BAD
    assert doctor_checks.folder(str(tmp_path / "home" / "below")).state == BAD


def test_a_token_open_to_others(home: Path) -> None:
    token = home / "token"
    token.write_text("secret")
    token.chmod(0o644)
    assert doctor_checks.token(str(home)).fix == f"chmod 600 {token}"
    token.chmod(0o600)
    assert doctor_checks.token(str(home)).state == GOOD
    token.write_text("")
    assert doctor_checks.token(str(home)).state == BAD


@pytest.mark.parametrize("content", ["{broken", "[]", "\xff"])
def test_broken_settings(home: Path, content: str) -> None:
    (home / "settings.json").write_bytes(content.encode("latin-1"))
    found = doctor_checks.settings(str(home))
    assert found.state == BAD
    assert found.fix.startswith("mv ")


def test_a_broken_project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / ".azureml").mkdir(parents=True)
    config = tmp_path / "project" / ".azureml" / "config.json"
    monkeypatch.chdir(tmp_path / "project")
    config.write_text('{"workspace_name": "vision"}')
    assert doctor_checks.workspace(str(home)).message == f"vision, by {config}"
    config.write_text("{}")
    assert doctor_checks.workspace(str(home)).state == BAD


def test_a_server_that_is_gone(home: Path) -> None:
    said = {"pid": 2**22 + 1, "url": "http://127.0.0.1:1", "version": "0.1.0"}
    (home / "server.json").write_text(json.dumps(said))
    found = doctor_checks.server(str(home))
    assert (found.state, found.fix) == (WARNING, "windlass server start")
    (home / "server.json").write_text("nonsense")
    assert doctor_checks.server(str(home)).state == BAD


def test_a_clock_behind_its_own_files(home: Path) -> None:
    token = home / "token"
    token.write_text("x")
    ahead = token.stat().st_mtime + 86400
    os.utime(token, (ahead, ahead))
    assert doctor_checks.clock(str(home)).state == BAD


def test_tools_that_are_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert doctor_checks.git(str(home)).state == WARNING
    monkeypatch.setattr("sys.executable", str(home / "python"))
    assert "windlass[environments]" in doctor_checks.uv(str(home)).fix


def test_a_start_that_hangs(home: Path) -> None:
    import fcntl

    lock = home / "start.lock"
    lock.write_text("")
    os.utime(lock, (1, 1))
    assert doctor_checks.lock(str(home)).state == GOOD
    with open(lock) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert doctor_checks.lock(str(home)).state == WARNING


def test_machines_need_an_ssh_client(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor_checks.ssh(str(home)).state == GOOD
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor_checks.ssh(str(home))[1:] == (
        WARNING,
        "not found: machines cannot be attached by SSH",
        "sudo apt-get install openssh-client",
    )


class Engine:
    """Answers what it is told to, as often as it is asked, at a socket that has a name."""

    def __init__(self, path: str, answer: bytes) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen()
        self._answer = answer
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Engine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        try:
            while True:
                line, _ = self._socket.accept()
                with line:
                    line.recv(1 << 16)
                    line.sendall(self._answer)
        except OSError:
            pass


NOBODY = 65534


def answer(body: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.fixture
def engine_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket is a short one
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/d.sock")
        monkeypatch.setenv("PATH", str(tmp_path))
        yield f"{folder}/d.sock"


def test_an_engine_that_answers_is_told_with_its_version(engine_path: str) -> None:
    with Engine(engine_path, answer('{"Version": "27.3.1"}')):
        assert doctor_checks.docker("")[1:] == (GOOD, "an engine answers, version 27.3.1", "")


@pytest.mark.parametrize("said", [answer("no JSON"), answer("{}"), answer("[]"), b"", b"220 mail ESMTP\r\n"])
def test_what_is_no_engine_is_told(engine_path: str, said: bytes) -> None:
    with Engine(engine_path, said):
        found = doctor_checks.docker("")
    assert (found.state, found.fix) == (WARNING, "sudo systemctl restart docker")
    assert "does not answer" in found.message


def test_without_an_engine_there_is_the_line_that_brings_one(engine_path: str, tmp_path: Path) -> None:
    found = doctor_checks.docker("")
    assert (found.state, found.fix) == (WARNING, "sudo apt-get install docker.io")
    assert found.message == "not found: runs cannot live in containers"
    (tmp_path / "docker").touch(mode=0o755)
    assert doctor_checks.docker("").fix == "sudo systemctl start docker"


def test_an_engine_elsewhere_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.7:2375")
    assert doctor_checks.docker("").fix == "unset DOCKER_HOST"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may use every socket."""
    before = os.geteuid()
    os.seteuid(before or NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def test_an_account_that_may_not_use_docker_is_told(engine_path: str) -> None:
    with Engine(engine_path, b""):
        os.chmod(engine_path, 0)
        with as_nobody():
            found = doctor_checks.docker("")
    assert "usermod -aG docker" in found.fix
