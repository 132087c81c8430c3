"""News without asking: a line is known when it is printed, an end when it is there; also where inotify is not."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.host.file_watcher import FileWatcher
from windlass.runner.system import kernel
from windlass.runner.workdir.run_folder import RunFolder

from ..conftest import Hosts
from ..pipe import Host, wait_for


def grown(host: Host, job: str, path: str = "user_logs/std_log.txt") -> list[int]:
    """The sizes that were reported, from 0 on; an end reports them too."""
    sizes = [0]
    for event in host.events:
        if event["event"] == "file_grew" and event["job"] == job and event["path"] == path:
            sizes.append(event["size"])
        elif event["event"] == "job_changed" and event["job"] == job and "seen" in event:
            sizes += [size for name, size, _ in event["seen"].get("files", ()) if name == path and size != sizes[-1]]
    return sizes


def changes(host: Host, job: str) -> int:
    return len([e for e in host.events if e["event"] == "job_changed" and e["job"] == job])


def test_hello_comes_first(host: Host) -> None:
    assert host.hello["event"] == "hello"
    assert host.hello["pid"] == host.pid


def test_a_started_job_is_watched(host: Host) -> None:
    script = """
import os, time
folder = os.environ["WINDLASS_RUN_FOLDER"]
print("one", flush=True)
while not os.path.exists("go"): time.sleep(0.005)
with open(folder + "/metrics/w.jsonl", "a") as file: file.write("{}\\n")
os.makedirs("logs/deep/er")
with open("logs/deep/er/x.txt", "a") as file: file.write("deep")
while not os.path.exists("end"): time.sleep(0.005)
print("two", flush=True)
"""
    host.python("a.1", script)
    wait_for(lambda: grown(host, "a.1")[-1] == 4)
    wait_for(lambda: changes(host, "a.1") == 1)  # it is running
    (host.folder("a.1") / "source/go").touch()
    wait_for(lambda: grown(host, "a.1", "metrics/w.jsonl")[-1] == 3)
    wait_for(lambda: grown(host, "a.1", "source/logs/deep/er/x.txt")[-1] == 4)
    (host.folder("a.1") / "source/end").touch()
    wait_for(lambda: changes(host, "a.1") == 2)  # it has ended
    assert grown(host, "a.1")[-1] == 8, "an end leaves no growth untold"
    assert host.observe("a.1")["phase"] == "ended"


def test_a_chatty_script_is_told_of_in_few_words(host: Host) -> None:
    host.python("a.1", "import os\nfor i in range(20000): os.write(1, b'line\\n')")
    host.wait("a.1")
    wait_for(lambda: grown(host, "a.1")[-1] == 100_000)
    sizes = grown(host, "a.1")
    assert sizes == sorted(set(sizes))
    assert len(sizes) < 2000


def test_a_later_host_tells_of_jobs_it_is_asked_to_watch(hosts: Hosts) -> None:
    first = hosts()
    script = "import os, time; print('x', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.005)\nprint('y')"
    first.python("a.1", script)
    wait_for(lambda: first.read("a.1") == b"x\n")
    first.kill()
    second = hosts()
    second.ask("watch", jobs=["a.1", "unknown.1"])
    wait_for(lambda: grown(second, "a.1")[-1] == 2)
    assert changes(second, "unknown.1") == 1
    before = wait_for(lambda: changes(second, "a.1"))
    (second.folder("a.1") / "source/go").touch()
    wait_for(lambda: grown(second, "a.1")[-1] == 4)
    wait_for(lambda: changes(second, "a.1") > before)
    wait_for(lambda: second.observe("a.1")["phase"] == "ended")


def test_the_death_of_a_supervisor_that_is_not_our_child_is_noticed(hosts: Hosts) -> None:
    """Its lock closes, and that is news."""
    first = hosts()
    first.start("a.1", ["sleep", "600"])
    first.wait_running("a.1")
    second = hosts()
    second.ask("watch", jobs=["a.1"])
    first.kill()
    os.kill(second.file("a.1", "claim/supervisor.json")["pid"], 9)
    wait_for(lambda: "adopted" in second.event_names("a.1"))


def test_an_ended_job_is_told_of_once(host: Host) -> None:
    host.start("a.1", ["true"])
    host.wait("a.1")
    before = wait_for(lambda: changes(host, "a.1"))
    host.ask("watch", jobs=["a.1"])
    wait_for(lambda: changes(host, "a.1") > before)
    assert host.observe("a.1")["phase"] == "ended"


class Scene:
    """A watcher of one folder, and what it reports."""

    def __init__(self, tmp_path: Path) -> None:
        self.told: list[tuple[str, str, int]] = []
        self.watch = FileWatcher(lambda watched, path, size: self.told.append((watched.folder.job, path, size)), 1.0)
        self.folder = RunFolder(str(tmp_path), "a.1")
        self.folder.make(is_built=False)
        self.folder.claim()
        (tmp_path / "a.1/source/logs").mkdir(parents=True)
        self.at = tmp_path / "a.1"

    def step(self) -> list[tuple[str, str, int]]:
        self.watch.read_events(self.watch.fds)
        self.watch.step()
        return self.told


@pytest.fixture
def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """As on a system without inotify."""
    monkeypatch.setattr(kernel, "_libc", object())
    assert kernel.open_inotify() is None
    return Scene(tmp_path)


def test_without_inotify_it_looks_by_itself(deaf: Scene) -> None:
    run: dict[str, Any] = {"watch": ["logs"]}
    deaf.watch.add(deaf.folder, run, "n")
    (deaf.at / "user_logs/std_log.txt").write_text("12345")
    (deaf.at / "source/logs/sub").mkdir()
    (deaf.at / "source/logs/sub/x").write_text("1")
    wait_for(lambda: len(deaf.step()) == 2)
    assert sorted(deaf.told) == [("a.1", "source/logs/sub/x", 1), ("a.1", "user_logs/std_log.txt", 5)]
    assert deaf.watch.changed_jobs == {"a.1"}, "its state is checked too"
    (deaf.at / "user_logs/std_log.txt").write_text("1234567")
    wait_for(lambda: len(deaf.step()) == 3)
    assert deaf.told[-1] == ("a.1", "user_logs/std_log.txt", 7)


def test_the_first_growth_after_a_pause_is_told_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch.add(scene.folder, {"watch": []}, "n")
    wait_for(lambda: scene.step() == [] and is_calm(scene.watch))
    (scene.at / "user_logs/std_log.txt").write_text("1")
    assert scene.step() == [("a.1", "user_logs/std_log.txt", 1)], "as soon as inotify reports it"
    (scene.at / "user_logs/std_log.txt").write_text("12")
    wait_for(lambda: scene.step()[1:] == [("a.1", "user_logs/std_log.txt", 2)])
    scene.watch.close()


def test_a_folder_that_was_replaced_is_watched_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch.add(scene.folder, {"watch": []}, "n")
    (scene.at / "metrics").rmdir()
    wait_for(lambda: scene.step() == [] and "metrics" not in scene.watch.jobs["a.1"].numbers)
    (scene.at / "metrics").mkdir()
    (scene.at / "metrics/w.jsonl").write_text("{}")
    scene.watch.rescan("a.1")
    wait_for(lambda: ("a.1", "metrics/w.jsonl", 2) in scene.step())
    assert "metrics" in scene.watch.jobs["a.1"].numbers
    scene.watch.remove("a.1")
    scene.watch.close()


class Moody:
    """A libc that does not let some paths be watched."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.refused: dict[str, int] = {}  # error by end of the path

    def __getattr__(self, name: str) -> Any:
        return getattr(self.libc, name)

    def inotify_add_watch(self, fd: int, path: bytes, mask: Any) -> int:
        for end, code in self.refused.items():
            if os.fsdecode(path).endswith(end):
                ctypes.set_errno(code)
                return -1
        return int(self.libc.inotify_add_watch(fd, path, mask))


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> Moody:
    made = Moody()
    monkeypatch.setattr(kernel, "_libc", made)
    return made


def is_calm(watch: FileWatcher) -> bool:
    """Whether it relies on inotify; otherwise it polls several times a second."""
    return watch.next_moment() - time.monotonic() > 0.5


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENAMETOOLONG])
def test_a_folder_that_may_not_be_watched_causes_no_polling_of_others(tmp_path: Path, moody: Moody, code: int) -> None:
    """`chmod 000 logs`, or a folder too deep: one script is no reason to look after all of them all the time."""
    moody.refused["/logs"] = code
    scene = Scene(tmp_path)
    scene.watch.add(scene.folder, {"watch": ["logs"]}, "n")
    wait_for(lambda: scene.step() == [] and scene.watch.changed_jobs and is_calm(scene.watch))
    (scene.at / "metrics/w.jsonl").write_text("{}")
    wait_for(lambda: ("a.1", "metrics/w.jsonl", 2) in scene.step())
    scene.watch.close()


def test_it_listens_again_once_the_systems_limit_lets_it(tmp_path: Path, moody: Moody) -> None:
    moody.refused[""] = errno.ENOSPC
    scene = Scene(tmp_path)
    scene.watch.add(scene.folder, {"watch": ["logs"]}, "n")
    (scene.at / "metrics/w.jsonl").write_text("{}")
    wait_for(lambda: ("a.1", "metrics/w.jsonl", 2) in scene.step())
    assert not is_calm(scene.watch)
    moody.refused.clear()
    wait_for(lambda: scene.step() and is_calm(scene.watch))
    (scene.at / "metrics/w.jsonl").write_text("{} {}")
    wait_for(lambda: ("a.1", "metrics/w.jsonl", 5) in scene.step())
    scene.watch.close()
