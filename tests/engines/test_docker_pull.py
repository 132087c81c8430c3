"""Images that are not on the machine come from a registry: once, with progress, and with what `docker login` left."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.engines.box import Box
from tests.engines.images import BUSYBOX
from tests.engines.registry import PASSWORD, USER, gated, registry
from tests.runner.conftest import Hosts
from tests.runner.pipe import wait_for


def push(box: Box, address: str, login: Path | None = None) -> str:
    """An image that is only in that registry; its name."""
    name = f"{address}/team/small-{os.urandom(4).hex()}:1"
    config = ["--config", str(login)] if login is not None else []
    # No other test's image is the same, and not all of it is here already.
    text = f"FROM {BUSYBOX}\nENV FROM_AFAR=1\nRUN head -c 2000000 /dev/urandom >/large # {os.urandom(8).hex()}\n"
    # The engine's builder fails at times while another test removes an image.
    wait_for(lambda: box.engine.docker("build", "--tag", name, "-", stdin=text.encode(), check=False).returncode == 0)
    box.engine.docker(*config, "push", name)
    box.engine.docker("rmi", name)
    return name


def log_in(box: Box, address: str, folder: Path) -> Path:
    login = folder / "login"
    box.engine.docker("--config", str(login), "login", "--username", USER, "--password-stdin", address,
                      stdin=PASSWORD.encode())  # fmt: skip
    return login


def test_an_image_is_pulled_once_and_its_progress_is_seen(box: Box, tmp_path: Path) -> None:
    with registry(tmp_path / "registry") as address:
        name = push(box, address)
        jobs = [f"pull{i}.1" for i in range(3)]
        for job in jobs:
            box.sh(job, "echo $FROM_AFAR", {"image": name})
        for job in jobs:
            assert box.result(job) == ("exited", 0, None), box.build_log(job)
            assert box.host.read(job) == b"1\n"
        logs = [box.build_log(job) for job in jobs]
        assert any(f"Pulling the image {name}." in log and "Status: Downloaded newer image" in log for log in logs)
        assert ": Pull complete" in "".join(logs) and "Downloading" not in "".join(logs)  # of which there are many
    box.sh("later.1", "echo $FROM_AFAR", {"image": name})  # the registry is gone
    assert box.result("later.1") == ("exited", 0, None)
    assert box.build_log("later.1") == ""


@pytest.mark.parametrize("end", ["stopped", "given up", "killed"])
def test_who_pulls_for_nobody_ends(box: Box, tmp_path: Path, end: str) -> None:
    """And nobody takes half an image for a whole one: who waited for it pulls it himself."""
    with registry(tmp_path / "registry") as address, gated(address) as (way, gate):
        name = push(box, address).replace(address, way)
        limit = {"build_limit": 3} if end == "given up" else {}
        box.sh("first.1", "true", {"image": name}, **limit)
        if end == "given up":  # which it may be before, on a slow machine
            assert "not ready within" in box.wait("first.1")["message"]
        else:
            wait_for(lambda: "Pulling from team/" in box.build_log("first.1"), 60)
        if end == "stopped":
            box.host.ask("stop", job="first.1", grace=1)
            assert box.wait("first.1")["reason"] == "stopped"
        elif end == "killed":
            box.host.kill_supervisor("first.1")
            wait_for(lambda: box.host.observe("first.1").get("startable"))
        time.sleep(2)  # in which the engine notices, though nobody can see that; one that does not would go on
        gate.set()
        time.sleep(1)
        assert name not in box.engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout
        box.sh("second.1", "echo $FROM_AFAR", {"image": name})
        assert box.result("second.1") == ("exited", 0, None), box.build_log("second.1")
        assert "Status: Downloaded newer image" in box.build_log("second.1")


def test_an_image_without_a_tag_is_its_latest(box: Box, tmp_path: Path) -> None:
    with registry(tmp_path / "registry") as address:
        name = push(box, address)
        latest = name.rpartition(":")[0]
        box.engine.docker("pull", name)
        box.engine.docker("tag", name, latest)
        box.engine.docker("push", latest)
        box.engine.docker("rmi", name, latest)
        box.sh("latest.1", "echo $FROM_AFAR", {"image": latest})
        assert box.result("latest.1") == ("exited", 0, None), box.build_log("latest.1")
        assert name not in box.engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout


def test_an_image_by_its_digest(box: Box, tmp_path: Path) -> None:
    with registry(tmp_path / "registry") as address:
        name = push(box, address)
        box.engine.docker("pull", name)
        digest = box.engine.docker("inspect", "--format", "{{index .RepoDigests 0}}", name).stdout
        box.engine.docker("rmi", name)
        box.sh("digest.1", "echo $FROM_AFAR", {"image": digest})
        assert box.result("digest.1") == ("exited", 0, None), box.build_log("digest.1")
        wrong = digest.rpartition(":")[0] + ":" + "0" * 64
        box.sh("wrong.1", "true", {"image": wrong})
        ended = box.wait("wrong.1")
        assert (ended["reason"], "could not be pulled" in ended["message"]) == ("environment_failed", True)


def build_and_pull(known: Box, name: str) -> None:
    """Who is let in gets it as the base of an image, and by itself."""
    text = f"FROM {name}\nENV TOO={os.urandom(4).hex()}\n"
    known.sh("base.1", "echo $FROM_AFAR", {"image": None, "dockerfile": text})
    assert known.result("base.1") == ("exited", 0, None), known.build_log("base.1")
    known.engine.docker("rmi", "--force", name)
    known.sh("pull.1", "echo $FROM_AFAR", {"image": name})
    assert known.result("pull.1") == ("exited", 0, None), known.build_log("pull.1")


def test_a_private_image_needs_a_login_on_the_machine(box: Box, hosts: Hosts, tmp_path: Path) -> None:
    with registry(tmp_path / "registry", is_private=True) as address:
        login = log_in(box, address, tmp_path)
        name = push(box, address, login)
        nobody = Box(hosts(env={"DOCKER_CONFIG": str(tmp_path / "nothing")}), box.engine)
        nobody.sh("denied.1", "true", {"image": name})
        ended = nobody.wait("denied.1")
        assert ended["reason"] == "environment_failed"
        assert "docker login" in ended["message"]
        known = Box(hosts(env={"DOCKER_CONFIG": str(login)}), box.engine)
        build_and_pull(known, name)
        known.engine.docker("rmi", "--force", name)
        text = f"ARG BASE={name}\nFROM $BASE\nENV TOO={os.urandom(4).hex()}\n"  # which only the engine finds out
        known.sh("named.1", "echo $FROM_AFAR", {"image": None, "dockerfile": text})
        assert known.result("named.1") == ("exited", 0, None), known.build_log("named.1")
        said = known.build_log("pull.1") + known.build_log("base.1") + str(ended)
        assert PASSWORD not in said
        assert PASSWORD.encode() not in b"".join(
            path.read_bytes() for path in known.host.root.rglob("*") if path.is_file()
        )


@pytest.mark.slow
def test_a_login_may_be_kept_by_a_helper(box: Box, hosts: Hosts, tmp_path: Path) -> None:
    """As on most machines with a desktop: the configuration only names the program."""
    helper = tmp_path / "bin/docker-credential-test"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\necho '{json.dumps({'Username': USER, 'Secret': PASSWORD})}'\n")
    helper.chmod(0o755)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.json").write_text('{"credsStore": "test"}')
    own = {"DOCKER_CONFIG": str(tmp_path / "config")}
    with registry(tmp_path / "registry", is_private=True) as address:
        name = push(box, address, log_in(box, address, tmp_path))
        lost = Box(hosts(env={**own, "PATH": "/usr/bin:/bin"}), box.engine)
        lost.sh("lost.1", "true", {"image": name})
        assert "docker-credential-test" in lost.wait("lost.1")["message"]
        known = Box(hosts(env={**own, "PATH": f"{helper.parent}:/usr/bin:/bin"}), box.engine)
        build_and_pull(known, name)
