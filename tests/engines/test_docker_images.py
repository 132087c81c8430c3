"""Where images come from: there, not to be had, built from a Dockerfile, or from another one and packages."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pip
import pytest

from tests.channels import Channel
from tests.company import INDEX_PASSWORD, PROXY_PASSWORD, Company
from tests.engines.between import between
from tests.engines.box import BUILD_LOG, Box
from tests.engines.images import BUSYBOX, PYTHON
from tests.engines.registry import registry
from tests.engines.test_docker_engine import answering
from tests.engines.test_docker_pull import push
from tests.indexes import PackageIndex
from tests.runner.conftest import Hosts
from tests.runner.environments.test_rattler import wishing
from tests.runner.pipe import wait_for
from tests.wheels import make_wheel
from windlass.runner.containers import dockerfile

UV = str(Path(sys.executable).with_name("uv"))


def send_wheel(box: Box, folder: Path, name: str, body: str = "") -> str:
    """The requirement that names a wheel which came with the run."""
    path = make_wheel(folder, name, "1.0", body or "version = '1.0'\n")
    data = path.read_bytes()
    box.host.put(data)
    return f"wheel:{hashlib.sha256(data).hexdigest()}/{len(data)}/{path.name}"


def packages(*pip: str, **more: Any) -> dict[str, Any]:
    wishes = {"interpreter": None, "pip": list(pip), "pip_options": ["--no-index"], "conda": [], "channels": []}
    return {**wishes, "python_version": None, **more}


def unique(text: str) -> str:
    """A Dockerfile that nobody has built before."""
    return f"{text}\nLABEL unique={os.urandom(8).hex()}\n"


def endless(mark: str) -> str:
    """A Dockerfile whose building says "begun" when it has: its text does not."""
    return f"FROM {BUSYBOX}\nRUN echo be''gun && sleep 600 # {mark}\n"


def all_of(box: Box, mark: str) -> list[str]:
    """The containers of a building, also those that have ended."""
    listed = box.engine.docker("ps", "--all", "--format", "{{.Names}} {{.Command}}", "--no-trunc").stdout.splitlines()
    return [line for line in listed if mark in line]


@pytest.fixture
def pip_image(box: Box, tmp_path: Path) -> str:
    """The test's image with pip, which Debian keeps apart."""
    folder = tmp_path / "context"
    shutil.copytree(Path(pip.__file__).parent, folder / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "Dockerfile").write_text(f"FROM {PYTHON}\nCOPY pip /usr/lib/python3/dist-packages/pip\n")
    # Two workers who build it at once get two images, and a name that they share would become another one.
    name = f"windlass-test/pip:{os.urandom(4).hex()}"
    box.engine.docker("build", "--tag", name, str(folder))
    return name


def test_an_image_that_cannot_be_had_is_told_with_what_to_do(box: Box) -> None:
    box.sh("absent.1", "true", {"image": "127.0.0.1:1/no/such:1"})
    ended = box.wait("absent.1")
    assert ended["reason"] == "environment_failed"
    assert "127.0.0.1:1/no/such:1 is not on this machine and could not be pulled" in ended["message"]
    assert "refused" in ended["message"] and "docker login" in ended["message"]
    assert "Pulling the image" in box.build_log("absent.1")


def test_a_dockerfile_is_built_once_and_used_until_it_changes(box: Box) -> None:
    text = unique(f"FROM {BUSYBOX}\nRUN echo made-here > /made")
    box.sh("first.1", "cat /made", {"image": None, "dockerfile": text})
    assert box.result("first.1") == ("exited", 0, None), box.build_log("first.1")
    assert box.host.read("first.1") == b"made-here\n"
    assert "RUN echo made-here" in box.build_log("first.1") and "The image is ready." in box.build_log("first.1")
    before = _known(box)
    container = box.container(None, dockerfile=text)
    files = {"unused.txt": b"which it does not copy"}
    box.host.start("second.1", ["cat", "/made"], files, container=container, environment={"interpreter": "sh"})
    assert box.result("second.1") == ("exited", 0, None)
    assert box.build_log("second.1") == ""
    assert _known(box) == before
    box.sh("third.1", "cat /made", {"image": None, "dockerfile": text.replace("made-here", "made-anew")})
    assert box.result("third.1") == ("exited", 0, None)
    assert box.host.read("third.1") == b"made-anew\n"


def test_a_dockerfile_copies_from_the_snapshot(box: Box) -> None:
    text = unique(f"FROM {BUSYBOX}\nCOPY data/ /data/\nCOPY start.sh /\n")
    container = box.container(None, dockerfile=text)
    run: dict[str, Any] = {"container": container, "environment": {"interpreter": "sh"}}
    files = {"data/a.txt": b"one", "start.sh": b"#!/bin/sh\ncat /data/a.txt\n"}
    box.host.start("copy.1", ["/start.sh"], files, **run)
    assert box.result("copy.1") == ("exited", 0, None), box.build_log("copy.1")
    assert box.host.read("copy.1") == b"one"
    box.host.start("changed.1", ["/start.sh"], {**files, "data/a.txt": b"two"}, **run)
    assert box.result("changed.1") == ("exited", 0, None)
    assert box.host.read("changed.1") == b"two"


@pytest.mark.parametrize("name", [".windlass/Dockerfile", "Dockerfile", ".windlass"])
def test_no_file_of_the_snapshot_is_taken_for_the_dockerfile(box: Box, name: str) -> None:
    text = unique(f"FROM {BUSYBOX}\nCOPY . /all/\nRUN echo ours > /whose\n")
    container = box.container(None, dockerfile=text)
    files = {name: f"FROM {BUSYBOX}\nRUN echo theirs > /whose\n".encode()}
    command = ["sh", "-c", f"cat /whose; head -n 2 /all/{name}"]
    box.host.start("mine.1", command, files, container=container, environment={"interpreter": "sh"})
    assert box.result("mine.1") == ("exited", 0, None), box.build_log("mine.1")
    assert box.host.read("mine.1") == b"ours\n" + files[name]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM {base}\n\n# why\nRUN echo fine && \\\n  false\n", ["line 4 of the Dockerfile: RUN echo", "code: 1"]),
        ("FROM {base}\nRUNN true\n", ["RUNN"]),
        ("FROM {base}\nCOPY absent.txt /\n", ["line 2 of the Dockerfile", "absent.txt"]),
        ("FROM 127.0.0.1:1/no/such\n", ["The image 127.0.0.1:1/no/such", "could not be pulled", "refused"]),
        ("ARG X=127.0.0.1:1/no/such\nFROM $X\n", ["line 2 of the Dockerfile", "refused"]),
        ("RUN true\n", ["could not be built", "no build stage"]),
    ],
    ids=["failing step", "unknown instruction", "missing file", "missing base", "missing variable base", "no base"],
)  # fmt: skip
def test_a_broken_dockerfile_is_told_with_its_line(box: Box, text: str, words: list[str]) -> None:
    box.sh("broken.1", "true", {"image": None, "dockerfile": text.format(base=BUSYBOX)})
    ended = box.wait("broken.1")
    assert ended["reason"] == "environment_failed"
    for word in words:
        assert word in ended["message"]
    assert ended["message"].splitlines()[0] in box.build_log("broken.1")


def test_a_step_that_fails_leaves_no_container(box: Box) -> None:
    mark = os.urandom(8).hex()
    box.sh("broken.1", "true", {"image": None, "dockerfile": f"FROM {BUSYBOX}\nRUN false # {mark}\n"})
    assert mark in box.wait("broken.1")["message"]
    assert not all_of(box, mark)


def test_credentials_in_a_dockerfile_are_not_told(box: Box) -> None:
    canary = "c4n4ry-of-a-dockerfile"
    text = unique(f"FROM {BUSYBOX}\nRUN echo see https://user:{canary}@127.0.0.1/ && false")
    box.sh("told.1", "true", {"image": None, "dockerfile": text})
    ended = box.wait("told.1")
    assert ended["reason"] == "environment_failed"
    assert "see https://***@127.0.0.1/" in box.build_log("told.1")
    assert canary not in box.build_log("told.1") + ended["message"]


@pytest.mark.parametrize("network", ["none", "host"])
def test_images_are_built_in_the_network_of_the_run(box: Box, network: str) -> None:
    text = f"FROM {BUSYBOX}\nRUN echo $(ls /sys/class/net) > /seen # {os.urandom(8).hex()}\n"
    box.sh("net.1", "cat /seen", {"image": None, "dockerfile": text, "host": {"NetworkMode": network}})
    assert box.result("net.1") == ("exited", 0, None), box.build_log("net.1")
    is_alone = box.host.read("net.1") == b"lo\n"
    assert is_alone == (network == "none" or os.listdir("/sys/class/net") == ["lo"])


def test_a_base_that_no_image_can_be_called(box: Box) -> None:
    box.sh("odd.1", "true", {"image": None, "dockerfile": "FROM bäse:1\n"})
    ended = box.wait("odd.1")
    assert (ended["reason"], "invalid reference" in ended["message"]) == ("environment_failed", True), ended["message"]
    run = {"container": box.container("bäse:1"), "environment": {"interpreter": "python3"}}
    assert not box.host.ask("is_prepared", run=run)[0]["prepared"]


def test_five_runs_share_one_building(box: Box, tmp_path: Path) -> None:
    need = send_wheel(box, tmp_path, f"once{os.urandom(4).hex()}")
    name = need.rpartition("/")[2].partition("-")[0]
    environment = packages(need)
    jobs = [f"five{i}.1" for i in range(5)]
    for job in jobs:
        box.python(job, f"import {name}; print({name}.version)", environment=environment, tools={"uv": UV})
    for job in jobs:
        assert box.result(job) == ("exited", 0, None), box.build_log(job)
        assert box.host.read(job) == b"1.0\n"
    logs = [box.build_log(job) for job in jobs]
    assert sum("Building an image on" in log for log in logs) == len([log for log in logs if log])
    built = {line for log in logs for line in log.splitlines() if "Installing for the Python" in line}
    assert len(built) == 1
    [digest] = {path.stem for path in (box.host.root / "images").glob("*.json")}
    assert (box.host.root / "images" / f"{digest}.log").read_text().count("Building an image on") == 1
    assert not box.builders()


@pytest.mark.parametrize("installer", ["uv of the machine", "pip of the image"])
def test_packages_are_installed_into_the_image(box: Box, pip_image: str, tmp_path: Path, installer: str) -> None:
    name = f"tiny{os.urandom(4).hex()}"
    environment = packages(send_wheel(box, tmp_path, name), "azureml-core==1.0")
    is_uv = installer.startswith("uv")
    tools = {"uv": UV} if is_uv else {}
    image = PYTHON if is_uv else pip_image
    script = f"import {name}, sys; print({name}.version, sys.executable)"
    box.python("pack.1", script, {"image": image}, environment=environment, tools=tools)
    assert box.result("pack.1") == ("exited", 0, None), box.build_log("pack.1")
    assert box.host.read("pack.1") == b"1.0 /usr/bin/python3\n"
    assert "azureml-core==1.0 is not installed: windlass provides it." in box.build_log("pack.1")
    box.python("pack.2", script, {"image": image}, environment=environment, tools=tools)
    assert box.result("pack.2") == ("exited", 0, None)
    assert box.build_log("pack.2") == ""


def wait_until_prepared(box: Box, run: dict[str, Any]) -> None:
    """A host waits two seconds for an engine, and says no if that was too little."""
    wait_for(lambda: box.host.ask("is_prepared", run=run)[0]["prepared"])


def retag(box: Box, name: str, which: str) -> None:
    """The same name becomes another image."""
    box.engine.docker("build", "--tag", name, "-", stdin=f"FROM {PYTHON}\nRUN echo {which} > /which\n".encode())


def test_packages_are_installed_anew_when_a_name_becomes_another_image(box: Box, tmp_path: Path) -> None:
    name = f"windlass-test/moving:{os.urandom(4).hex()}"
    environment = packages(send_wheel(box, tmp_path, f"moved{os.urandom(4).hex()}"))
    run = {"container": box.container(name), "environment": environment}
    for which in ("one", "two"):
        retag(box, name, which)
        assert not box.host.ask("is_prepared", run=run)[0]["prepared"]
        for job in (f"{which}.1", f"{which}again.1"):
            box.python(job, "print(open('/which').read())", {"image": name}, environment=environment, tools={"uv": UV})
            assert box.result(job) == ("exited", 0, None), box.build_log(job)
            assert box.host.read(job).split() == [which.encode()]
        assert box.build_log(f"{which}again.1") == ""
        wait_until_prepared(box, run)
    assert name in box.engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout


def test_a_dockerfile_is_built_anew_when_its_base_becomes_another_image(box: Box) -> None:
    name = f"windlass-test/moving:{os.urandom(4).hex()}"
    text = unique(f"FROM {name} AS first\nFROM first\nENV X=1")
    container = box.container(None, dockerfile=text)
    for which in ("one", "two"):
        retag(box, name, which)
        assert not box.host.ask("is_prepared", run={"container": container, "environment": {"interpreter": "sh"}})[0][
            "prepared"
        ]
        box.sh(f"{which}.1", "cat /which", container)
        assert box.result(f"{which}.1") == ("exited", 0, None), box.build_log(f"{which}.1")
        assert box.host.read(f"{which}.1").split() == [which.encode()]


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("FROM a:1", ["a:1"]),
        ("from a AS one\nFROM b\nFROM One\nFROM scratch\nFROM a", ["a", "b"]),
        ("ARG V=1\nFROM a:$V\nFROM --platform=linux/arm64 b\nFROM c", ["c"]),
        ("RUN true", []),
    ],
)
def test_the_images_that_a_dockerfile_begins_with(text: str, bases: list[str]) -> None:
    assert dockerfile.plain_bases_of(text) == bases


def test_comparisons_of_python_hold_for_the_image(box: Box, tmp_path: Path) -> None:
    need = send_wheel(box, tmp_path, f"held{os.urandom(4).hex()}")
    for job, wanted in (("held.1", ">=3.8,<4"), ("other.1", "<3.8")):
        box.python(job, "print('ran')", environment=packages(need, python_version=wanted), tools={"uv": UV})
    assert box.result("held.1") == ("exited", 0, None), box.build_log("held.1")
    ended = box.wait("other.1")
    assert ended["reason"] == "environment_failed"
    assert f"The image {PYTHON} has Python 3." in ended["message"] and "and <3.8 is asked for" in ended["message"]
    assert not box.builders()


@pytest.mark.parametrize("has_packages", [True, False])
def test_another_python_than_that_of_the_image_is_refused(box: Box, tmp_path: Path, has_packages: bool) -> None:
    needs = [send_wheel(box, tmp_path, f"refused{os.urandom(4).hex()}")] if has_packages else []
    box.python("refused.1", "print('ran')", environment=packages(*needs, python_version="3.99"), tools={"uv": UV})
    ended = box.wait("refused.1")
    assert ended["reason"] == "environment_failed"
    assert f"The image {PYTHON} has Python 3." in ended["message"] and "and 3.99 is asked for" in ended["message"]
    assert not box.builders()


def test_a_python_that_the_image_has_needs_no_packages(box: Box) -> None:
    box.python("found.1", "import sys; print('%d.%d' % sys.version_info[:2])", environment=packages())
    assert box.result("found.1") == ("exited", 0, None), box.build_log("found.1")
    minor = box.host.read("found.1").decode().strip()
    box.python("same.1", "print('ran')", environment=packages(python_version=minor))
    assert box.result("same.1") == ("exited", 0, None), box.wait("same.1")
    box.python("dated.1", "print('ran')", environment=packages(python_version="3.6.2"))
    assert box.result("dated.1") == ("exited", 0, None), box.build_log("dated.1")
    assert "python 3.6.2 → 3." in box.build_log("dated.1")


def test_a_release_without_a_wheel_is_replaced_in_an_image_too(box: Box, tmp_path: Path) -> None:
    name = f"olden{os.urandom(4).hex()}"
    with PackageIndex.served(tmp_path) as index:
        index.add(name, "1.0", "2018-01-01", python="cp36")
        index.add(name, "1.2", "2025-03-01")
        index.add(name, "2.0", "2025-06-01")
        wish = {**packages(f"{name}==1.0"), "pip_options": [f"--index-url {index.url}"]}
        run: dict[str, Any] = {"more": {"host": {"NetworkMode": "host"}}, "tools": {"uv": UV}}
        for job in ("first.1", "second.1"):
            box.python(job, f"import {name}; print({name}.version)", environment=wish, **run)
            assert box.result(job) == ("exited", 0, None), box.build_log(job)
            assert box.host.read(job) == b"1.2\n"
            told = box.host.properties(job)[f"replaced.{name}"]
            assert told.startswith(f"{name}==1.0 → 1.2 (no wheel for Python 3.")
        assert told in box.build_log("first.1") and box.build_log("second.1") == ""
        box.python("strict.1", "print('ran')", environment={**wish, "strict": True}, **run)
        assert f"{name}==1.0 has no wheel for Python 3." in box.wait("strict.1")["message"]


@pytest.mark.parametrize("network", ["none", "host"])
def test_packages_are_had_as_the_machine_has_them(box: Box, hosts: Hosts, tmp_path: Path, network: str) -> None:
    """By the proxy that is set there, in the network of the run."""
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\n[ "$1" = --version ] && exit\necho "by $HTTPS_PROXY in" $(ls /sys/class/net); exit 1\n')
    uv.chmod(0o755)
    box = Box(hosts(env={"HTTPS_PROXY": "http://proxy.example:3128"}), box.engine)
    host = {"NetworkMode": network}
    box.python("way.1", "pass", {"host": host}, environment=packages("way"), tools={"uv": str(uv)})
    said = box.wait("way.1")["message"].splitlines()
    assert said[0].startswith("by http://proxy.example:3128 in ")
    is_alone = said[0].endswith(" in lo")
    assert is_alone == (network == "none" or os.listdir("/sys/class/net") == ["lo"])


@pytest.mark.parametrize("installer", ["uv of the machine", "pip of the image"])
def test_packages_come_from_the_index_of_a_company(
    box: Box, hosts: Hosts, pip_image: str, tmp_path: Path, installer: str
) -> None:
    """By its proxy; whom to trust is named by a variable of the machine, and the file is seen in the container."""
    is_uv = installer.startswith("uv")
    with Company.made(tmp_path / "company", "127.0.0.1") as company:
        trusted = {**dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE", "NO_PROXY", "no_proxy"), "")}
        known = {"REQUESTS_CA_BUNDLE": str(company.certificates), "UV_DEFAULT_INDEX": company.index}
        there = Box(hosts(env={**trusted, **known, "HTTPS_PROXY": company.proxy}), box.engine)
        wish = {**packages("tiny==1.0"), "pip_options": [], "python_version": None}
        container = {"image": PYTHON if is_uv else pip_image, "host": {"NetworkMode": "host"}}
        script = f"import tiny; print(tiny.version) # {os.urandom(8).hex()}"
        there.python("far.1", script, container, environment=wish, tools={"uv": UV} if is_uv else {})
        assert there.result("far.1") == ("exited", 0, None), there.build_log("far.1")
        assert company.connected and company.fetched
        assert INDEX_PASSWORD not in there.build_log("far.1") and PROXY_PASSWORD not in there.build_log("far.1")


def test_a_dockerfile_gets_the_proxies_and_the_indexes_that_it_asks_for(box: Box, hosts: Hosts) -> None:
    proxy = "http://someone:c4n4ry@proxy.example:3128"
    known = {"HTTPS_PROXY": proxy, "PIP_INDEX_URL": "https://index.example/simple", "PIP_TRUSTED_HOST": "index.example"}
    there = Box(hosts(env=known), box.engine)
    text = f"FROM {BUSYBOX}\nARG PIP_INDEX_URL\nRUN env | sort > /seen # {os.urandom(8).hex()}\n"
    there.sh("args.1", "cat /seen; env", {"image": None, "dockerfile": text})
    assert there.result("args.1") == ("exited", 0, None), there.build_log("args.1")
    seen, _, kept = there.host.read("args.1").decode().partition("SHLVL")
    assert kept and f"HTTPS_PROXY={proxy}\n" in seen and "PIP_INDEX_URL=https://index.example/simple\n" in seen
    assert "PIP_TRUSTED_HOST" not in seen, "no ARG asks for it"
    assert "c4n4ry" not in there.build_log("args.1")


def test_what_an_installation_prints_is_not_taken_for_the_version_of_python(box: Box, tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "Installing for the Python of the image, 2.7.18."\n')
    uv.chmod(0o755)
    environment = packages(f"sly{os.urandom(4).hex()}", python_version="<3")
    box.python("sly.1", "pass", environment=environment, tools={"uv": str(uv)})
    ended = box.wait("sly.1")
    assert (ended["reason"], "has Python 3." in ended["message"]) == ("environment_failed", True), ended["message"]


def test_a_version_of_setuptools_that_conda_lists_is_asked_for(box: Box) -> None:
    """Its pip is the image's own, if it has one."""
    environment = packages(conda=["pip", "setuptools=58"])
    box.python("tools.1", "print('ran')", environment=environment, tools={"uv": UV})
    ended = box.wait("tools.1")
    assert ended["reason"] == "environment_failed"
    assert "setuptools==58" in ended["message"] and "pip" not in ended["message"]  # there is no index


def test_packages_are_installed_by_a_root_of_few_rights(box: Box, tmp_path: Path) -> None:
    """What is built from source runs code of its own."""
    uv = tmp_path / "uv"
    uv.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit\ngrep -e CapEff -e NoNewPrivs /proc/self/status; sleep 600\n'
    )
    uv.chmod(0o755)
    box.python("rights.1", "pass", environment=packages(f"few{os.urandom(4).hex()}"), tools={"uv": str(uv)})
    wait_for(lambda: "NoNewPrivs" in box.build_log("rights.1"), 60)
    [name] = wait_for(lambda: box.builders("status=running"))  # which the engine says just after
    assert box.inspect(name)["HostConfig"]["PidsLimit"] == 4096
    said = dict(line.split(":\t") for line in box.build_log("rights.1").splitlines() if ":\t" in line)
    chown, dac_override, fowner = 1 << 0, 1 << 1, 1 << 3
    assert (int(said["CapEff"], 16), said["NoNewPrivs"]) == (chown | dac_override | fowner, "1")
    box.host.ask("stop", job="rights.1", grace=0)
    box.wait("rights.1")


def test_an_image_with_pip_needs_no_uv(box: Box, hosts: Hosts, pip_image: str, tmp_path: Path) -> None:
    """Not even where the sender has one that does not run here, and none can be had from anywhere."""
    away = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1"}
    box = Box(hosts(env=away), box.engine)
    name = f"tiny{os.urandom(4).hex()}"
    uv = {"digest": "0" * 64, "size": 1, "platform": "another one"}
    environment = packages(send_wheel(box, tmp_path, name))
    box.python("pip.1", f"import {name}", {"image": pip_image}, environment=environment, tools={"uv": uv})
    assert box.result("pip.1") == ("exited", 0, None), box.build_log("pip.1")
    assert not os.listdir(box.host.root / "tools")


def test_nothing_that_only_the_building_needs_is_kept_in_the_image(box: Box, tmp_path: Path) -> None:
    """People put passwords into addresses of package indexes."""
    canary = "c4n4ry-of-an-index"
    environment = packages(send_wheel(box, tmp_path, f"kept{os.urandom(4).hex()}"))
    environment["pip_options"] += ["--extra-index-url", f"https://user:{canary}@127.0.0.1:1/simple"]
    box.python("kept.1", "pass", environment=environment, tools={"uv": UV})
    assert box.result("kept.1") == ("exited", 0, None), box.build_log("kept.1")
    [reference] = [read["reference"] for read in _known(box)]
    assert canary not in box.engine.docker("inspect", reference).stdout + box.engine.docker("history", reference).stdout
    packed = tmp_path / "image.tar"
    box.engine.docker("save", "--output", str(packed), reference)
    assert canary.encode() not in packed.read_bytes()
    assert canary not in box.build_log("kept.1")


def _known(box: Box) -> list[dict[str, Any]]:
    import json

    return [json.loads(path.read_text()) for path in (box.host.root / "images").glob("*.json")]


@pytest.mark.parametrize(
    ("image", "pip", "word"),
    [
        (BUSYBOX, "six", "has no Python"),
        (PYTHON, "six", "has no pip"),
        (PYTHON, "no-such-package-anywhere", "no-such-package-anywhere"),
    ],
    ids=["no Python", "no installer", "no package"],
)
def test_what_cannot_be_installed_is_told(box: Box, hosts: Hosts, image: str, pip: str, word: str) -> None:
    tools = {"uv": UV} if pip.startswith("no-such") else {}
    box = Box(hosts(env={"PATH": "/usr/bin:/bin"}), box.engine)
    box.python("lack.1", "pass", {"image": image}, environment=packages(pip), tools=tools)
    ended = box.wait("lack.1")
    assert (ended["reason"], word in ended["message"]) == ("environment_failed", True), ended["message"]
    assert not box.builders()


@pytest.mark.parametrize("files", [0, 40], ids=["without files", "with many"])
def test_a_run_that_is_stopped_stops_its_building(box: Box, files: int) -> None:
    mark = os.urandom(8).hex()
    text = endless(mark).replace("RUN", "COPY . /all\nRUN") if files else endless(mark)
    run = {"container": box.container(None, dockerfile=text), "environment": {"interpreter": "sh"}}
    box.host.start("slow.1", ["true"], {f"{number}": os.urandom(1 << 20) for number in range(files)}, **run)
    wait_for(lambda: "begun" in box.build_log("slow.1"), 60)
    seen = box.host.observe("slow.1")
    assert seen["stage"] == "Preparing" and seen["message"].startswith("building the image")
    assert all_of(box, mark)
    box.host.ask("stop", job="slow.1", grace=1)
    assert box.wait("slow.1")["reason"] == "stopped"
    wait_for(lambda: not all_of(box, mark), 60)


@pytest.mark.slow
def test_a_dockerfile_that_talks_without_end_is_broken_off(box: Box) -> None:
    mark = os.urandom(8).hex()
    text = endless(mark).replace("sleep", "yes")
    box.sh("loud.1", "true", {"image": None, "dockerfile": text})
    ended = box.host.wait("loud.1", 300)
    assert (ended["reason"], "printed more than 64 MB" in ended["message"]) == ("environment_failed", True), ended
    wait_for(lambda: not all_of(box, mark), 60)


def test_and_so_is_an_installation_in_an_image(box: Box, tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\n[ "$1" = --version ] || exec yes {"what " * 200}\n')
    uv.chmod(0o755)
    box.python("loud.1", "pass", environment=packages(f"loud{os.urandom(4).hex()}"), tools={"uv": str(uv)})
    ended = box.wait("loud.1")
    assert (ended["reason"], "printed more than 64 MB" in ended["message"]) == ("environment_failed", True), ended
    assert not box.builders()


def test_a_building_that_never_ends_is_given_up(box: Box) -> None:
    mark = os.urandom(8).hex()
    box.sh("endless.1", "true", {"image": None, "dockerfile": endless(mark)}, build_limit=5)
    ended = box.wait("endless.1")
    assert (ended["reason"], "not ready within" in ended["message"]) == ("environment_failed", True), ended["message"]
    wait_for(lambda: not all_of(box, mark), 60)


def test_a_building_ends_with_the_supervisor(box: Box) -> None:
    mark = os.urandom(8).hex()
    box.sh("orphan.1", "true", {"image": None, "dockerfile": endless(mark)})
    wait_for(lambda: "begun" in box.build_log("orphan.1") and all_of(box, mark), 60)
    box.host.kill_supervisor("orphan.1")
    wait_for(lambda: not all_of(box, mark), 60)


def test_a_run_is_stopped_while_its_files_go_to_the_engine(box: Box, tmp_path: Path) -> None:
    """To one that takes them slowly."""
    text = f"FROM {BUSYBOX}\nCOPY . /all\n"
    taken = []

    def take_slowly(asking: socket.socket) -> bytes:
        while data := asking.recv(1 << 12):
            taken.append(len(data))
            time.sleep(0.01)
        return b""

    with between(
        box.engine, tmp_path / "engine.sock", lambda line: take_slowly if b"/build" in line else None
    ) as engine:
        run = {"container": box.container(None, dockerfile=text, engine=engine), "environment": {"interpreter": "sh"}}
        box.host.start("slow.1", ["true"], {"large": os.urandom(40 << 20)}, **run)
        wait_for(lambda: taken, 60)
        box.host.ask("stop", job="slow.1", grace=1)
        assert box.host.wait("slow.1", 40)["reason"] == "stopped"
    assert sum(taken) < 20 << 20


@pytest.mark.parametrize("end", ["stopped", "given up", "killed and stopped", "killed and cleaned up"])
def test_no_installation_outlives_its_run(box: Box, tmp_path: Path, end: str) -> None:
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo begun; sleep 600; }\n')
    uv.chmod(0o755)
    run: dict[str, Any] = {"build_limit": 5} if end == "given up" else {}
    box.python("pack.1", "pass", environment=packages(f"no{os.urandom(4).hex()}"), tools={"uv": str(uv)}, **run)
    if end != "given up":  # which it may be before
        wait_for(lambda: "begun" in box.build_log("pack.1") and box.builders("status=running"), 60)
    if end.startswith("killed"):
        box.host.kill_supervisor("pack.1")
        wait_for(lambda: box.host.observe("pack.1").get("startable"))
    if end.endswith("stopped"):
        box.host.ask("stop", job="pack.1", grace=1)
        assert box.wait("pack.1")["reason"] == "stopped"
    elif end == "given up":
        assert box.wait("pack.1")["reason"] == "environment_failed"
    else:
        box.host.clean("pack.1")
    wait_for(lambda: not box.builders(), 60)


def test_a_builder_that_was_killed_is_replaced(box: Box, tmp_path: Path) -> None:
    """Its container is still there, and in the way."""
    name = f"slow{os.urandom(4).hex()}"
    need = send_wheel(box, tmp_path, name)
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo begun; sleep 600; }\n')
    uv.chmod(0o755)
    environment = packages(need)
    box.python("killed.1", f"import {name}", environment=environment, tools={"uv": str(uv)})
    wait_for(lambda: "begun" in box.build_log("killed.1") and box.builders("status=running"), 60)
    box.host.kill_supervisor("killed.1")
    wait_for(lambda: box.host.observe("killed.1").get("startable"))
    box.python("other.1", f"import {name}; print({name}.version)", environment=environment, tools={"uv": UV})
    assert box.result("other.1") == ("exited", 0, None), box.build_log("other.1")
    assert not box.builders()


def test_a_run_whose_builder_was_killed_may_be_started_again(box: Box, tmp_path: Path) -> None:
    """By its name its container is in the way."""
    name, uv = f"again{os.urandom(4).hex()}", tmp_path / "uv"
    uv.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo begun; sleep 600; }\n')
    uv.chmod(0o755)
    environment = packages(send_wheel(box, tmp_path, name))
    box.python("again.1", f"import {name}", environment=environment, tools={"uv": str(uv)}, nonce=box.nonce)
    wait_for(lambda: "begun" in box.build_log("again.1") and box.builders("status=running"), 60)
    box.host.kill_supervisor("again.1")
    wait_for(lambda: box.host.observe("again.1").get("startable"))
    # Of another image, so that it is no other builder of the same one.
    other = packages(*environment["pip"], python_version=">=3")
    box.python("again.1", f"import {name}", environment=other, tools={"uv": UV}, nonce=box.nonce)
    assert box.result("again.1") == ("exited", 0, None), box.build_log("again.1")
    box.wait_until_gone("again.1")


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "removed by hand"])
def test_images_that_no_run_has_used_for_long_are_removed(box: Box, is_there: bool) -> None:
    old, new = (unique(f"FROM {BUSYBOX}\nENV WHICH={which}") for which in ("old", "new"))
    box.sh("old.1", "true", {"image": None, "dockerfile": old})
    assert box.result("old.1") == ("exited", 0, None)
    [known] = _known(box)
    [path] = (box.host.root / "images").glob("*.json")
    long_ago = time.time() - 31 * 86400
    os.utime(path, (long_ago, long_ago))
    box.wait_until_gone("old.1")
    if not is_there:
        box.engine.docker("rmi", known["reference"])
    box.sh("new.1", "true", {"image": None, "dockerfile": new})
    assert box.result("new.1") == ("exited", 0, None)
    assert not list(path.parent.glob(f"{path.stem}.json")) + list(path.parent.glob(f"{path.stem}.log"))
    assert known["reference"] not in box.engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout
    assert [each["reference"] for each in _known(box)] != [known["reference"]]


def test_images_that_are_used_or_were_pulled_are_kept(box: Box, tmp_path: Path) -> None:
    used, new = (unique(f"FROM {BUSYBOX}\nENV WHICH={which}") for which in ("used", "new"))
    with registry(tmp_path / "registry") as address:
        pulled = push(box, address)
        box.sh("pulled.1", "true", {"image": pulled})
        assert box.result("pulled.1") == ("exited", 0, None), box.build_log("pulled.1")
    box.sh("used.1", "true", {"image": None, "dockerfile": used})
    assert box.result("used.1") == ("exited", 0, None)
    long_ago = time.time() - 31 * 86400
    for path in (box.host.root / "images").glob("*.json"):
        os.utime(path, (long_ago, long_ago))
    kept = {known["reference"] for known in _known(box)}
    assert pulled in kept and len(kept) == 2
    box.sh("again.1", "true", {"image": None, "dockerfile": used})
    assert box.result("again.1") == ("exited", 0, None)
    for job in ("pulled.1", "used.1", "again.1"):
        box.wait_until_gone(job)
    box.sh("new.1", "true", {"image": None, "dockerfile": new})
    assert box.result("new.1") == ("exited", 0, None)
    assert kept <= set(box.engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.splitlines())


def test_whether_an_image_is_prepared_can_be_asked(box: Box, tmp_path: Path) -> None:
    def asked(**run: Any) -> bool:
        found: bool = box.host.ask("is_prepared", run={"environment": {"interpreter": "python3"}, **run})[0]["prepared"]
        return found

    wait_for(lambda: asked(container=box.container(PYTHON)))
    assert not asked(container=box.container("no/such:1"))
    text = unique(f"FROM {BUSYBOX}")
    assert not asked(container=box.container(None, dockerfile=text))
    box.sh("ready.1", "true", {"image": None, "dockerfile": text})
    box.wait("ready.1")
    wait_for(lambda: asked(container=box.container(None, dockerfile=text)))
    assert not asked(container={"engine": f"unix://{tmp_path}/none.sock", "image": PYTHON})
    assert BUILD_LOG.endswith("20_image_build_log.txt")


def test_whether_an_image_is_prepared_is_not_waited_for(box: Box, tmp_path: Path) -> None:
    """By the host, which serves everybody else too."""

    def answer_late(connection: socket.socket) -> None:
        time.sleep(5)
        connection.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"Id": "sha256:0"}')

    with answering(tmp_path / "slow.sock", answer_late) as address:
        run = {"environment": {"interpreter": "python3"}, "container": box.container(PYTHON, engine=address)}
        assert not box.host.ask("is_prepared", run=run)[0]["prepared"]


def test_a_disk_that_takes_nothing_more_is_told(box: Box) -> None:
    (box.host.root / "images").write_text("where a folder should be")
    box.sh("full.1", "true")
    ended = box.wait("full.1")
    assert ended["reason"] == "environment_failed"
    assert "The image of this run could not be had" in ended["message"] and "images" in ended["message"]


def test_a_conda_environment_is_mounted_where_it_is(box: Box, hosts: Hosts, tmp_path: Path) -> None:
    """It brings its own programs, so that nothing of it needs to be in the image."""
    channel = Channel(tmp_path / "channel")
    channel.add_python()
    channel.add("tool", "1.0", {
        "bin/tool": b'#!/bin/sh\necho "$CONDA_PREFIX with $TOOL_HOME"; echo x >"$CONDA_PREFIX/x"\n',
        "etc/conda/activate.d/tool.sh": b'export TOOL_HOME="$CONDA_PREFIX/share/tool"\n',
    })  # fmt: skip
    caches = {"RATTLER_CACHE_DIR": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "uv")}
    box = Box(hosts(env=caches), box.engine)
    run = {"container": box.container(BUSYBOX), **wishing(channel, "tool")}
    assert not box.host.ask("is_prepared", run=run)[0]["prepared"]
    box.host.start("conda.1", ["tool"], **run)
    box.wait("conda.1")
    [prefix] = [path for path in (box.host.root / "environments").iterdir() if path.is_dir()]
    said = box.host.read("conda.1").decode()
    assert said.startswith(f"{prefix} with {prefix}/share/tool\n"), box.build_log("conda.1")
    assert "Read-only file system" in said and not (prefix / "x").exists()
    wait_until_prepared(box, run)
