"""Environments that nobody uses any more: told, and removed when that is asked for, whoever is killed meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ..conftest import Hosts
from ..pipe import Host, is_alive, wait_for
from .test_environment import built, counting_uv, wheel


@pytest.fixture
def host(hosts: Hosts, tmp_path: Path) -> Host:
    return hosts(env={"UV_CACHE_DIR": str(tmp_path / "uv-cache"), "UV_OFFLINE": "1"})


def test_an_environment_that_nobody_uses_is_told_and_forgotten(host: Host, tmp_path: Path) -> None:
    wishes = built(wheel(tmp_path, "tiny"))
    host.python("a.1", "import tiny", **wishes)
    host.wait("a.1", 60)
    [[digest, size, idle]] = host.ask("list_environments")[0]["environments"]
    assert size > 100 and idle < 60
    whole = host.root / "environments" / f"{digest}.json"
    os.utime(whole, (1, 1))
    [[_, _, idle]] = host.ask("list_environments")[0]["environments"]
    assert idle > 365 * 86400
    host.python("b.1", "import tiny", **wishes)  # and it is used after all
    host.wait("b.1", 60)
    assert host.ask("evict_environment", environment=digest, idle_seconds=86400)[0]["gone"] is False
    assert whole.exists()
    os.utime(whole, (1, 1))
    assert host.ask("evict_environment", environment=digest, idle_seconds=86400)[0]["gone"] is True
    assert [path.suffix for path in (host.root / "environments").iterdir()] == [".lock"]
    assert host.ask("list_environments")[0]["environments"] == []
    assert host.ask("evict_environment", environment=digest, idle_seconds=86400)[0]["gone"] is True
    wait_for(lambda: not os.listdir(host.root / "trash"))
    host.python("c.1", "import tiny", **wishes)
    assert host.wait("c.1", 60)["exit_code"] == 0


def test_one_that_a_run_lives_in_stays_however_long_it_runs(host: Host, tmp_path: Path) -> None:
    """Its server may be another one than who asks, and has said nothing since it began."""
    host.python("a.1", "import tiny, time; time.sleep(600)", **built(wheel(tmp_path, "tiny")))
    wait_for(lambda: host.observe("a.1").get("stage") == "Running", 60)
    [whole] = (host.root / "environments").glob("*.json")
    os.utime(whole, (1, 1))
    assert host.ask("evict_environment", environment=whole.stem, idle_seconds=86400)[0]["gone"] is False
    host.ask("stop", job="a.1", grace=0)
    host.wait("a.1", 60)
    assert host.ask("evict_environment", environment=whole.stem, idle_seconds=86400)[0]["gone"] is True


@pytest.mark.parametrize("is_moved", [False, True], ids=["before the folder goes", "after it"])
def test_a_host_that_was_killed_while_it_forgot_one(host: Host, tmp_path: Path, is_moved: bool) -> None:
    wishes = built(wheel(tmp_path, "tiny"))
    host.python("a.1", "import tiny", **wishes)
    host.wait("a.1", 60)
    [[digest, size, _]] = host.ask("list_environments")[0]["environments"]
    whole = host.root / "environments" / f"{digest}.json"
    whole.rename(whole.with_suffix(".going"))
    if is_moved:
        shutil.rmtree(whole.with_suffix(""))
    kept = [entry[:2] for entry in host.ask("list_environments")[0]["environments"]]
    assert kept == ([] if is_moved else [[digest, size]])
    left = sorted(path.suffix for path in (host.root / "environments").iterdir())
    assert left == ([".lock"] if is_moved else ["", ".json", ".lock", ".log"])
    assert host.ask("is_prepared", run=wishes)[0]["prepared"] is not is_moved


def test_what_is_half_built_is_not_taken_for_what_was_to_be_forgotten(host: Host, tmp_path: Path) -> None:
    wishes = built(wheel(tmp_path, "tiny"))
    host.python("a.1", "import tiny", **wishes)
    host.wait("a.1", 60)
    [whole] = (host.root / "environments").glob("*.json")
    whole.rename(whole.with_suffix(".going"))
    uv = counting_uv(tmp_path, f'[ "$1" = venv ] || {{ echo $$ > {tmp_path}/pid; exec sleep 600; }}')
    host.python("b.1", "import tiny", **{**wishes, "tools": {"uv": uv}})
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    host.kill_supervisor("b.1")
    wait_for(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    assert [entry[0] for entry in host.ask("list_environments")[0]["environments"]] == [whole.stem]
    assert host.ask("is_prepared", run=wishes)[0]["prepared"] is False
    assert not whole.exists() and not whole.with_suffix(".going").exists()


def test_what_a_killed_building_left_is_told_and_forgotten(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f'[ "$1" = venv ] || {{ echo $$ > {tmp_path}/pid; exec sleep 600; }}')
    host.python("a.1", "import tiny", **built(wheel(tmp_path, "tiny"), uv=uv))
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    assert host.ask("list_environments")[0]["environments"] == []  # it is being built
    host.kill_supervisor("a.1")
    wait_for(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    [[digest, size, idle]] = host.ask("list_environments")[0]["environments"]
    assert size > 100 and idle < 60
    assert host.ask("evict_environment", environment=digest, idle_seconds=86400)[0]["gone"] is False
    assert host.ask("evict_environment", environment=digest, idle_seconds=0)[0]["gone"] is True
    assert [path.suffix for path in (host.root / "environments").iterdir()] == [".lock"]
    assert host.ask("list_environments")[0]["environments"] == []
    wait_for(lambda: not os.listdir(host.root / "trash"))


def test_what_a_failed_building_left_is_told_and_forgotten(host: Host) -> None:
    host.python("a.1", "print('ran')", **built("no-such-package"))
    assert host.wait("a.1", 60)["reason"] == "environment_failed"
    [[digest, size, _]] = host.ask("list_environments")[0]["environments"]
    assert size == 0
    assert host.ask("evict_environment", environment=digest, idle_seconds=0)[0]["gone"] is True
    assert [path.suffix for path in (host.root / "environments").iterdir()] == [".lock"]


def test_a_building_that_is_stopped_leaves_no_half(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f'[ "$1" = venv ] || [ -e {tmp_path}/go ] || {{ touch {tmp_path}/half; sleep 600; }}')
    wishes = built(wheel(tmp_path, "tiny"), uv=uv)
    host.python("a.1", "import tiny", **wishes)
    wait_for(lambda: (tmp_path / "half").exists())
    host.ask("stop", job="a.1", grace=0, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
    assert sorted(path.suffix for path in (host.root / "environments").iterdir()) == [".lock", ".log"]
    (tmp_path / "go").touch()
    host.python("b.1", "import tiny", **wishes)
    assert host.wait("b.1", 60)["exit_code"] == 0, host.read("b.1")


def test_a_building_that_succeeds_takes_the_note_of_the_failed_one_away(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f"[ -e {tmp_path}/go ] || exit 1")
    for job in ("a.1", "b.1"):
        host.python(job, "pass", **built(uv=uv))
        host.wait(job, 60)
        (tmp_path / "go").touch()
    assert host.observe("a.1")["reason"] == "environment_failed"
    assert host.observe("b.1")["exit_code"] == 0
    assert sorted(path.suffix for path in (host.root / "environments").iterdir()) == ["", ".json", ".lock", ".log"]


def test_one_that_is_being_built_is_not_forgotten(host: Host, tmp_path: Path) -> None:
    uv = counting_uv(tmp_path, f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done")
    host.python("a.1", "print('ran')", **built(uv=uv))
    wait_for(lambda: (tmp_path / "calls").exists())
    [lock] = (host.root / "environments").glob("*.lock")
    assert host.ask("evict_environment", environment=lock.stem, idle_seconds=0)[0]["gone"] is False
    (tmp_path / "go").touch()
    assert host.wait("a.1", 60)["exit_code"] == 0


# Of a building that was killed, or of what a host or a server was about to remove.
LEFT = ["", ".aside", ".log", ".failed", ".going", ".json.7.tmp", ".failed.7.tmp", ".what.comes.later"]


@pytest.mark.parametrize("left", LEFT)
def test_leftovers_of_builds_and_evictions_are_removed(host: Host, left: str) -> None:
    digest, stranger = "a" * 64, ".nfs0000"
    folder = host.root / "environments"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{digest}.lock").touch()
    (folder / f"{digest}{left}").mkdir() if left in ("", ".aside") else (folder / f"{digest}{left}").touch()
    (folder / stranger).touch()
    for path in (*folder.iterdir(), folder):
        os.utime(path, (1, 1))
    told = [entry[0] for entry in host.ask("list_environments")[0]["environments"]]
    assert told == ([] if left == ".going" else [digest])  # without its folder that one goes at first sight
    assert host.ask("evict_environment", environment=digest, idle_seconds=1)[0]["gone"] is True
    assert sorted(path.name for path in folder.iterdir()) == [stranger, f"{digest}.lock"]
