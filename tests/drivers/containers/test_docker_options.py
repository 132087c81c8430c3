"""Options of `docker run`: parsed strictly, refused where they open the machine, translated to Docker's API."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import drivers
from windlass.core.entities import Container, EnvironmentSpec, Resources
from windlass.core.errors import InvalidRequest, SpecNotSupported
from windlass.drivers.base import Job
from windlass.drivers.containers.config import ContainerConfig, document
from windlass.drivers.containers.docker_options import parse
from windlass.testing.harness import GivenSecrets

OPEN = [
    ["--privileged"],
    ["--privileged=true"],
    ["-v", "/:/h"],
    ["--volume=/etc:/etc:ro"],
    ["-v=/var/run/docker.sock:/var/run/docker.sock"],
    ["--mount", "type=bind,source=/,target=/h"],
    ["--volumes-from", "other"],
    ["--device", "/dev/sda"],
    ["--device-cgroup-rule", "c 42:* rmw"],
    ["--cap-add", "SYS_ADMIN"],
    ["--cap-add=ALL"],
    ["--security-opt", "seccomp=unconfined"],
    ["--security-opt=apparmor=unconfined"],
    ["--pid", "host"],
    ["--pid=container:other"],
    ["--ipc", "host"],
    ["--ipc=shareable"],
    ["--uts=host"],
    ["--userns=host"],
    ["--cgroupns=host"],
    ["--cgroup-parent", "/"],
    ["--net=host"],
    ["--network", "host"],
    ["--network=container:other"],
    ["--network", "some-network"],
    ["--runtime", "other"],
    ["--sysctl", "kernel.shmmax=1"],
    ["--group-add", "docker"],
    ["--user", "0"],
    ["-u=root"],
]


@pytest.mark.parametrize("arguments", OPEN, ids=" ".join)
def test_what_opens_the_machine_needs_the_owners_consent(arguments: list[str]) -> None:
    with pytest.raises(SpecNotSupported, match="would open the machine") as refused:
        parse(["--cpus", "1", *arguments], allow_privileged=False)
    assert "--allow-privileged" in refused.value.hint
    parse(arguments, allow_privileged=True)


@pytest.mark.parametrize(
    "arguments",
    [["--no-such-option"], ["-it"], ["-d"], ["--name", "x"], ["--entrypoint", "sh"], ["-p", "80:80"], ["--publish=80"],
     ["--restart=always"], ["--env-file", "/etc/passwd"], ["--log-driver=syslog"], ["--workdir=/"], ["python"], [""],
     ["--privileged --cpus"], ["-v/:/h"], ["--", "-v"], ["--cidfile=/x"], ["--add-hosts=x"], ["-P"], ["--platform=x"]],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("allow_privileged", [False, True])
def test_what_is_not_known_is_refused_with_what_is(arguments: list[str], allow_privileged: bool) -> None:
    with pytest.raises(SpecNotSupported, match="not known here") as refused:
        parse(arguments, allow_privileged)
    assert "--shm-size" in refused.value.hint and "--network" in refused.value.hint
    assert "--privileged" not in refused.value.hint and "--volume" not in refused.value.hint


@pytest.mark.parametrize(
    "arguments",
    [["--cpus"], ["--cpus", "many"], ["--cpus=-1"], ["--memory", "1 g"], ["-m", "lots"], ["--shm-size=1e9"],
     ["-e", "A"],
     ["-e", "=x"], ["-e", "LD_PRELOAD=x"], ["-e", "WINDLASS_COOKIE=x"], ["-e", "A=\0"], ["--ulimit", "nofile"],
     ["--pids-limit", "0"], ["--pids-limit=-1"], ["--gpus", "some"], ["--hostname", "a b"], ["--read-only=perhaps"],
     ["--tmpfs", "relative"], ["--dns", "name"], ["--add-host", "x"], ["--cpuset-cpus", "a"], ["--network="]],
    ids=lambda words: ascii(" ".join(words)),
)  # fmt: skip
def test_a_wrong_value_is_refused_with_what_it_takes(arguments: list[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(arguments, allow_privileged=False)
    assert arguments[0].split("=")[0].lstrip("-") in refused.value.message or "variable" in refused.value.message


@pytest.mark.parametrize(
    "arguments",
    [["-v", "relative:/x"], ["-v", "/a"], ["--mount", "type=volume,source=x,target=/x"], ["--mount", "source=/a"],
     ["--device", "/etc/passwd"], ["--cap-add", "sys admin"], ["--pid", "a b"], ["--sysctl", "x"], ["--user", "a b"]],
    ids=" ".join,
)  # fmt: skip
def test_also_with_consent_values_must_be_right(arguments: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="takes"):
        parse(arguments, allow_privileged=True)


HARMLESS: list[tuple[list[str], dict[str, Any]]] = [
    (["--shm-size", "2g"], {"ShmSize": 2 << 30}),
    (["--shm-size=64M"], {"ShmSize": 64 << 20}),
    (["-m", "512mb"], {"Memory": 512 << 20}),
    (["--memory=1.5g", "--memory-swap=2g"], {"Memory": 3 << 29, "MemorySwap": 2 << 30}),
    (["--cpus", "1.5"], {"NanoCpus": 1_500_000_000}),
    (["--cpu-shares=512", "--cpuset-cpus", "0-1,3"], {"CpuShares": 512, "CpusetCpus": "0-1,3"}),
    (["--pids-limit", "100"], {"PidsLimit": 100}),
    (["--ulimit", "nofile=1:2", "--ulimit", "memlock=-1"],
     {"Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}, {"Name": "memlock", "Soft": -1, "Hard": -1}]}),
    (["--gpus", "all"], {"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}),
    (["--gpus=2"], {"DeviceRequests": [{"Count": 2, "Capabilities": [["gpu"]]}]}),
    (["--gpus", '"device=0,GPU-1a"'], {"DeviceRequests": [{"DeviceIDs": ["0", "GPU-1a"], "Capabilities": [["gpu"]]}]}),
    (["--network", "none"], {"NetworkMode": "none"}),
    (["--net=bridge", "--ipc=private"], {"NetworkMode": "bridge", "IpcMode": "private"}),
    (["--read-only", "--init=false", "--rm"], {"ReadonlyRootfs": True, "Init": False}),
    (["--privileged=false"], {"Privileged": False}),
    (["--tmpfs", "/scratch:size=1g", "--tmpfs", "/x"], {"Tmpfs": {"/scratch": "size=1g", "/x": ""}}),
    (["--dns", "10.0.0.1", "--add-host=db:10.0.0.2"], {"Dns": ["10.0.0.1"], "ExtraHosts": ["db:10.0.0.2"]}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "made"), HARMLESS, ids=[" ".join(each) for each, _ in HARMLESS])
def test_harmless_options_become_fields_of_the_api(arguments: list[str], made: dict[str, Any]) -> None:
    assert parse(arguments, allow_privileged=False).host == made


def test_variables_and_the_name_of_the_host() -> None:
    options = parse(["-e", "A=b=c", "--env=EMPTY=", "-h", "box.example"], allow_privileged=False)
    assert (options.env, options.config, options.host) == ({"A": "b=c", "EMPTY": ""}, {"Hostname": "box.example"}, {})


CONSENTED: list[tuple[list[str], dict[str, Any]]] = [
    (["-v", "/a:/b", "-v=/c:/d:ro"], {"Binds": ["/a:/b", "/c:/d:ro"]}),
    (["--mount", "type=bind,src=/a,dst=/b,readonly"],
     {"Mounts": [{"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True}]}),
    (["--device", "/dev/a:/dev/b:r"],
     {"Devices": [{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"}]}),
    (["--device=/dev/fuse"],
     {"Devices": [{"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse", "CgroupPermissions": "rwm"}]}),
    (["--cap-add", "SYS_PTRACE", "--security-opt=seccomp=unconfined"],
     {"CapAdd": ["SYS_PTRACE"], "SecurityOpt": ["seccomp=unconfined"]}),
    (["--privileged", "--pid=host", "--ipc=host", "--net=host", "--uts=host", "--userns=host"],
     {"Privileged": True, "PidMode": "host", "IpcMode": "host", "NetworkMode": "host", "UTSMode": "host",
      "UsernsMode": "host"}),
    (["--sysctl", "net.core.somaxconn=1024"], {"Sysctls": {"net.core.somaxconn": "1024"}}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "made"), CONSENTED, ids=[" ".join(each) for each, _ in CONSENTED])
def test_with_consent_the_others_do_too(arguments: list[str], made: dict[str, Any]) -> None:
    assert parse(arguments, allow_privileged=True).host == made


def made(wish: Container | None = None, resources: Resources | None = None, **config: Any) -> dict[str, Any]:
    environment = config.pop("environment", EnvironmentSpec(interpreter="python3"))
    found = document(environment, wish, resources or Resources(), ContainerConfig(**config))
    assert found is not None
    return found


def test_without_docker_there_is_no_container() -> None:
    assert document(EnvironmentSpec(image="x"), None, Resources(), ContainerConfig()) is None
    assert made(docker=True)["image"] == "python:3.11-slim"


@pytest.mark.parametrize(
    ("environment", "config", "image"),
    [
        (EnvironmentSpec(), {}, "python:3.11-slim"),
        (EnvironmentSpec(python_version="3.8.13"), {}, "python:3.8-slim"),
        (EnvironmentSpec(python_version=">=3.8,<4"), {}, "python:3.11-slim"),
        (EnvironmentSpec(python_version="3.8"), {"base_image": "mine:1"}, "mine:1"),
        (EnvironmentSpec(image="theirs:2"), {"base_image": "mine:1"}, "theirs:2"),
        (EnvironmentSpec(dockerfile="FROM x"), {"base_image": "mine:1"}, None),
    ],
)
def test_the_image_is_the_runs_or_the_targets_or_one_with_python(
    environment: EnvironmentSpec, config: dict[str, Any], image: str | None
) -> None:
    found = made(Container(), environment=environment, **config)
    assert (found["image"], found["dockerfile"]) == (image, environment.dockerfile)


def test_resources_are_limits_and_options_have_the_last_word() -> None:
    wish = Container(shm_size_mb=64, arguments=("--memory", "1g", "--network", "none"))
    host = made(wish, Resources(cpus=0.5, memory_mb=256, gpus=1), network="bridge")["host"]
    assert host == {
        "Memory": 1 << 30, "MemorySwap": 1 << 30, "NanoCpus": 500_000_000, "ShmSize": 64 << 20, "PidsLimit": 4096,
        "DeviceRequests": [{"Count": 1, "Capabilities": [["gpu"]]}], "NetworkMode": "none",
    }  # fmt: skip
    assert made(Container())["host"] == {"PidsLimit": 4096}


@pytest.mark.parametrize(
    ("network", "asked"),
    [("none", "bridge"), ("team-net", "bridge"), ("bridge", "other")],
)
def test_the_owners_network_is_not_undone_by_an_option(network: str, asked: str) -> None:
    wish = Container(arguments=("--network", asked))
    with pytest.raises(SpecNotSupported) as refused:
        made(wish, network=network)
    assert "--allow-privileged" in refused.value.hint
    assert made(wish, network=network, allow_privileged=True)["host"]["NetworkMode"] == asked


def test_the_owners_network_is_named_where_it_is_contradicted() -> None:
    with pytest.raises(SpecNotSupported, match="--network bridge .* network = none"):
        made(Container(arguments=("--network", "bridge")), network="none")


@pytest.mark.parametrize("asked", ["none", "team-net"])
def test_a_run_may_have_no_network_or_name_the_targets_own(asked: str) -> None:
    assert made(Container(arguments=("--net", asked)), network="team-net")["host"]["NetworkMode"] == asked


def test_the_limit_of_processes_can_only_be_lowered() -> None:
    more = Container(arguments=("--pids-limit", "4097"))
    with pytest.raises(SpecNotSupported, match="--pids-limit 4097 .* 4096") as refused:
        made(more)
    assert "--allow-privileged" in refused.value.hint
    assert made(more, allow_privileged=True)["host"]["PidsLimit"] == 4097
    assert made(Container(arguments=("--pids-limit=4096",)))["host"]["PidsLimit"] == 4096


@pytest.mark.parametrize("version", ["3.8 x", "3.8|3.9", "3.8/../x", "latest@x"])
def test_a_python_that_names_no_image_is_refused_by_the_plan(version: str) -> None:
    with pytest.raises(InvalidRequest, match="Not the name of an image"):
        made(Container(), environment=EnvironmentSpec(python_version=version))


@pytest.mark.parametrize("config", [{"engine": "tcp://x"}, {"engine": "/var/run/docker.sock"}, {"network": "a b"},
                                    {"network": "-x"}, {"base_image": "--privileged"}, {"network": ""}])  # fmt: skip
def test_settings_of_a_target_are_checked(config: dict[str, Any]) -> None:
    with pytest.raises((ValueError, InvalidRequest)):
        ContainerConfig(**config)


@pytest.mark.parametrize("kind", ["local", "docker", "ssh"])
def test_a_plan_refuses_what_may_not_be(kind: str) -> None:
    loaded = drivers.load(kind)
    config: dict[str, Any] = {"root": "/srv/machine"} if kind != "ssh" else {"address": "box", "username": "me"}
    job = Job("a.1", "a", 1, "n", 1, ("true",), container=Container(arguments=("-v", "/:/h")))
    with pytest.raises(SpecNotSupported, match="would open the machine"):
        loaded("box", loaded.config_model(**config), GivenSecrets(), drivers.open_pool()).plan(job)
    config["allow_privileged"] = True
    consenting = loaded("box", loaded.config_model(**config), GivenSecrets(), drivers.open_pool())
    assert "options -v /:/h" in consenting.plan(job).text
