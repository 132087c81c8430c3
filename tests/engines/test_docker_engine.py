"""How we speak to an engine that is not there, not ours to use, deaf, or no engine at all."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engines.dockerd import Dockerd
from tests.runner.conftest import Hosts
from tests.runner.pipe import make_zip, wait_for
from windlass.runner.containers import docker_api


@contextmanager
def answering(path: Path, act: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that listens where an engine should."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            try:
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(1 << 16)
                        act(connection)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield f"unix://{path}"
        listening.shutdown(socket.SHUT_RDWR)


def offered(hosts: Hosts, address: str | None = None, **env: str) -> dict[str, Any]:
    found: dict[str, Any] = hosts(env=env).ask("check", engine=address)[0]["inventory"]["docker"]
    return found


def test_an_engine_says_its_version(hosts: Hosts, dockerd: Dockerd) -> None:
    version = dockerd.docker("version", "--format", "{{.Server.Version}}").stdout
    # A host waits two seconds for an engine, and on a busy machine that may be too little.
    assert wait_for(lambda: offered(hosts, dockerd.address).get("version")) == version
    assert wait_for(lambda: offered(hosts, DOCKER_HOST=dockerd.address).get("version")) == version


def test_a_rootless_engine_is_found(dockerd: Dockerd, tmp_path: Path) -> None:
    (tmp_path / "docker.sock").symlink_to(dockerd.socket)
    found = docker_api.find_socket(None, {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert found in (docker_api.DEFAULT, str(tmp_path / "docker.sock"))  # where this machine has one of its own, that
    (tmp_path / "podman").mkdir()
    (tmp_path / "podman/podman.sock").symlink_to(dockerd.socket)
    (tmp_path / "docker.sock").unlink()
    assert docker_api.find_socket(None, {"XDG_RUNTIME_DIR": str(tmp_path)}) in (
        docker_api.DEFAULT,
        str(tmp_path / "podman/podman.sock"),
    )
    assert docker_api.find_socket("unix:///a", {"DOCKER_HOST": "unix:///b"}) == "/a"
    assert docker_api.find_socket(None, {"DOCKER_HOST": "unix:///b"}) == "/b"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:2375", "ssh://box", "http://x", "unix://relative", "npipe:////x"])
def test_only_sockets_of_this_machine_are_engines(hosts: Hosts, address: str) -> None:
    assert "Unix socket" in offered(hosts, DOCKER_HOST=address)["missing"]


def test_a_missing_engine_says_how_to_install_it(hosts: Hosts, tmp_path: Path) -> None:
    said = offered(hosts, f"unix://{tmp_path}/none.sock", PATH=str(tmp_path))["missing"]
    assert "sudo apt-get install docker.io" in said and f"{tmp_path}/none.sock" in said


@pytest.mark.parametrize("program", ["docker", "dockerd"])
def test_an_engine_that_is_installed_and_does_not_run_says_how_to_start_it(
    hosts: Hosts, tmp_path: Path, program: str
) -> None:
    (tmp_path / program).touch(0o755)
    said = offered(hosts, f"unix://{tmp_path}/none.sock", PATH=str(tmp_path))["missing"]
    assert (
        said == f"Docker does not run on this machine: sudo systemctl start docker (there is no {tmp_path}/none.sock)"
    )


def test_an_engine_that_is_not_ours_to_use_says_how_to_join(hosts: Hosts, dockerd: Dockerd, tmp_path: Path) -> None:
    root = tmp_path / "machine"
    root.mkdir()
    os.chown(root, 12345, 12345)
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent, tmp_path.parent.parent.parent):
        path.chmod(path.stat().st_mode | 0o011)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nexec setpriv --reuid 12345 --regid 12345 --clear-groups /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    host = hosts(python=str(python), program=make_zip(tmp_path / "runner.pyz"))
    with answering(tmp_path / "private.sock", lambda connection: None) as address:
        (tmp_path / "private.sock").chmod(0o600)
        said = host.ask("check", engine=address)[0]["inventory"]["docker"]["missing"]
    assert "sudo usermod -aG docker $USER" in said


def test_what_is_no_engine_is_told_so(hosts: Hosts, tmp_path: Path) -> None:
    with answering(tmp_path / "a.sock", lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9\r\n\r\n")) as address:
        assert "no Docker engine" in offered(hosts, address)["missing"]
    with answering(tmp_path / "b.sock", lambda connection: None) as address:
        assert "broke off" in offered(hosts, address)["missing"]
    with answering(tmp_path / "c.sock", lambda c: c.sendall(b"HTTP/1.0 200 OK\r\n\r\n<html>")) as address:
        assert "not understood" in offered(hosts, address)["missing"]
    with answering(tmp_path / "d.sock", lambda c: c.sendall(b"HTTP/1.0 500 No\r\n\r\nout of order")) as address:
        assert offered(hosts, address)["missing"] == "out of order"
    with answering(tmp_path / "e.sock", lambda c: c.sendall(b"HTTP/1.0 200 OK\r\n\r\n[1]")) as address:
        assert "missing" in offered(hosts, address)


def test_an_engine_that_is_silent_holds_nobody_up(hosts: Hosts, tmp_path: Path) -> None:
    waits = threading.Event()
    with answering(tmp_path / "deaf.sock", lambda _: (waits.wait(30), None)[1]) as address:
        assert "said nothing for 2 s" in offered(hosts, address)["missing"]
        waits.set()


def test_a_refusal_is_heard_though_not_all_was_said(tmp_path: Path) -> None:
    """Which ends the connection roughly."""
    refusal = b'HTTP/1.0 400 No\r\n\r\n{"message": "that is too much"}'
    with answering(tmp_path / "a.sock", lambda connection: connection.sendall(refusal)) as address:
        answer = docker_api.Engine(address).open("POST", "/build", [bytes(1 << 20)] * 4, 4 << 20)
        with pytest.raises(docker_api.EngineRefused, match="too much"):
            list(answer.pieces(5))
        answer.close()


def test_an_engine_whose_server_is_gone(hosts: Hosts, tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert "does not answer" in offered(hosts, f"unix://{path}")["missing"]


@pytest.mark.parametrize("address", ["unix://{folder}/none.sock", "tcp://127.0.0.1:2375"])
def test_a_run_without_an_engine_fails_with_the_line_that_fixes_it(hosts: Hosts, tmp_path: Path, address: str) -> None:
    host = hosts(env={"PATH": str(tmp_path)})
    container = {"engine": address.format(folder=tmp_path), "image": "x"}
    host.start("a.1", ["true"], container=container, environment={"interpreter": "sh"})
    ended = host.wait("a.1")
    assert ended["reason"] == "start_failed"
    assert "apt-get install docker.io" in ended["message"] or "Unix socket" in ended["message"]


@pytest.mark.parametrize(
    "container",
    [{}, [], "x", {"image": 3}, {"image": "a\0b"}, {"image": "x", "env": {"A=B": "c"}}, {"image": "x", "host": []},
     {"image": "x", "env": {"A": "\0"}}, {"image": ""}],
)  # fmt: skip
def test_a_container_that_is_not_understood_is_refused(hosts: Hosts, container: Any) -> None:
    from tests.runner.pipe import RequestRefused

    with pytest.raises(RequestRefused) as refused:
        hosts().start("a.1", ["true"], container=container)
    assert refused.value.code == "invalid"


def test_the_patience_with_an_engine_begins_when_it_is_missed() -> None:
    """However long it has pulled or built before, and however often it went away then."""

    class Away(docker_api.EngineUnreachable):
        patience = 0.3

    answers: list[Exception | None] = [Away(), None]

    def act() -> str:
        answer = answers.pop(0)
        if answer is not None:
            time.sleep(0.5)
            raise answer
        return "done"

    assert docker_api.retry(act, lambda seconds: None) == "done"
    answers[:] = [Away(), Away(), Away(), None]
    assert docker_api.retry(act, lambda seconds: None) == "done"
    answers[:] = [docker_api.NoEngine(), None]
    with pytest.raises(docker_api.NoEngine):  # what is not there at all is not waited for
        docker_api.retry(act, lambda seconds: None)


def test_an_engine_that_broke_off_is_waited_for_without_a_socket() -> None:
    """So there is one, which is being restarted."""

    class Away(docker_api.EngineUnreachable):
        patience = 60.0

    class Impatient(docker_api.EngineUnreachable):
        patience = 0.5

    class Missing(docker_api.NoEngine):
        patience = 0.0

    answers: list[Exception] = [Away(), Missing(), Missing()]

    def act() -> str:
        if answers:
            raise answers.pop(0)
        return "done"

    assert docker_api.retry(act, lambda seconds: time.sleep(0.1)) == "done"
    answers[:] = [Impatient(), *(Missing() for _ in range(20))]
    with pytest.raises(Missing):
        docker_api.retry(act, lambda seconds: time.sleep(0.1))
