"""E24: containers that cannot be meant, or must not be. Nothing is run, and it is said why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.drivers.containers.test_docker_options import OPEN
from tests.inputs.outside import Outside
from tests.inputs.test_submit import refused

IMAGES = {
    "a command": "img;touch {canary}",
    "a substitution": "$(touch {canary})",
    "an option": "--privileged",
    "an option with a value": "-v /:/h",
    "two words": "python 3.11",
    "a newline": "python\n--privileged",
    "capitals": "Python",
    "a short digest": "python@sha256:abc",
    "a digest of another sort": "python@md5:" + "0" * 32,
    "no name": "@sha256:" + "0" * 64,
    "no tag": "python:",
    "an address": "http://example.org/python",
    "up": "../python",
    "empty": "",
    "long": "a" * 5000,
}


@pytest.mark.parametrize("target", ["docker", "local"])
@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_e24_names_that_no_image_has(sqlite: Outside, image: str, target: str) -> None:
    named = image.replace("{canary}", str(sqlite.canary))
    assert "image" in refused(sqlite, 400, target=target, environment={"interpreter": "python3", "image": named})


@pytest.mark.parametrize("arguments", OPEN, ids=" ".join)
def test_e24_options_that_would_open_the_machine(sqlite: Outside, arguments: list[str]) -> None:
    sentence = refused(sqlite, 422, target="docker", container={"arguments": arguments})
    assert "would open the machine" in sentence


CONTAINERS: list[Any] = [
    "docker",
    [],
    3,
    True,
    {"arguments": "--cpus 1"},
    {"arguments": [1]},
    {"arguments": ["--cpus\0"]},
    {"arguments": ["--cpus", "many"]},
    {"arguments": ["-e", "LD_PRELOAD=/x.so"]},
    {"arguments": ["--init"] * 201},
    {"arguments": ["-e", "A=" + "x" * 200_000]},
    {"shm_size_mb": 0},
    {"shm_size_mb": -1},
    {"shm_size_mb": 1 << 40},
    {"shm_size_mb": "2g"},
    {"shm_size_mb": 1.5},
    {"privileged": True},
    {"shared_volumes": "yes"},
]


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda each: repr(each)[:60])
def test_containers_that_cannot_be(sqlite: Outside, container: Any) -> None:
    refused(sqlite, 400, 413, 422, target="docker", container=container)


@pytest.mark.parametrize(
    "environment",
    [{"dockerfile": ""}, {"dockerfile": "RUN true"}, {"dockerfile": "FROM x\0"}, {"dockerfile": "# only a remark"},
     {"dockerfile": "FROM x\n" + "#" * 100_000}, {"dockerfile": "FROM x", "image": "y"}, {"dockerfile": ["FROM x"]}],
    ids=lambda each: repr(each)[:60],
)  # fmt: skip
def test_dockerfiles_that_cannot_be(sqlite: Outside, environment: dict[str, Any]) -> None:
    refused(sqlite, 400, 413, target="docker", environment={"interpreter": "python3", **environment})
