"""What a job does before its script runs is told when it begins, and how far it is while it lasts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.environments.build_progress import BuildProgress

from .conftest import Hosts
from .environments.test_environment import LOG, built, counting_uv, wheel
from .pipe import Host, wait_for


@pytest.fixture
def host(hosts: Hosts, tmp_path: Path) -> Host:
    (tmp_path / "points").mkdir()
    points = {"WINDLASS_FAILPOINTS": str(tmp_path / "points")}
    return hosts(env={"UV_CACHE_DIR": str(tmp_path / "uv-cache"), "UV_OFFLINE": "1", **points})


def told(host: Host, job: str) -> list[str]:
    """What was told of a job, in order and without being asked: its stages, and that the log of its build grew."""
    found = []
    for event in list(host.events):
        if event.get("job") != job:
            continue
        if event["event"] == "file_grew" and event["path"] == LOG:
            found.append("log")
        elif event["event"] == "job_changed":
            seen = event.get("seen") or {}
            found.append(": ".join(filter(None, (seen.get("stage") or seen.get("phase", "?"), seen.get("message")))))
    return found


def hanging_uv(folder: Path, *lines: str) -> str:
    """uv that prints these lines when it is to install, and waits for a file."""
    said = " ".join(f"echo '{line}';" for line in lines)
    return counting_uv(folder, f'[ "$1" = venv ] || {{ {said} while [ ! -e {folder}/go ]; do sleep 0.02; done; }}')


def test_a_build_is_told_of_before_its_log_and_ends_with_it(host: Host, tmp_path: Path) -> None:
    uv = hanging_uv(tmp_path, "here")
    host.python("a.1", "import tiny", **built(wheel(tmp_path, "tiny"), uv=uv))
    wait_for(lambda: b"here" in host.read("a.1", LOG))
    (tmp_path / "go").touch()
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)
    wait_for(lambda: told(host, "a.1")[-1] == "ended")
    stages = [word for word in told(host, "a.1") if word != "log"]
    assert told(host, "a.1")[0] == stages[0] == "Preparing: building the environment"
    assert stages[-2:] == ["Running", "ended"]
    assert all(word.startswith("Preparing: building the environment") for word in stages[:-2])


def test_a_job_whose_environment_is_there_is_never_preparing(host: Host, tmp_path: Path) -> None:
    environment = built(wheel(tmp_path, "tiny"))
    host.python("a.1", "import tiny", **environment)
    assert host.wait("a.1", 60)["exit_code"] == 0
    points = tmp_path / "points"
    (points / "F08").touch()
    host.python("b.1", "import tiny", **environment)
    wait_for(lambda: (points / "F08.reached").exists())  # its files are being placed
    assert (host.observe("b.1")["stage"], host.observe("b.1")["message"]) == ("Starting", "")
    (points / "F08.go").touch()
    assert host.wait("b.1", 60)["exit_code"] == 0
    wait_for(lambda: told(host, "b.1")[-1] == "ended")
    assert told(host, "b.1") == ["Running", "ended"]


def test_many_files_are_said_to_be_copied(host: Host, tmp_path: Path) -> None:
    points = tmp_path / "points"
    (points / "F08").touch()
    files = {f"{i}.txt": b"x" for i in range(1000)}
    host.start("a.1", ["{python}", "-c", "print('ran')"], files)
    wait_for(lambda: (points / "F08.reached").exists())
    message = "copying 1000 files into the run's folder"
    assert (host.observe("a.1")["stage"], host.observe("a.1")["message"]) == ("Starting", message)
    (points / "F08.go").touch()
    assert host.wait("a.1", 60)["exit_code"] == 0


def test_how_many_packages_are_installed_is_told(host: Host, tmp_path: Path) -> None:
    uv = hanging_uv(tmp_path, "Resolved 7 packages in 3ms", "Downloading torch (800.0MiB)", "Downloading nv (9MiB)")
    wishes = built(wheel(tmp_path, "tiny"), uv=uv)
    for job in ("a.1", "b.1"):
        host.python(job, "import tiny", **wishes)
    far = "Preparing: building the environment: 0 of 7 packages installed; downloading torch (800.0MiB) and 1 more"
    for job in ("a.1", "b.1"):  # one builds, the other waits for it
        wait_for(lambda: far in told(host, job))  # noqa: B023
    [packages] = (host.root / "environments").glob("*/lib/python3*/site-packages")
    (packages / "one-1.0.dist-info").mkdir()
    wait_for(lambda: any("1 of 7 packages installed" in word for word in told(host, "b.1")))
    (packages / "one-1.0.dist-info").rmdir()
    (tmp_path / "go").touch()
    for job in ("a.1", "b.1"):
        assert host.wait(job, 60)["exit_code"] == 0, host.read(job, LOG)
    assert host.event_names("a.1").count("preparing") == 1, "progress is no event"


def test_what_was_built_while_a_job_was_held_is_told_when_it_is_started(host: Host, tmp_path: Path) -> None:
    wishes = built(wheel(tmp_path, "tiny"), uv=hanging_uv(tmp_path, "here"))
    script: dict[str, Any] = {"files": {"train.py": b"import tiny"}, "command": ["{python}", "train.py"]}
    host.start("a.1", **script, **wishes, hold=True)
    wait_for(lambda: b"here" in host.read("a.1", LOG))
    before = len(host.events)
    host.start("a.1", **script, **wishes, fence=2)
    changes = wait_for(
        lambda: [e for e in host.events[before:] if (e["event"], e.get("job")) == ("job_changed", "a.1")]
    )
    assert changes[0]["seen"]["stage"] == "Preparing"
    wait_for(lambda: any(e["event"] == "file_grew" and e["path"] == LOG for e in host.events[before:]))
    (tmp_path / "go").touch()
    assert host.wait("a.1", 60)["exit_code"] == 0, host.read("a.1", LOG)


@pytest.mark.slow
def test_the_log_of_a_tool_is_seen_while_it_is_put_there(hosts: Hosts, tmp_path: Path) -> None:
    """Where a machine has no uv, it is installed by pip: here from an index that does not answer."""
    (tmp_path / "bin").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as index:
        index.settimeout(60)
        address = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        host = hosts(env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_INDEX_URL": address})
        host.python("a.1", "import tiny", **built(wheel(tmp_path, "tiny"), uv=None))
        connection, _ = index.accept()
        with connection:
            wait_for(lambda: b"Getting uv for this machine, once." in host.read("a.1", LOG))
            assert host.observe("a.1")["stage"] == "Preparing"
            host.ask("stop", job="a.1", grace=0)
            host.wait("a.1", 60)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("Building an environment on Python 3.11.\n", ""),
        ("Resolved 5 packages in 675ms\n", "installing 5 packages"),
        ("Resolved 2 packages in 6ms\nDownloading six (11.8MiB)\n", "installing 2 packages; downloading six (11.8MiB)"),
        ("Resolved 5 packages in 6ms\nDownloading pandas (11.8MiB)\n Downloaded pandas\n", "installing 5 packages"),
        ("Collecting a\n  Downloading a-1.0-py3-none-any.whl (1 MB)\n", "downloading a-1.0-py3-none-any.whl (1 MB)"),
        ("Installing collected packages: a, b, c\n", "installing 3 packages"),
        ("0123456789ab: Pulling fs layer\nba9876543210: Already exists\n", "1 of 2 layers"),
        ("0123456789ab: Pulling fs layer\n0123456789ab: Pull complete\n", "1 of 1 layers"),
        ("Step 3/10 : RUN make\n", "step 3 of 10"),
        ("43 packages, 120.1 MB, found in 3.2 s\n", "installing 43 packages"),
        ("  Install: 12 packages\n", "installing 12 packages"),
        ("Resolved 99999999999999999999 pack", ""),
    ],
)  # fmt: skip
def test_progress_is_read_from_the_log_as_its_programs_write_it(log: str, words: str, tmp_path: Path) -> None:
    progress = BuildProgress(str(tmp_path / "not there"))
    for byte in log.encode():
        progress.feed(bytes([byte]))
    assert progress.summary() == words
