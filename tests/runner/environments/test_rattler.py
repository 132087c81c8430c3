"""Conda environments: solved and linked by rattler from a channel in a folder, or made by a conda that is there."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.channels import PYTHON, Channel, small_channel
from tests.wheels import make_wheel

from ..conftest import Hosts
from ..pipe import Host, wait_for
from .test_environment import LOG, PLATFORM, UV

LOOK = "import os, sys, tinyconda; print(tinyconda.version, sys.prefix == os.environ['CONDA_PREFIX'], sys.prefix)"


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return small_channel(tmp_path / "channel")


@pytest.fixture
def caches(tmp_path: Path) -> dict[str, str]:
    return {
        "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
        "UV_OFFLINE": "1",
        "RATTLER_CACHE_DIR": str(tmp_path / "rattler-cache"),
    }


@pytest.fixture
def host(hosts: Hosts, caches: dict[str, str]) -> Host:
    return hosts(env=caches)


def wishing(channel: Channel, *conda: str, pip: tuple[str, ...] = (), tools: Any = None, **more: Any) -> dict[str, Any]:
    """What a run.json says of a conda environment; no conda of this machine is used."""
    environment = {"interpreter": None, "conda": list(conda), "channels": [channel.url], "pip": list(pip),
                   "pip_options": ["--no-index"], "python_version": None, **more}  # fmt: skip
    return {"environment": environment, "tools": {"uv": UV, "rattler": sys.executable, "conda": False, **(tools or {})}}


def folders(host: Host) -> list[Path]:
    return [path for path in (host.root / "environments").iterdir() if path.is_dir()]


def test_conda_packages_and_pip_packages_on_top(host: Host, channel: Channel, tmp_path: Path) -> None:
    pip = f"tiny @ file://{make_wheel(tmp_path, 'tiny', '3.0')}"
    script = f"{LOOK}; import tiny; print(tiny.version, tiny.__file__.startswith(sys.prefix))"
    host.python("a.1", script, **wishing(channel, "tinyconda>=1", pip=(pip,)))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1") + host.read("a.1", LOG)
    [prefix] = folders(host)
    assert host.read("a.1").decode() == f"1.2 True {prefix}\n3.0 True\n"
    log = host.read("a.1", LOG).decode()
    assert "Building a conda environment: python, tinyconda>=1" in log
    assert f"Solving for python, tinyconda>=1 with {channel.url}/" in log
    assert "2 packages" in log
    assert "Linked 2 packages." in log
    assert "tiny==3.0" in log
    assert log.endswith("The environment is ready.\n")
    assert sorted(path.suffix for path in (host.root / "environments").iterdir()) == ["", ".json", ".lock", ".log"]


def test_it_is_built_once_and_used_until_the_wishes_change(host: Host, channel: Channel) -> None:
    jobs = [f"j{i}.1" for i in range(3)]
    for job in jobs:
        host.python(job, LOOK, **wishing(channel, "tinyconda"))
    for job in jobs:
        assert host.wait(job, 60)["exit_code"] == 0, host.read(job, LOG)
        assert host.read(job, LOG).count(b"Solving") == 1
    host.python("later.1", LOOK, **wishing(channel, "tinyconda"))
    assert host.wait("later.1", 60)["exit_code"] == 0
    assert "preparing" not in host.event_names("later.1")
    assert len(folders(host)) == 1
    channel.add_module("tinyconda", "2.0")
    host.python("other.1", LOOK, **wishing(channel, "tinyconda=2"))
    assert host.wait("other.1", 60)["exit_code"] == 0, host.read("other.1", LOG)
    assert host.read("other.1").startswith(b"2.0 ")
    assert len(folders(host)) == 2


def test_packages_say_what_they_need_of_the_surroundings(host: Host, channel: Channel) -> None:
    """What conda sets when an environment is activated: programs, and the variables of the packages' own scripts."""
    channel.add("tool", "1.0", {
        "bin/tool": b'#!/bin/sh\necho "tool in $CONDA_PREFIX with $TOOL_HOME"\n',
        "etc/conda/activate.d/tool.sh": b'export TOOL_HOME="$CONDA_PREFIX/share/tool"\n',
    })  # fmt: skip
    host.start("a.1", ["tool"], **wishing(channel, "tool"))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    [prefix] = folders(host)
    assert host.read("a.1").decode() == f"tool in {prefix} with {prefix}/share/tool\n"
    known = json.loads(prefix.with_suffix(".json").read_text())["variables"]
    assert known.keys() == {"CONDA_PREFIX", "CONDA_DEFAULT_ENV", "TOOL_HOME"}, "and nothing of the building"


@pytest.mark.parametrize("asked", ["python=3.5.2", "python==2.7"])
def test_a_python_that_the_channels_lack_gives_way_to_the_nearest(host: Host, channel: Channel, asked: str) -> None:
    host.python("a.1", LOOK, **wishing(channel, asked, "tinyconda"))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    minor = ".".join(PYTHON.split(".")[:2])
    said = f"python {asked.lstrip('python=')} → {minor} (the SDK needs 3.8 or newer)"
    assert said in host.read("a.1", LOG).decode()
    assert host.properties("a.1")["replaced.python"] == said


def test_of_several_pythons_the_nearest(host: Host, channel: Channel) -> None:
    for version in ("3.6.0", "3.8.1", "3.31.0"):
        channel.add_python(version)
    host.python("a.1", LOOK, **wishing(channel, "python=3.5", "tinyconda"))
    assert host.wait("a.1", 60)["reason"] in ("exited", "environment_failed")  # it is not really a 3.8
    assert "python 3.5 → 3.8 (" in host.read("a.1", LOG).decode()


def test_a_python_that_the_channels_lack_is_refused(host: Host, channel: Channel) -> None:
    host.python("a.1", "print('ran')", **wishing(channel, "python=3.98", "tinyconda"))
    ended = host.wait("a.1", 60)
    assert (ended["reason"], host.read("a.1")) == ("environment_failed", b"")
    assert f"Not in the channels: python=3.98; there are {PYTHON}" in ended["message"]


@pytest.mark.parametrize("asked", [{"conda": ["python<3.5", "tinyconda"]}, {"python_version": "<3.5"}])
def test_comparisons_of_python_do_not_give_way(host: Host, channel: Channel, asked: dict[str, Any]) -> None:
    host.python("a.1", "print('ran')", **wishing(channel, "tinyconda", **asked))
    ended = host.wait("a.1", 60)
    assert (ended["reason"], host.read("a.1")) == ("environment_failed", b"")
    assert f"Not in the channels: python<3.5; there are {PYTHON}" in ended["message"]


def test_comparisons_of_python_are_held_to(host: Host, channel: Channel) -> None:
    channel.add_python("3.99.0")
    minor = ".".join(PYTHON.split(".")[:2])
    host.python("a.1", LOOK, **wishing(channel, "tinyconda", python_version=f">={minor},<3.99"))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)


def test_what_cannot_be_solved_is_told_with_all_that_is_wrong(host: Host, channel: Channel) -> None:
    host.python("a.1", "print('ran')", **wishing(channel, "tinyconda=9", "no-such-package", "python"))
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "No candidates were found for" in ended["message"]
    assert "Not in the channels: tinyconda=9; there are 1.2" in ended["message"]
    assert "Not in the channels: no-such-package" in ended["message"]
    assert ended["message"] in host.read("a.1", LOG).decode()
    assert host.read("a.1") == b""
    assert folders(host) == []


def test_packages_that_exclude_each_other_are_told_in_the_solvers_words(host: Host, channel: Channel) -> None:
    channel.add_module("left", depends=("tinyconda <2",))
    channel.add_module("right", depends=("tinyconda >=2",))
    host.python("a.1", "print('ran')", **wishing(channel, "left", "right"))
    message = host.wait("a.1", 60)["message"]
    assert "left" in message or "right" in message
    assert "tinyconda" in message


@pytest.mark.parametrize(
    ("wishes", "problem"),
    [
        ({"conda": ["numpy@1"]}, "'numpy@1' does not name a conda package"),
        ({"channels": ["file:///no/such/channel"]}, "A channel cannot be read: could not find subdir"),
        (
            {"conda": ["python=3.8", "tinyconda"], "channels": ["file:///no/such/channel"]},
            "A channel cannot be read: could not find subdir",
        ),
    ],
)
def test_wishes_that_cannot_be_read(host: Host, channel: Channel, wishes: dict[str, Any], problem: str) -> None:
    run = wishing(channel, "tinyconda")
    run["environment"].update(wishes)
    host.python("a.1", "print('ran')", **run)
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert problem in ended["message"]


def test_credentials_in_a_channels_address_are_seen_nowhere(host: Host, channel: Channel, tmp_path: Path) -> None:
    spy = tmp_path / "spy"
    spy.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/argv\nexec {sys.executable} "$@"\n')
    spy.chmod(0o755)
    address = "https://canary-user:canary-pass@127.0.0.1:9/t/canary-token/private"
    run = wishing(channel, "tinyconda", tools={"rattler": str(spy)}, channels=[address])
    host.python("a.1", "print('ran')", **run)
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "https://***@127.0.0.1:9/t/***/private" in host.read("a.1", LOG).decode()
    assert "canary" not in ended["message"]
    assert b"canary" not in host.read("a.1", LOG)
    assert "canary" not in (tmp_path / "argv").read_text()
    kept = [path for path in (host.root / "environments").rglob("*") if path.is_file()]
    assert not [path for path in kept if b"canary" in path.read_bytes()]


def test_credentials_beside_a_package_are_seen_nowhere(host: Host, channel: Channel) -> None:
    """Which is said before it is asked for, and again when it is not found."""
    wish = "https://canary-user:canary-pass@127.0.0.1:9/t/canary-token/private::other"
    host.python("a.1", "print('ran')", **wishing(channel, wish))
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "127.0.0.1:9/t/***/private" in ended["message"]
    log = host.read("a.1", LOG).decode()
    assert "Building a conda environment: python, https://***@127.0.0.1:9/t/***/private::other" in log
    assert "canary" not in ended["message"] + log


def test_the_original_sdk_is_provided_by_ours(host: Host, channel: Channel) -> None:
    channel.add_module("azureml_core")
    channel.add_module("needy", depends=("azureml_core", "tinyconda"))
    host.python("a.1", f"{LOOK}; import needy\ntry: import azureml_core\nexcept ImportError: print('left out')",
                **wishing(channel, "needy", "azureml-defaults"))  # fmt: skip
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1") + host.read("a.1", LOG)
    assert host.read("a.1").endswith(b"left out\n")
    assert "azureml-defaults is not installed: windlass provides it." in host.read("a.1", LOG).decode()


def test_rattler_is_brought_once_for_the_machine(
    hosts: Hosts, caches: dict[str, str], channel: Channel, tmp_path: Path
) -> None:
    """By uv, into a folder of ours; here from a stand-in wheel that leads to the rattler of the tests."""
    import rattler

    place = str(Path(rattler.__file__).parents[1])
    make_wheel(tmp_path / "wheels", "py_rattler", "0.28.9", files={"py_rattler.pth": place + "\n"})
    host = hosts(env={**caches, "UV_FIND_LINKS": str(tmp_path / "wheels"), "UV_NO_INDEX": "1"})
    channel.add_module("other")
    for job, package in (("a.1", "tinyconda"), ("b.1", "other")):
        host.python(job, f"import {package}", **wishing(channel, package, tools={"rattler": None}))
    for job in ("a.1", "b.1"):
        assert host.wait(job, 60)["exit_code"] == 0, host.read(job, LOG)
    logs = host.read("a.1", LOG) + host.read("b.1", LOG)
    assert b"Getting rattler-0.28 for this machine, once." in logs
    host.python("c.1", "import other", **wishing(channel, "other", "tinyconda", tools={"rattler": None}))
    assert host.wait("c.1", 60)["exit_code"] == 0
    assert b"Getting rattler" not in host.read("c.1", LOG)


def sent_wheel(folder: Path, version: str = "0.28.9") -> tuple[bytes, dict[str, Any]]:
    """A stand-in for the wheel that a server sends, and what it tells of it."""
    import rattler

    place = str(Path(rattler.__file__).parents[1])
    wheel = make_wheel(folder, "py_rattler", version, files={"py_rattler.pth": place + "\n"})
    data = wheel.read_bytes()
    about = {"digest": hashlib.sha256(data).hexdigest(), "size": len(data), "platform": PLATFORM, "name": wheel.name}
    return data, about


def test_rattler_may_come_with_the_run(hosts: Hosts, caches: dict[str, str], channel: Channel, tmp_path: Path) -> None:
    host = hosts(env=caches)
    data, about = sent_wheel(tmp_path)
    channel.add_module("other")

    def run(job: str, package: str = "tinyconda", **tools: Any) -> dict[str, Any]:
        wishes = wishing(channel, package, tools={"rattler": about, **tools})
        return host.run_json(job, ["{python}", "-c", f"import {package}"], **wishes)

    assert host.ask("start", run=run("a.1"))[0]["missing"] == [about["digest"]]
    host.put(data)
    host.ask("start", run=run("a.1"))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    (host.root / "files" / str(about["digest"])).unlink()
    assert "missing" not in host.ask("start", run=run("b.1", "other"))[0], "the machine has it now"
    assert host.wait("b.1", 60)["exit_code"] == 0, host.read("b.1", LOG)
    assert b"Getting" not in host.read("b.1", LOG)
    left = {path.name for path in (host.root / "tools").iterdir()}
    assert left == {f"rattler-0.28{rest}" for rest in ("", ".json", ".lock", ".log")}


def test_rattler_is_not_asked_for_where_it_is_of_no_use(
    hosts: Hosts, caches: dict[str, str], channel: Channel, tmp_path: Path
) -> None:
    host = hosts(env={**caches, "UV_NO_INDEX": "1"})
    _, about = sent_wheel(tmp_path)
    conda = str(fake_conda(tmp_path / "bin", "conda"))
    for job, wish, tools in (
        ("a.1", "pip", {"rattler": about}),
        ("b.1", "tinyconda", {"rattler": about, "conda": conda}),
        ("c.1", "tinyconda=1", {"rattler": {**about, "platform": "Plan9 mips"}}),
    ):
        run = host.run_json(job, ["{python}", "-c", ""], **wishing(channel, wish, tools=tools))
        assert "missing" not in host.ask("start", run=run)[0]
    assert "The server's own is for Plan9 mips; this is Linux" in host.wait("c.1", 60)["message"]


def test_a_rattler_that_came_and_does_not_fit_gives_way_to_that_of_the_index(
    hosts: Hosts, caches: dict[str, str], channel: Channel, tmp_path: Path
) -> None:
    sent_wheel(tmp_path / "wheels")
    host = hosts(env={**caches, "UV_FIND_LINKS": str(tmp_path / "wheels"), "UV_NO_INDEX": "1"})
    data, about = sent_wheel(tmp_path)
    about["name"] = about["name"].replace("py3-none-any", "cp310-abi3-musllinux_1_2_x86_64")
    host.put(data)
    host.python("a.1", "import tinyconda", **wishing(channel, "tinyconda", tools={"rattler": about}))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)


def test_without_any_conda_it_says_what_to_do(hosts: Hosts, caches: dict[str, str], channel: Channel) -> None:
    host = hosts(env={**caches, "UV_NO_INDEX": "1"})
    host.python("a.1", "print('ran')", **wishing(channel, "tinyconda", tools={"rattler": None}))
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "need a conda, mamba or micromamba on this machine" in ended["message"]
    assert "Install Miniforge there" in ended["message"]
    assert "On the server, pip install 'windlass[environments]' helps, too" in ended["message"]


def test_an_index_that_cannot_be_reached_is_not_waited_for_long(
    hosts: Hosts, caches: dict[str, str], channel: Channel, tmp_path: Path
) -> None:
    """What is set on the machine stays."""
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\nenv | grep ^UV_HTTP >{tmp_path}/$1; [ "$1" != pip ]\n')
    uv.chmod(0o755)
    host = hosts(env={**caches, "UV_HTTP_RETRIES": "7"})
    host.python("a.1", "print('ran')", **wishing(channel, "tinyconda", tools={"rattler": None, "uv": str(uv)}))
    assert host.wait("a.1", 60)["reason"] == "environment_failed"
    assert sorted((tmp_path / "pip").read_text().split()) == ["UV_HTTP_CONNECT_TIMEOUT=5", "UV_HTTP_RETRIES=7"]


# ---- a conda that somebody has installed ----


def fake_conda(folder: Path, name: str, lacks: str = "no python at all") -> Path:
    """A stand-in for an installed conda: notes how it was called and makes a prefix that Python can start from."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"""#!{sys.executable}
import json, os, subprocess, sys, time
words = sys.argv[1:]
prefix, file = words[words.index("-p") + 1], words[words.index("-f") + 1]
order = json.load(open(file))
with open({str(folder / "calls")!r}, "a") as calls:
    print(json.dumps([words[0], order, os.environ["CONDA_ALWAYS_YES"]]), file=calls)
print("Collecting package metadata: done", flush=True)
if {lacks!r} in order["dependencies"][0]:
    print("The following packages are not available from current channels:\\n\\n  - " + order["dependencies"][0])
    sys.exit(1)
if "broken" in order["dependencies"]:
    print("LibMambaUnsatisfiableError: Encountered problems while solving:\\n  - nothing provides requested broken")
    sys.exit(1)
subprocess.check_call([{UV!r}, "venv", "--quiet", "--no-project", "--python", {sys.executable!r}, prefix])
os.mkdir(prefix + "/conda-meta")
""")
    path.chmod(0o755)
    return path


def calls(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


@pytest.mark.parametrize(("name", "verb"), [("conda", "env"), ("mamba", "env"), ("micromamba", "create")])
def test_fake_conda_is_used_where_it_is_installed(
    hosts: Hosts, caches: dict[str, str], channel: Channel, tmp_path: Path, name: str, verb: str
) -> None:
    fake_conda(tmp_path / "bin", name)
    host = hosts(env={**caches, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    run = wishing(channel, "scikit-learn=1.0", pip=(f"tiny @ file://{make_wheel(tmp_path, 'tiny')}",))
    del run["tools"]["conda"]
    host.python("a.1", "import os, sys, tiny; print(os.environ['CONDA_PREFIX'] == sys.prefix)", **run)
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert host.read("a.1") == b"True\n"
    order = {"channels": [channel.url], "dependencies": ["python", "scikit-learn=1.0"]}
    assert calls(tmp_path / "bin") == [[verb, order, "true"]]
    assert (
        f"Building a conda environment with {tmp_path}/bin/{name}: python, scikit-learn=1.0"
        in host.read("a.1", LOG).decode()
    )


def test_fake_conda_at_home(hosts: Hosts, caches: dict[str, str], channel: Channel, tmp_path: Path) -> None:
    (tmp_path / "miniconda3").mkdir()
    fake_conda(tmp_path / "miniconda3/bin", "conda")
    host = hosts(env={**caches, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    run = wishing(channel, "scikit-learn")
    del run["tools"]["conda"]
    host.python("a.1", "print('ran')", **run)
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert len(calls(tmp_path / "miniconda3/bin")) == 1


def test_fake_conda_without_that_python_is_asked_for_the_nearest(host: Host, channel: Channel, tmp_path: Path) -> None:
    conda = fake_conda(tmp_path / "bin", "conda", lacks="python=3.8")
    host.python("a.1", "print('ran')", **wishing(channel, "python=3.6.2", "numpy", tools={"conda": str(conda)}))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    asked = [order["dependencies"][0] for _, order, _ in calls(tmp_path / "bin")]
    assert asked == ["python=3.8", "python=3.9"], "and none that the SDK does not run on"
    assert "python 3.6.2 → 3.9 (the SDK needs 3.8 or newer)" in host.read("a.1", LOG).decode()


def test_fake_conda_is_not_asked_twice_for_the_same(host: Host, channel: Channel, tmp_path: Path) -> None:
    conda = fake_conda(tmp_path / "bin", "conda", lacks="python=3.8")
    host.python("a.1", "print('ran')", **wishing(channel, "python=3.8", "numpy", tools={"conda": str(conda)}))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert [order["dependencies"][0] for _, order, _ in calls(tmp_path / "bin")] == ["python=3.8", "python=3.9"]


def test_fake_conda_is_asked_for_nothing_else_where_the_environment_is_strict(
    host: Host, channel: Channel, tmp_path: Path
) -> None:
    conda = fake_conda(tmp_path / "bin", "conda", lacks="python=3.6")
    wishes = wishing(channel, "python=3.6.2", "numpy", tools={"conda": str(conda)}, strict=True)
    host.python("a.1", "print('ran')", **wishes)
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed" and "leave out strict" in ended["message"]
    assert [order["dependencies"][0] for _, order, _ in calls(tmp_path / "bin")] == ["python=3.6.2"]


def test_fake_conda_is_not_asked_for_what_comparisons_exclude(host: Host, channel: Channel, tmp_path: Path) -> None:
    conda = fake_conda(tmp_path / "bin", "conda", lacks="python<3.6")
    host.python("a.1", "print('ran')", **wishing(channel, "python<3.6", "numpy", tools={"conda": str(conda)}))
    ended = host.wait("a.1", 60)
    assert (ended["reason"], "python<3.6" in ended["message"]) == ("environment_failed", True)
    assert len(calls(tmp_path / "bin")) == 1


def test_fake_conda_that_fails_is_quoted(host: Host, channel: Channel, tmp_path: Path) -> None:
    conda = fake_conda(tmp_path / "bin", "conda")
    host.python("a.1", "print('ran')", **wishing(channel, "python=3.8", "broken", tools={"conda": str(conda)}))
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "nothing provides requested broken" in ended["message"]
    assert len(calls(tmp_path / "bin")) == 1  # another Python would not help


def test_an_interpreter_of_a_conda_environment_that_is_there(host: Host, channel: Channel, tmp_path: Path) -> None:
    """As on machines whose owner manages the environments: `/anaconda/envs/py35/bin/python`."""
    host.python("a.1", LOOK, **wishing(channel, "tinyconda"))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    [prefix] = folders(host)
    host.python("b.1", LOOK, environment={"interpreter": f"{prefix}/bin/python"})
    assert host.wait("b.1")["exit_code"] == 0
    assert host.read("b.1") == host.read("a.1")


def test_a_half_built_one_is_built_anew(host: Host, channel: Channel, tmp_path: Path) -> None:
    """Its builder was killed while packages were linked."""
    slow = tmp_path / "slow"
    wait = f"[ -e {tmp_path}/go ] || {{ touch {tmp_path}/linked; sleep 600; }}"
    slow.write_text(f'#!/bin/sh\n{sys.executable} "$@" || exit 1\n{wait}\n')
    slow.chmod(0o755)
    run = wishing(channel, "tinyconda", tools={"rattler": str(slow)})
    host.python("a.1", LOOK, **run)
    wait_for(lambda: (tmp_path / "linked").exists())
    [prefix] = [path for path in folders(host) if not path.suffix]
    (prefix / "bin/python").unlink()
    host.python("b.1", LOOK, **run)
    wait_for(lambda: "preparing" in host.event_names("b.1"))
    (tmp_path / "go").touch()
    host.kill_supervisor("a.1")
    assert host.wait("b.1", 60)["exit_code"] == 0, host.read("b.1", LOG)
