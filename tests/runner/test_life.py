"""A job from start to status: what was asked for is what runs, once, and its end is told as it was."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Hosts
from .pipe import Host, RequestRefused, wait_for, zip_of


@pytest.mark.parametrize("code", [0, 1, 2, 7, 126, 127, 128, 137, 143, 255])
def test_an_exit_code_stays_what_it_is(host: Host, code: int) -> None:
    host.start("a.1", ["sh", "-c", f"exit {code}"])
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("exited", code, None)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGSEGV", "SIGKILL", "SIGTERM", "SIGUSR1", "SIGXCPU"])
def test_a_signal_is_not_an_exit_code(host: Host, name: str) -> None:
    number = getattr(signal, name)
    host.start("a.1", ["sh", "-c", f"ulimit -c 0; kill -{int(number)} $$"])
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("signaled", None, number)
    assert ended["core_dumped"] is False


def test_a_core_dump_is_told(host: Host) -> None:
    script = "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)); os.abort()"
    host.python("a.1", script)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"], ended["core_dumped"]) == ("signaled", signal.SIGABRT, True)


def test_arguments_arrive_verbatim(host: Host) -> None:
    words = [
        "",
        " ",
        "a b",
        "'",
        '"',
        "$(touch pwn)",
        "`id`",
        "line\nbreak",
        "\t",
        "äöü é 漢字",
        "-c",
        "--",
        "*",
        "\\",
        "a" * 100_000,
    ]
    host.python("a.1", "import json, sys; print(json.dumps(sys.argv[1:]))", *words)
    assert host.wait("a.1")["exit_code"] == 0
    assert json.loads(host.read("a.1")) == words


def test_where_a_script_finds_itself(host: Host) -> None:
    sdk = zip_of({"windlass/__init__.py": b"here = True"})
    digest = hashlib.sha256(sdk).hexdigest()
    run = host.run_json("a.1", ["{python}", "-c", ABOUT_ITSELF], env={"A": "b", "PYTHONPATH": "/own"}, sdk=digest)
    assert host.ask("start", run=run)[0]["sdk"] is True
    host.ask("sdk", sdk, digest=digest)
    host.ask("start", run=run)
    assert host.wait("a.1")["exit_code"] == 0, host.read("a.1")
    seen: dict[str, Any] = json.loads(host.read("a.1"))
    folder = str(host.folder("a.1"))
    assert seen["cwd"] == f"{folder}/source"
    assert seen["env"]["WINDLASS_RUN_FOLDER"] == folder
    assert seen["env"]["WINDLASS_COOKIE"] == run["nonce"]
    assert seen["env"]["PYTHONUNBUFFERED"] == "1"
    assert seen["env"]["PYTHONPATH"] == f"{host.root}/sdk/{digest}:/own"
    assert seen["env"]["A"] == "b"
    assert seen["windlass"] is True
    assert seen["stdin"] == ""
    assert seen["fds"] == ["0", "1", "2"]
    assert seen["session"] == seen["pid"]
    assert seen["umask"] == 0o022
    assert seen["ignored"] == []


ABOUT_ITSELF = """
import json, os, signal, sys
import windlass
fds = sorted(set(os.listdir("/proc/self/fd")) & {str(n) for n in range(64) if os.path.exists(f"/proc/self/fd/{n}")})
asked = {signal.SIGPIPE, signal.SIGXFSZ}  # Python's own wish in the script
ignored = [int(s) for s in signal.valid_signals() if s not in asked and signal.getsignal(s) is signal.SIG_IGN]
print(json.dumps({
    "cwd": os.getcwd(), "env": dict(os.environ), "windlass": windlass.here, "stdin": sys.stdin.read(),
    "fds": fds, "session": os.getsid(0), "pid": os.getpid(), "umask": os.umask(0), "ignored": ignored,
}))
"""


def test_variables_of_the_server_stay_with_it(hosts: Hosts) -> None:
    ours = {"WINDLASS_SECRET": "x", "AZUREML_RUN_TOKEN": "x", "PYTHONPATH": "/x", "VIRTUAL_ENV": "/x"}
    host = hosts(env={**ours, "KEPT": "y"})
    host.start("a.1", ["env"])
    host.wait("a.1")
    found = host.read("a.1").splitlines()
    assert b"KEPT=y" in found
    assert not set(found) & {f"{name}={value}".encode() for name, value in ours.items()}


def test_without_an_environment_python3_of_the_path_is_taken(host: Host) -> None:
    host.python("a.1", "import sys; print(sys.version_info[0])", environment=None)
    assert host.wait("a.1")["exit_code"] == 0
    assert host.read("a.1") == b"3\n"


def test_started_twice_is_executed_once(host: Host) -> None:
    run = host.run_json("a.1", ["sh", "-c", "echo once"])
    answers = [host.ask("start", run=run)[0] for _ in range(3)]
    assert [answer["claimed"] for answer in answers] == [True, False, False]
    host.wait("a.1")
    assert host.ask("start", run=run)[0]["claimed"] is False
    assert host.wait("a.1")["exit_code"] == 0
    assert host.read("a.1") == b"once\n"
    assert host.event_names("a.1").count("exec") == 1


@pytest.mark.parametrize("way", ["as it is", "of an older runner", "whose script removed it"])
def test_a_job_with_another_nonce_is_not_there(hosts: Hosts, way: str) -> None:
    """Also after the host that started it was killed: the next one adopts only what its own server asks for."""
    first = hosts()
    first.python("a.1", "import time; print('up', flush=True); time.sleep(600)")
    first.wait_running("a.1")
    wait_for(lambda: first.read("a.1") == b"up\n")
    first.kill()
    folder = first.folder("a.1")
    if way == "of an older runner":
        (folder / "fence").write_bytes(b"%20d" % 1)
        (first.root / "started/a.1").unlink()
    elif way == "whose script removed it":
        shutil.rmtree(folder)
    second = hosts()
    theirs: dict[str, Any] = {"job": "a.1", "nonce": "another"}
    assert second.ask("observe", jobs=[["a.1", "another"]])[0]["jobs"][0]["phase"] == "lost"
    assert second.ask("read", path="user_logs/std_log.txt", **theirs)[1] == b""
    assert second.ask("files", **theirs)[0]["files"] == []
    with pytest.raises(RequestRefused, match="Another server") as refused:
        second.start("a.1", ["true"], nonce="another")
    assert refused.value.code == "taken"
    second.ask("stop", grace=0, fence=9, **theirs)
    second.ask("clean", **theirs)
    second.ask("watch", jobs=[["a.1", "another"]])
    assert wait_for(lambda: second.events[1:]) == [{"event": "job_changed", "job": "a.1", "nonce": "another"}]
    assert second.observe("a.1")["phase"] == "running"
    second.ask("stop", job="a.1", grace=5, fence=1)
    assert second.wait("a.1")["reason"] == "stopped"


def test_of_two_servers_that_start_the_same_job_one_is_refused(hosts: Hosts) -> None:
    pair = [hosts(), hosts()]
    for number in range(20):
        runs = [each.run_json(f"a{number}.1", ["true"], nonce=f"of {each.pid}") for each in pair]
        sent = [each.send("start", run=run) for each, run in zip(pair, runs, strict=True)]
        answers = [each.answer(one)[0] for each, one in zip(pair, sent, strict=True)]
        refused = ["error" in answer for answer in answers]
        assert sorted(refused) == [False, True]
        assert answers[refused.index(True)]["error"]["code"] == "taken"
        winner, run = pair[refused.index(False)], runs[refused.index(False)]
        named = [run["job"], run["nonce"]]
        seen = wait_for(lambda: (o := winner.ask("observe", jobs=[named])[0]["jobs"][0])["phase"] == "ended" and o)  # noqa: B023
        assert seen["exit_code"] == 0
        assert winner.file(run["job"], "run.json")["nonce"] == run["nonce"]


def test_a_watch_does_not_go_over_to_a_job_of_another_server(hosts: Hosts) -> None:
    """One of the same id that took the place of a job which another host of its server cleaned up."""
    first, second, other = hosts(), hosts(), hosts()
    first.python("a.1", "import time; print('ours', flush=True); time.sleep(600)")
    first.wait_running("a.1")
    second.ask("watch", jobs=["a.1"])
    wait_for(lambda: [event for event in second.events if event.get("event") == "file_grew"])
    first.ask("stop", job="a.1", grace=5, fence=1)
    first.wait("a.1")
    first.clean("a.1")
    (first.root / "ended/a.1").unlink()  # as a week later
    second.events.clear()
    other.python("a.1", "print('theirs', flush=True); import time; time.sleep(600)", nonce="another")
    named = ["a.1", "another"]
    wait_for(lambda: other.ask("observe", jobs=[named])[0]["jobs"][0].get("stage") == "Running")
    second.ask("watch", jobs=["a.1"])
    assert second.observe("a.1")["phase"] == "lost"
    assert {(event["event"], event["nonce"]) for event in second.events} == {("job_changed", second.nonce("a.1"))}
    other.ask("stop", job="a.1", nonce="another", grace=5)


def test_a_request_names_the_nonce(host: Host) -> None:
    for nonce in ("", None, 7, "a\0"):
        for do in ("read", "files", "stop", "clean"):
            with pytest.raises(RequestRefused) as refused:
                host.ask(do, job="a.1", nonce=nonce, path="status.json", grace=0)
            assert refused.value.code == "invalid"
        for do in ("observe", "watch"):
            with pytest.raises(RequestRefused) as refused:
                host.ask(do, jobs=[["a.1", nonce]])
            assert refused.value.code == "invalid"


def test_a_lower_fence_is_refused(host: Host) -> None:
    host.start("a.1", ["sleep", "60"], fence=5)
    for fence in (5, 7):
        host.ask("start", run=host.run_json("a.1", ["sleep", "60"], fence=fence))
    with pytest.raises(RequestRefused) as refused:
        host.ask("start", run=host.run_json("a.1", ["sleep", "60"], fence=6))
    assert refused.value.code == "stale"
    with pytest.raises(RequestRefused):
        host.ask("stop", job="a.1", grace=0, fence=6)
    host.ask("stop", job="a.1", grace=0, fence=7)
    assert host.wait("a.1")["reason"] == "stopped"


def test_nothing_is_started_while_files_are_missing(host: Host) -> None:
    digest = hashlib.sha256(b"print(1)").hexdigest()
    run = host.run_json("a.1", ["{python}", "a.py"], sdk="0" * 64)
    run["files"] = [["a.py", digest, 8, False]]
    assert host.ask("start", run=run)[0] == {"id": 1, "ok": True, "missing": [digest], "sdk": True}
    assert not host.folder("a.1").exists()
    assert host.observe("a.1")["phase"] == "lost"


def test_a_file_cut_short_by_a_crash_is_sent_again(host: Host) -> None:
    run = host.run_json("a.1", ["{python}", "a.py"], {"a.py": b"print('whole')"})
    stored = host.root / "files" / run["files"][0][1]
    stored.chmod(0o600)
    stored.write_bytes(b"")
    assert host.ask("start", run=run)[0]["missing"] == [stored.name]
    host.put(b"print('whole')")
    assert host.ask("start", run=run)[0]["claimed"] is True
    host.wait("a.1")
    assert host.read("a.1") == b"whole\n"


def test_the_source_is_placed_with_its_bits(host: Host) -> None:
    files = {
        "train.sh": b"#!/bin/sh\ncat pkg/deep/data.bin\n",
        "pkg/deep/data.bin": bytes(range(256)),
        "pkg/empty": b"",
    }
    host.start("a.1", ["./train.sh"], files)
    assert host.wait("a.1")["exit_code"] == 0
    assert host.read("a.1") == bytes(range(256))
    source = host.folder("a.1") / "source"
    assert {p.name for p in source.iterdir()} == {"train.sh", "pkg", "outputs", "logs"}
    assert (source / "pkg/empty").stat().st_mode & 0o777 == 0o644
    assert (source / "train.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("size", [0, 1, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 3_000_000])
def test_files_of_any_size_are_placed_whole(host: Host, size: int) -> None:
    data = os.urandom(size)
    host.start("a.1", ["true"], {"data": data})
    assert host.wait("a.1")["exit_code"] == 0
    assert (host.folder("a.1") / "source/data").read_bytes() == data


def test_two_runs_of_one_snapshot_do_not_share_files(host: Host) -> None:
    script = "import sys\nwith open('data', 'a') as f: f.write(sys.argv[1])"
    for job in ("a.1", "b.1"):
        host.start(job, ["{python}", "train.py", job], {"train.py": script.encode(), "data": b"-"})
        host.wait(job)
    assert [(host.folder(job) / "source/data").read_text() for job in ("a.1", "b.1")] == ["-a.1", "-b.1"]


def test_the_record_is_complete_and_true_to_the_byte(host: Host) -> None:
    script = """
        import os
        print("hello")
        folder = os.environ["WINDLASS_RUN_FOLDER"]
        for name, data in {"outputs/a/m.pkl": b"\\0\\1", "logs/x.txt": b"log", "other": b"no"}.items():
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            open(name, "wb").write(data)
        open(folder + "/metrics/w.jsonl", "w").write("{}\\n")
        open(folder + "/uploads/ab", "w").write("up")
        os.symlink("/etc/passwd", "outputs/link")
        os.symlink("/etc", "outputs/folder")
        os.mkfifo("outputs/fifo")
    """
    host.python("a.1", "\n".join(line[8:] for line in script.splitlines()))
    ended = host.wait("a.1")
    assert ended["exit_code"] == 0, host.read("a.1")
    expected = {
        "user_logs/std_log.txt": b"hello\n", "source/outputs/a/m.pkl": b"\0\1", "source/logs/x.txt": b"log",
        "metrics/w.jsonl": b"{}\n", "uploads/ab": b"up",
    }  # fmt: skip
    assert ended["files"] == [
        [path, len(data), hashlib.sha256(data).hexdigest()] for path, data in sorted(expected.items())
    ]
    assert host.ask("files", job="a.1")[0]["files"] == ended["files"]
    status = host.file("a.1", "status.json")
    assert status["seconds"] > 0
    assert status["ended_at"] >= status["started_at"]
    assert (host.folder("a.1") / "run.json").stat().st_mode & 0o777 == 0o600


def test_an_unknown_job_is_lost(host: Host) -> None:
    assert host.observe("nobody.1")["phase"] == "lost"
    host.ask("stop", job="nobody.1", grace=1, fence=1)
    host.ask("clean", job="nobody.1")


def test_clean_leaves_nothing_and_is_silent_twice(host: Host) -> None:
    host.python("a.1", "import os; os.makedirs('deep/er'); os.chmod('deep', 0)")
    host.wait("a.1")
    host.ask("clean", job="a.1")
    host.ask("clean", job="a.1")
    assert not host.folder("a.1").exists()
    wait_for(lambda: not list((host.root / "trash").iterdir()))
    assert host.observe("a.1")["phase"] == "lost"


def test_what_was_cleaned_is_never_started_again(host: Host) -> None:
    """Also not by a server that was replaced long ago and does not know it yet."""
    run = host.run_json("a.1", ["true"])
    host.ask("start", run=run)
    host.wait("a.1")
    host.ask("clean", job="a.1")
    with pytest.raises(RequestRefused) as refused:
        host.ask("start", run=run)
    assert refused.value.code == "stale"
    assert not host.folder("a.1").exists()


def test_a_running_job_is_not_cleaned(host: Host) -> None:
    host.start("a.1", ["sleep", "60"])
    host.wait_running("a.1")
    with pytest.raises(RequestRefused, match="still running"):
        host.ask("clean", job="a.1")


def test_an_interpreter_in_the_home_of_the_machine(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(sys.executable)
    host = hosts(env={"HOME": str(tmp_path)})
    host.start("a.1", ["{python}", "-c", "print('here')"], environment={"interpreter": "~/mine"})
    assert host.wait("a.1")["exit_code"] == 0
    assert host.read("a.1") == b"here\n"


def test_what_cannot_be_started_says_why(host: Host) -> None:
    cases: dict[str, tuple[list[str], dict[str, Any], str]] = {
        "script": (["{python}", "nix.py"], {}, "no nix.py in the source folder"),
        "interpreter": (
            ["{python}", "-V"],
            {"environment": {"interpreter": "/no/python9"}},
            "no interpreter /no/python9",
        ),
        "command": (["no-such-program"], {}, "no command no-such-program"),
        "path": (["{python}", "-V"], {"environment": {"interpreter": "python-9.9"}}, "no interpreter python-9.9"),
        "bit": (["./plain"], {}, "executable bit"),
        "format": (["./odd.sh"], {}, "not a program"),
        "shebang": (["./shebang.sh"], {}, "first line that is not on this machine"),
        "long": (["true", "x" * 200_000], {}, "E2BIG"),
        "folder": (["./sub"], {}, "denied"),
    }
    files = {"plain": b"#!/bin/sh\n", "odd.sh": b"\x7fnot", "shebang.sh": b"#!/no/such/thing\n", "sub/x": b""}
    for name, (command, more, expected) in cases.items():
        host.start(f"{name}.1", command, files, **more)
        ended = host.wait(f"{name}.1")
        assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("start_failed", None, None), name
        assert expected in ended["message"], (name, ended["message"])


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"command": []},
        {"command": ["a\0b"]},
        {"command": "sh"},
        {"env": {"A=B": "x"}},
        {"env": {"": "x"}},
        {"env": {"A": "x\0"}},
        {"env": {"A": 1}},
        {"nonce": ""},
        {"watch": [".."]},
        {"fence": -1},
        {"time_limit": -1},
        {"time_limit": float("nan")},
        {"grace": "long"},
        {"log_cap": True},
        {"build_limit": "long"},
        {"environment": {"interpreter": 7}},
        {"environment": {"interpreter": ""}},
        {"job": "../x"},
        {"job": "a/b"},
        {"job": ""},
        {"files": [["a", "short", 1, False]]},
        {"files": [["a"]]},
    ],
    ids=str,
)
def test_a_run_that_makes_no_sense_is_refused(host: Host, change: dict[str, Any]) -> None:
    run = {**host.run_json("a.1", ["true"]), **change}
    with pytest.raises(RequestRefused) as refused:
        host.ask("start", run=run)
    assert refused.value.code == "invalid"
    assert not list((host.root / "runs").iterdir())
    host.start("b.1", ["true"])
    assert host.wait("b.1")["exit_code"] == 0


def test_a_hundred_jobs_at_once_are_kept_apart(host: Host) -> None:
    for i in range(100):
        host.start(f"j{i}.1", ["sh", "-c", f"echo {i}; exit {i}"])
    jobs = [f"j{i}.1" for i in range(100)]
    wait_for(lambda: all(seen["phase"] == "ended" for seen in host.ask("observe", jobs=jobs)[0]["jobs"]), 60)
    seen = host.ask("observe", jobs=jobs)[0]["jobs"]
    assert [one["exit_code"] for one in seen] == list(range(100))
    assert [host.read(job) for job in jobs] == [f"{i}\n".encode() for i in range(100)]


def test_the_files_of_many_ended_jobs_are_told_in_several_answers(host: Host) -> None:
    jobs = ["a.1", "b.1", "c.1"]
    for job in jobs:
        host.start(job, ["true"])
        host.wait(job)
        status = host.file(job, "status.json")
        files = [[f"source/outputs/{number:04000}", 1, "0" * 64] for number in range(1500)]
        (host.folder(job) / "status.json").write_text(json.dumps({**status, "files": files}))
    assert [seen["phase"] for seen in host.ask("observe", jobs=jobs)[0]["jobs"]] == ["ended", "running", "running"]
    assert [seen["phase"] for seen in host.ask("observe", jobs=jobs[1:])[0]["jobs"]] == ["ended", "running"]
    assert [len(host.observe(job)["files"]) for job in jobs] == [1500, 1500, 1500]


def test_runs_go_on_when_the_host_ends(hosts: Hosts) -> None:
    first = hosts()
    first.start("a.1", ["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 5"])
    first.wait_running("a.1")
    assert first.close() == 0
    second = hosts()
    assert second.observe("a.1")["phase"] == "running"
    (second.folder("a.1") / "source/go").touch()
    assert second.wait("a.1")["exit_code"] == 5


def test_check_says_what_the_machine_offers(host: Host) -> None:
    inventory = host.ask("check")[0]["inventory"]
    assert inventory["cores"] == len(os.sched_getaffinity(0))
    assert inventory["memory_mb"] > 0 and inventory["disk_free_mb"] > 0
    assert inventory["python"] == ".".join(map(str, sys.version_info[:3]))
    assert inventory["boot_id"] == host.hello["boot_id"]
    assert inventory["os"] and inventory["machine"] == os.uname().machine
