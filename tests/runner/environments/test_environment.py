"""Environments: built once however many ask, rebuilt when half-built, their log seen by everybody who waits."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.wheels import make_wheel

from ..conftest import Hosts
from ..pipe import Host, is_alive, wait_for

UV = str(Path(sys.executable).with_name("uv"))
VERSION = ".".join(map(str, sys.version_info[:3]))
LOG = "azureml-logs/20_image_build_log.txt"
SHOW_VERSIONS = "import own, small, tiny; print(tiny.version, own.version, small.version)"
PLATFORM = f"{os.uname().sysname} {os.uname().machine}"


def wheel(folder: Path, name: str, version: str = "1.0", **more: Any) -> str:
    """The requirement that names a small wheel."""
    return f"{name} @ file://{make_wheel(folder, name, version, **more)}"


def built(*pip: str, uv: str | None = UV, **more: Any) -> dict[str, Any]:
    """What a run.json says of an environment, and of the tools to build it with."""
    environment = {"interpreter": None, "pip": list(pip), "pip_options": ["--no-index"], "conda": [], "channels": [],
                   "python_version": None, **more}  # fmt: skip
    return {"environment": environment, "tools": {"uv": uv}}


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"UV_CACHE_DIR": str(tmp_path / "uv-cache"), "UV_OFFLINE": "1"}


@pytest.fixture
def host(hosts: Hosts, cache: dict[str, str]) -> Host:
    return hosts(env=cache)


def counting_uv(tmp_path: Path, first: str = "") -> str:
    """uv, with a note of each call; `first` is done before it."""
    path = tmp_path / "bin" / "uv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/calls\n{first}\nexec "{UV}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_five_runs_share_one_building_and_see_its_log(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f"echo progress of the builder; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done")
    environment = built(wheel(tmp_path, "tiny"), uv=uv)
    jobs = [f"j{i}.1" for i in range(5)]
    for job in jobs:
        host.python(job, "import sys, tiny; print(tiny.version, sys.prefix)", **environment)
    for job in jobs:  # all of them wait, and all see what the one that builds is told
        wait_for(lambda: b"progress of the builder" in host.read(job, LOG))  # noqa: B023
        seen = host.observe(job)
        assert (seen["stage"], seen["message"]) == ("Preparing", "building the environment")
    (tmp_path / "go").touch()
    [digest] = {path.stem for path in (host.root / "environments").glob("*.lock")}
    for job in jobs:
        assert host.wait(job, 60)["exit_code"] == 0, host.read(job) + host.read(job, LOG)
        assert host.read(job).decode() == f"1.0 {host.root}/environments/{digest}\n"
        assert b"The environment is ready." in host.read(job, LOG)
        assert LOG in [file[0] for file in host.observe(job)["files"]]
    assert (tmp_path / "calls").read_text().split() == ["venv", "pip"]


def test_a_whole_environment_is_used_at_once(host: Host, tmp_path: Path) -> None:
    environment = built(wheel(tmp_path, "tiny"), uv=counting_uv(tmp_path))
    for job in ("a.1", "b.1"):
        host.python(job, "import tiny", **environment)
        assert host.wait(job, 60)["exit_code"] == 0
    assert (tmp_path / "calls").read_text().split() == ["venv", "pip"]
    assert "preparing" not in host.event_names("b.1")
    assert LOG not in [file[0] for file in host.observe("b.1")["files"]]


def test_what_the_host_was_started_from_does_not_mislead_the_building(
    hosts: Hosts, cache: dict[str, str], tmp_path: Path
) -> None:
    foreign = dict.fromkeys(("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX"), "/foreign")
    host = hosts(env={**cache, **foreign})
    uv = counting_uv(tmp_path, f"env >> {tmp_path}/seen")
    host.python("a.1", "import tiny", **built(wheel(tmp_path, "tiny"), uv=uv))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    seen = (tmp_path / "seen").read_text()
    assert "WINDLASS_BUILD=" in seen and "/foreign" not in seen


def test_another_wish_is_another_environment(host: Host, tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        environment = built(wheel(tmp_path, "tiny", version))
        host.python(f"{version}.1", "import tiny; print(tiny.version)", **environment)
    for version in ("1.0", "2.0"):
        assert host.wait(f"{version}.1", 60)["exit_code"] == 0
        assert host.read(f"{version}.1").decode() == f"{version}\n"
    assert len(list((host.root / "environments").glob("*.json"))) == 2


def test_its_programs_are_on_the_path(host: Host) -> None:
    look = "import sys, os; print(sys.prefix == os.environ['VIRTUAL_ENV'], 'CONDA_PREFIX' in os.environ)"
    host.start("a.1", ["python", "-c", look], **built())
    assert host.wait("a.1", 60)["exit_code"] == 0
    assert host.read("a.1") == b"True False\n"


def test_a_building_that_fails_tells_why_and_fails_all_who_waited(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f"echo not yet; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done")
    environment = built("no-such-package==9.9", uv=uv)
    for job in ("a.1", "b.1", "c.1"):
        host.python(job, "print('ran')", **environment)
    for job in ("a.1", "b.1", "c.1"):  # who has the builder's words waits for it
        wait_for(lambda: b"not yet" in host.read(job, LOG))  # noqa: B023
    (tmp_path / "go").touch()
    for job in ("a.1", "b.1", "c.1"):
        ended = host.wait(job, 60)
        assert (ended["reason"], ended["exit_code"]) == ("environment_failed", None)
        assert "no-such-package" in ended["message"]
        assert b"no-such-package" in host.read(job, LOG)
        assert host.read(job) == b""
    assert (tmp_path / "calls").read_text().split().count("venv") == 1
    assert not list((host.root / "environments").glob("*.json"))
    host.python("d.1", "print('ran')", **environment)  # who comes later tries again
    host.wait("d.1", 60)
    assert (tmp_path / "calls").read_text().split().count("venv") == 2


def test_a_half_built_environment_is_built_anew(hosts: Hosts, cache: dict[str, str], tmp_path: Path) -> None:
    """Builder and host are killed in the middle; whatever the builder had started dies with it."""
    first = hosts(env=cache)
    uv = counting_uv(tmp_path, f'[ "$1" = venv ] || [ -e {tmp_path}/go ] || {{ echo $$ > {tmp_path}/pid; sleep 600; }}')
    environment = built(wheel(tmp_path, "tiny"), uv=uv)
    run = first.run_json("a.1", ["{python}", "-c", "import tiny; print(tiny.version)"], **environment)
    first.ask("start", run=run)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    [half] = [path for path in (first.root / "environments").iterdir() if path.is_dir() and not path.suffix]
    (half / "rubbish").touch()
    first.kill()
    first.kill_supervisor("a.1")
    wait_for(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    (tmp_path / "go").touch()
    second = hosts(env=cache)
    wait_for(lambda: second.observe("a.1").get("startable"))
    second.ask("start", run=run)
    assert second.wait("a.1", 60)["exit_code"] == 0, second.read("a.1", LOG)
    assert second.read("a.1") == b"1.0\n"
    assert not (half / "rubbish").exists()


def test_an_environment_whose_interpreter_was_removed_is_built_anew(host: Host, tmp_path: Path) -> None:
    environment = built(wheel(tmp_path, "tiny"))
    host.python("a.1", "import tiny", **environment)
    assert host.wait("a.1", 60)["exit_code"] == 0
    [prefix] = [path for path in (host.root / "environments").iterdir() if path.is_dir()]
    (prefix / "bin/python").unlink()
    (prefix / "bin/python").symlink_to("/no/such/python")
    host.python("b.1", "import tiny", **environment)
    assert host.wait("b.1", 60)["exit_code"] == 0, host.read("b.1", LOG)


def test_another_folder_on_the_same_machine_builds_the_same_undisturbed(
    hosts: Hosts, cache: dict[str, str], tmp_path: Path
) -> None:
    """Who builds anew ends what a killed builder has left running; the neighbour's builder is none of that."""
    uv = counting_uv(tmp_path, f'[ "$1" = venv ] || while [ ! -e {tmp_path}/go ]; do sleep 0.02; done')
    environment = built(wheel(tmp_path, "tiny"), uv=uv)
    neighbour = Host(tmp_path / "neighbour", env=cache)
    try:
        neighbour.python("a.1", "import tiny", **environment)
        wait_for(lambda: (tmp_path / "calls").exists() and "pip" in (tmp_path / "calls").read_text())
        [lock] = (neighbour.root / "environments").glob("*.lock")
        host = hosts(env=cache)
        (host.root / "environments" / lock.stem).mkdir()  # half of one
        host.python("a.1", "import tiny", **environment)
        wait_for(lambda: (tmp_path / "calls").read_text().count("pip") == 2)
        (tmp_path / "go").touch()
        for each in (host, neighbour):
            assert each.wait("a.1", 60)["exit_code"] == 0, each.read("a.1", LOG)
    finally:
        neighbour.end()


def test_a_waiter_takes_over_from_a_builder_that_was_killed(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f'[ "$1" = venv ] || [ -e {tmp_path}/go ] || {{ echo $$ > {tmp_path}/pid; sleep 600; }}')
    environment = built(wheel(tmp_path, "tiny"), uv=uv)
    host.python("builder.1", "import tiny", **environment)
    wait_for(lambda: (tmp_path / "pid").exists())
    host.python("waiter.1", "import tiny", **environment)
    wait_for(lambda: "preparing" in host.event_names("waiter.1"))
    (tmp_path / "go").touch()
    host.kill_supervisor("builder.1")
    assert host.wait("waiter.1", 60)["exit_code"] == 0
    assert host.observe("builder.1")["startable"] is True


def test_a_run_can_be_stopped_while_its_environment_is_built(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f"echo $$ > {tmp_path}/pid.tmp; mv {tmp_path}/pid.tmp {tmp_path}/pid; sleep 600")
    environment = built(uv=uv)
    host.python("builder.1", "print('ran')", **environment)
    wait_for(lambda: (tmp_path / "pid").exists())
    host.python("waiter.1", "print('ran')", **environment)
    for job in ("waiter.1", "builder.1"):
        host.ask("stop", job=job, grace=0, fence=1)
        assert host.wait(job)["reason"] == "stopped"
        assert host.read(job) == b""
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_building_that_never_ends_is_given_up(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f"[ -e {tmp_path}/go ] || {{ echo $$ > {tmp_path}/pid; echo thinking; sleep 600; }}")
    environment = built(uv=uv)
    for job in ("builder.1", "waiter.1"):
        host.python(job, "print('ran')", **environment, build_limit=7.2)
    for job in ("builder.1", "waiter.1"):
        ended = host.wait(job, 60)
        assert ended["reason"] == "environment_failed"
        assert "not ready within 0.002 h" in ended["message"] and "build_hours" in ended["message"]
        assert b"thinking" in host.read(job, LOG)
    assert not is_alive(int((tmp_path / "pid").read_text()))
    (tmp_path / "go").touch()
    host.python("later.1", "print('ran')", **environment, build_limit=600)
    assert host.wait("later.1", 60)["exit_code"] == 0


def test_the_time_for_building_is_not_the_scripts(host: Host) -> None:
    host.python("long.1", "import time; time.sleep(1.5)", build_limit=1)
    assert host.wait("long.1")["exit_code"] == 0


def test_packages_of_the_original_sdk_are_left_out(host: Host, tmp_path: Path) -> None:
    names = ("azureml-defaults", "azureml-core==1.60", "azureml_sdk[notebooks]", "AzureML.Train >= 1")
    host.python("a.1", "import tiny", **built(*names, wheel(tmp_path, "tiny")))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    log = host.read("a.1", LOG).decode()
    for name in names:
        assert f"{name} is not installed: windlass provides it." in log


def test_packages_that_depend_on_the_original_sdk_do_not_bring_it(host: Host, tmp_path: Path) -> None:
    """Neither what everybody knows, which would bring much more, nor what nobody has heard of."""
    shelf = tmp_path / "shelf"
    make_wheel(shelf, "azureml_core", "1.60", requires=["what-it-needs"])
    make_wheel(shelf, "azureml_contrib_unheard_of", "1.0")
    needy = wheel(tmp_path, "needy", requires=["azureml-core>=1.0", "azureml_contrib_unheard_of", "tiny"])
    options = ["--no-index", f"--find-links {shelf}"]
    make_wheel(shelf, "tiny")
    look = "import needy, tiny, importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"
    host.python("a.1", look, **built(needy, pip_options=options))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1") + host.read("a.1", LOG)
    assert sorted(host.read("a.1").split()) == [b"needy", b"tiny"]
    assert "Removing azureml-contrib-unheard-of: windlass provides it." in host.read("a.1", LOG).decode()


def test_a_wheel_that_came_with_the_run(host: Host, tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "tiny", "1.5")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    line = f"wheel:{digest}/{path.stat().st_size}/{path.name}"
    files = {"train.py": b"import os, tiny; print(tiny.version, os.listdir())", f".windlass/wheels/{path.name}": b""}
    run = host.run_json("a.1", ["{python}", "train.py"], files, **built(line))
    run["files"][1][1:3] = [digest, path.stat().st_size]
    assert host.ask("start", run=run)[0]["missing"] == [digest]
    host.put(path.read_bytes())
    host.ask("start", run=run)
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert host.read("a.1").startswith(b"1.5 ")
    assert b".windlass" not in host.read("a.1")


@pytest.mark.parametrize("rest", ["", "[more] ; python_version > '3'"])
def test_a_wheel_below_a_folder_whose_name_has_signs_of_addresses(
    cache: dict[str, str], tmp_path: Path, rest: str
) -> None:
    path = make_wheel(tmp_path, "tiny", "1.5")
    host = Host(tmp_path / "ho me#1 ?%41", env=cache)
    try:
        host.put(path.read_bytes())
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        line = f"wheel:{digest}/{path.stat().st_size}/{path.name}{rest}"
        host.python("a.1", "import tiny; print(tiny.version)", **built(line))
        assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    finally:
        host.end()


def test_a_wheel_that_did_not_come(host: Host) -> None:
    host.python("a.1", "print('ran')", **built(f"wheel:{'0' * 64}/10/tiny-1.0-py3-none-any.whl"))
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "The file tiny-1.0-py3-none-any.whl was to come with the run, and is not there." in ended["message"]


def test_is_it_prepared(host: Host, tmp_path: Path) -> None:
    wishes = built(wheel(tmp_path, "tiny"))
    assert host.ask("is_prepared", run=wishes)[0]["prepared"] is False
    host.python("a.1", "import tiny", **wishes)
    host.wait("a.1", 60)
    assert host.ask("is_prepared", run=wishes)[0]["prepared"] is True
    assert host.ask("is_prepared", run={"environment": {"interpreter": "python3"}})[0]["prepared"] is True


@pytest.mark.parametrize("wanted", ["3.5.2", "2.7"])
def test_a_python_older_than_the_sdk_gives_way_to_the_nearest(host: Host, wanted: str) -> None:
    host.python("a.1", "import sys; print(sys.version_info[:2])", **built(python_version=wanted))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert f"python {wanted} → 3." in host.read("a.1", LOG).decode()


@pytest.mark.parametrize("wanted", ["3.99", "3.99.1", "4.0"])
def test_a_python_that_is_not_there_is_refused(host: Host, wanted: str) -> None:
    host.python("a.1", "print('ran')", **built(python_version=wanted))
    ended = host.wait("a.1", 60)
    assert (ended["reason"], host.read("a.1")) == ("environment_failed", b"")
    assert f"No Python on this machine is {wanted}; there are {VERSION}" in ended["message"]


def test_a_python_that_is_there_is_taken_as_asked(host: Host) -> None:
    wanted = f"{sys.version_info[0]}.{sys.version_info[1]}"
    host.python("a.1", "import sys; print(sys.version_info[:2])", **built(python_version=wanted))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert host.read("a.1").decode().strip() == str(sys.version_info[:2])
    assert "is not on this machine" not in host.read("a.1", LOG).decode()


def test_another_patch_of_a_python_is_named(host: Host) -> None:
    wanted = f"{sys.version_info[0]}.{sys.version_info[1]}.99"
    host.python("a.1", "import sys; print(sys.version_info[:2])", **built(python_version=wanted))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert host.read("a.1").decode().strip() == str(sys.version_info[:2])
    assert f"python {wanted} → {VERSION} ({wanted} is not on this machine)" in host.read("a.1", LOG).decode()


def stand_in_python(folder: Path, version: str) -> None:
    """The interpreter of the tests, which claims another version when it is asked."""
    folder.mkdir(exist_ok=True)
    path = folder / f"python{version.rpartition('.')[0]}"
    path.write_text(f'#!/bin/sh\n[ "$1$2" = -I-S ] && echo {version} && exit\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [("<3.3", "3.2.5"), (">3.2,<3.4", "3.3.1"), ("!=3.3.*,<3.4", "3.2.5"), ("~=3.2.1", "3.2.5"), (">=3", VERSION)],
)
def test_comparisons_are_held_to(hosts: Hosts, cache: dict[str, str], tmp_path: Path, wanted: str, taken: str) -> None:
    for version in ("3.2.5", "3.3.1"):
        stand_in_python(tmp_path / "pythons", version)
    host = hosts(env={**cache, "PATH": f"{tmp_path}/pythons:{os.environ['PATH']}"})
    host.python("a.1", "pass", **built(python_version=wanted))
    host.wait("a.1", 60)
    log = host.read("a.1", LOG).decode()
    assert f"Building an environment on Python {taken} (" in log
    assert "is not on this machine" not in log


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("<3.1", f"No Python on this machine is <3.1; there are {VERSION}"),
        ("3.8|3.9", "Python 3.8|3.9 is not understood"),
    ],
)
def test_comparisons_do_not_give_way(host: Host, wanted: str, words: str) -> None:
    host.python("a.1", "print('ran')", **built(python_version=wanted))
    ended = host.wait("a.1", 60)
    assert (ended["reason"], host.read("a.1")) == ("environment_failed", b"")
    assert words in ended["message"]


def test_tools_that_conda_lists_are_there(host: Host) -> None:
    """Python brings them, so that no index is needed; setuptools until 3.11."""
    look = "import pip, importlib.util as u; print(u.find_spec('setuptools') is not None)"
    host.python("a.1", look, **built(conda=["python>=3", "pip<30"]))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1") + host.read("a.1", LOG)
    assert host.read("a.1").decode() == f"{sys.version_info < (3, 12)}\n"


def test_tools_of_any_version_need_no_index(host: Host, tmp_path: Path) -> None:
    wishes = built(wheel(tmp_path, "tiny"), conda=["pip"], pip_options=["--index-url http://127.0.0.1:9/simple"])
    host.python("a.1", "import pip, tiny", **wishes)
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1") + host.read("a.1", LOG)


def test_tools_that_conda_lists_have_the_version_that_is_named(host: Host, tmp_path: Path) -> None:
    for version in ("58.0.4", "58.1", "59.0"):
        make_wheel(tmp_path / "shelf", "setuptools", version)
    wishes = built(
        wheel(tmp_path, "tiny"),
        conda=["pip", "setuptools=58"],
        pip_options=["--no-index", f"--find-links {tmp_path}/shelf"],
    )
    host.python("a.1", "import pip, setuptools, tiny; print(setuptools.version)", **wishes)
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1") + host.read("a.1", LOG)
    assert host.read("a.1") == b"58.1\n"


def test_tools_that_nobody_asked_for_are_not_there(host: Host) -> None:
    host.python("a.1", "import importlib.util as u; print(u.find_spec('pip'))", **built(conda=["python>=3"]))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    assert host.read("a.1") == b"None\n"


def test_without_uv_it_is_brought_once_for_the_machine(hosts: Hosts, cache: dict[str, str], tmp_path: Path) -> None:
    """By pip, into a folder of ours; here from a stand-in wheel whose program calls the real uv."""
    program = f"import os, sys\ndef main(): os.execv({UV!r}, [{UV!r}, *sys.argv[1:]])\n"
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "uv", body=program, scripts={"uv": "uv:main"})
    away = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    host = hosts(env={**cache, **away})
    for version in ("1.0", "2.0"):
        host.python(f"{version}.1", "import tiny", **built(wheel(tmp_path, "tiny", version), uv=None))
    for job in ("1.0.1", "2.0.1"):
        assert host.wait(job, 120)["exit_code"] == 0, host.read(job, LOG)
        assert b"Getting uv for this machine, once." in host.read(job, LOG)
    assert (host.root / "tools/uv/bin/uv").exists()


@pytest.mark.slow
def test_without_uv_and_without_a_way_to_it_it_says_what_to_do(hosts: Hosts, tmp_path: Path) -> None:
    host = hosts(env={"PATH": str(tmp_path), "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""})
    host.python("a.1", "print('ran')", **built(uv=None))
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "python3 -m pip install --user uv" in ended["message"]


def test_uv_may_come_with_the_run(hosts: Hosts, cache: dict[str, str], tmp_path: Path) -> None:
    host = hosts(env={**cache, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1"})
    program = f'#!/bin/sh\nexec {UV} "$@"\n'.encode()
    sent = {"digest": hashlib.sha256(program).hexdigest(), "size": len(program), "platform": PLATFORM}

    def run(job: str, **more: Any) -> dict[str, Any]:
        whole = host.run_json(job, ["{python}", "-c", "import tiny"], **built(wheel(tmp_path, "tiny")))
        return {**whole, "tools": {"uv": sent}, **more}

    assert "missing" not in host.ask("start", run=run("z.1", environment={"interpreter": sys.executable}))[0]
    assert host.ask("start", run=run("a.1"))[0]["missing"] == [sent["digest"]]
    host.put(program)
    host.ask("start", run=run("a.1"))
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    (host.root / "files" / str(sent["digest"])).unlink()
    assert "missing" not in host.ask("start", run=run("b.1"))[0]  # nothing is built for it
    other = run("c.1", tools={"uv": {**sent, "platform": "Plan9 mips"}})
    other["environment"]["pip"].append("other")
    assert "missing" not in host.ask("start", run=other)[0]


def test_the_digest_is_the_servers_own(host: Host, tmp_path: Path) -> None:
    """Both sides count the same, so that `windlass gc` knows which folder belongs to which environment."""
    from windlass.core.digests import environment_digest
    from windlass.core.entities import EnvironmentSpec

    pip = wheel(tmp_path, "tiny")
    for job, is_strict in (("a.1", False), ("b.1", True)):
        spec = EnvironmentSpec(pip=(pip,), pip_options=("--no-index",), python_version=None, strict=is_strict)
        host.python(job, "import tiny", **built(pip, strict=is_strict))
        assert host.wait(job, 60)["exit_code"] == 0
        folder = host.root / "environments" / environment_digest(spec)
        assert folder.is_dir()
        assert json.loads(folder.with_suffix(".json").read_text())["python"].startswith("3.")


class Index:
    """A package index on loopback."""

    def __init__(self, folder: Path, *wheels: Path) -> None:
        for path in wheels:
            page = folder / path.name.partition("-")[0] / "index.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            path.rename(page.parent / path.name)
            with page.open("a") as file:
                file.write(f'<a href="{path.name}">{path.name}</a>\n')
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_of_several_indexes_the_best_is_taken_as_pip_does(hosts: Hosts, tmp_path: Path) -> None:
    """A private index is named first, and PyPI beside it: what both have comes from who has the newer."""
    wheels = tmp_path / "wheels"
    private = Index(tmp_path / "private", make_wheel(wheels, "tiny", "2.0"), make_wheel(wheels, "own", "1.0"))
    public = Index(tmp_path / "public", make_wheel(wheels, "tiny", "1.0"), make_wheel(wheels, "small", "3.0"))
    host = hosts(env={"UV_CACHE_DIR": str(tmp_path / "uv-cache")})
    options = [f"--index-url {private.url}", f"--extra-index-url {public.url}"]
    try:
        host.python("a.1", SHOW_VERSIONS, **built("tiny", "own", "small", pip_options=options))
        assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    finally:
        private.close()
        public.close()
    assert host.read("a.1").split() == [b"2.0", b"1.0", b"3.0"]
