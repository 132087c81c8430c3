"""The relay through run folders: frames go through files, for supervisors on other machines."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.host.framing import BrokenFrame, encode
from windlass.runner.host.relay import MOST_OF_RUN, MOST_STREAMS, WINDOW
from windlass.runner.shared_folder.exchange import FILE_BYTES, MOST_FILES, Exchange, begin_session, session_of
from windlass.runner.workdir.run_folder import RunFolder

from ..conftest import Hosts
from ..pipe import Host, is_alive, wait_for
from ..supervisor.test_standalone import ENGINE_OWNED, Engine, place
from .test_relay import SERVER, URL, has_ended, said, told, words

CALLS = """
import os, socket, time
count, word, folder = {count}, {word!r}.encode(), os.path.dirname(os.environ["WINDLASS_RELAY"])
made = []
for number in range(count):
    made.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    made[-1].connect(os.environ["WINDLASS_RELAY"])
    made[-1].sendall(word)
print(open(folder + "/url").read(), flush=True)
while True:
    data = made[0].recv(1 << 16)
    print(data, flush=True)
    if not data:
        break
while not os.path.exists("go"):
    time.sleep(0.01)
"""


@pytest.fixture
def engine(root: Path) -> Iterator[Engine]:
    made = Engine(root)
    yield made
    made.close()


@pytest.fixture
def host(hosts: Hosts) -> Host:
    return listening(hosts)


def listening(hosts: Hosts) -> Host:
    made = hosts(options=ENGINE_OWNED)
    made.ask("listen", relay=SERVER, url=URL)
    return made


def start(host: Host, engine: Engine, job: str, count: int = 1, word: str = "hello") -> Any:
    place(host, job, CALLS.format(count=count, word=word), relay=SERVER)
    return engine.start(job)


def finish(host: Host, job: str, started: Any) -> None:
    (host.folder(job) / "source/go").touch()
    assert started.wait(30) == 0


def test_bytes_go_both_ways(host: Host, engine: Engine) -> None:
    started = start(host, engine, "a.1")
    wait_for(lambda: said(host, 1) == b"hello")
    assert [event.get("new") for event in told(host, 1)] == [True]
    host.ask("relay", b"world", stream=1)
    wait_for(lambda: host.read("a.1") == f"{URL}\nb'world'\n".encode())
    host.ask("relay", b"!", stream=1, end=True)
    wait_for(lambda: host.read("a.1").endswith(b"b'!'\nb''\n"))
    host.ask("relay", b"too late", stream=1)
    finish(host, "a.1", started)
    wait_for(lambda: host.observe("a.1")["exit_code"] == 0)


def test_the_socket_is_private_and_goes_with_the_run(host: Host, engine: Engine) -> None:
    started = start(host, engine, "a.1")
    wait_for(lambda: said(host, 1) == b"hello")
    script = host.file("a.1", "claim/process.json")["pid"]
    variables = Path(f"/proc/{script}/environ").read_bytes().split(b"\0")
    [relay] = [each.partition(b"=")[2] for each in variables if each.startswith(b"WINDLASS_RELAY=")]
    folder = Path(os.fsdecode(relay)).parent.parent
    assert not folder.is_relative_to(host.root)
    assert (folder.stat().st_mode & 0o777, Path(os.fsdecode(relay)).stat().st_mode & 0o777) == (0o700, 0o600)
    host.ask("relay", stream=1, end=True)
    finish(host, "a.1", started)
    assert not folder.exists()


def test_lines_of_many_jobs_have_numbers_of_their_own(host: Host, engine: Engine) -> None:
    started = {job: start(host, engine, job, word=job) for job in ("a.1", "b.1", "c.1")}
    wait_for(lambda: len(words(host)) == 3)
    lines = {event["data"].decode(): event["stream"] for event in host.events if event.get("new")}
    assert sorted(lines) == ["a.1", "b.1", "c.1"] and len(set(lines.values())) == 3
    for job, line in lines.items():
        host.ask("relay", f"to {job}".encode(), stream=line, end=True)
    for job in lines:
        wait_for(lambda j=job: f"b'to {j}'".encode() in host.read(j))  # type: ignore[misc]
        finish(host, job, started[job])


def test_when_the_host_is_killed_all_lines_end_and_the_next_one_takes_over(hosts: Hosts, engine: Engine) -> None:
    first = listening(hosts)
    started = start(first, engine, "a.1")
    wait_for(lambda: said(first, 1) == b"hello")
    first.kill()
    second = listening(hosts)
    second.ask("watch", jobs=["a.1"])
    wait_for(lambda: second.read("a.1").endswith(b"b''\n"))  # the SDK would ask again, and be heard
    assert told(second, 1) == []
    finish(second, "a.1", started)


def test_an_older_host_gives_way_to_a_newer_one(hosts: Hosts, engine: Engine) -> None:
    first = listening(hosts)
    started = start(first, engine, "a.1")
    wait_for(lambda: said(first, 1) == b"hello")
    second = listening(hosts)
    second.ask("watch", jobs=["a.1"])
    wait_for(lambda: has_ended(first, 1))
    wait_for(lambda: second.read("a.1").endswith(b"b''\n"))
    finish(second, "a.1", started)


def test_a_run_has_a_limited_number_of_lines(host: Host, engine: Engine) -> None:
    start(host, engine, "a.1", count=MOST_OF_RUN + 10)
    wait_for(lambda: len(words(host)) == MOST_OF_RUN)
    other = start(host, engine, "b.1", word="other")
    wait_for(lambda: b"other" in words(host))
    assert words(host).count(b"hello") == MOST_OF_RUN
    line = next(event["stream"] for event in host.events if event.get("data") == b"other")
    host.ask("relay", stream=line, end=True)
    finish(host, "b.1", other)


def test_a_run_is_heard_although_others_have_all_the_lines(host: Host, engine: Engine) -> None:
    jobs = [f"greedy{number}.1" for number in range(MOST_STREAMS // MOST_OF_RUN)]
    for job in jobs:
        start(host, engine, job, count=MOST_OF_RUN)
    wait_for(lambda: words(host).count(b"hello") == MOST_STREAMS, 60)
    start(host, engine, "other.1", word="other")
    wait_for(lambda: b"other" in words(host))
    ended = [event["stream"] for event in host.events if event["event"] == "relay" and event.get("end")]
    assert len(ended) == 1, "as many as it takes"


POURS = """
import os, select, socket, time
made = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(40)]
for each in made:
    each.connect(os.environ["WINDLASS_RELAY"])
    each.setblocking(False)
ready = made
while ready:
    for each in ready:
        try:
            each.send(b"x" * 65536)
        except BlockingIOError:
            pass
    ready = select.select([], made, [], 2)[1]
print("full", flush=True)
time.sleep(600)
"""


def test_a_host_that_does_not_read_fills_no_disk(host: Host, engine: Engine) -> None:
    place(host, "a.1", POURS, relay=SERVER)
    folder = host.folder("a.1") / "relay"
    wait_for(lambda: (folder / "session").exists())
    os.kill(host.pid, signal.SIGSTOP)
    try:
        engine.start("a.1")
        log = host.folder("a.1") / "user_logs/std_log.txt"
        wait_for(lambda: log.exists() and log.read_text() == "full\n")
        files = [path for path in folder.iterdir() if path.name.startswith("up.")]
        assert len(files) <= MOST_FILES + 1  # and one that is being written
        assert sum(path.stat().st_size for path in files) <= (MOST_FILES + 1) * FILE_BYTES
    finally:
        os.kill(host.pid, signal.SIGCONT)
    wait_for(lambda: len(words(host)) >= MOST_OF_RUN)
    wait_for(lambda: not [path for path in folder.iterdir() if path.name.startswith("up.")])
    assert max(len(said(host, line)) for line in range(1, 40)) <= WINDOW


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 100,
        encode({"stream": "x"}),
        encode({"stream": 1, "credit": -1}),
        encode({"stream": 1, "new": True}, b"y"),
    ],
)
def test_what_a_script_writes_there_harms_only_its_own_lines(host: Host, engine: Engine, content: bytes) -> None:
    started = start(host, engine, "a.1")
    wait_for(lambda: said(host, 1) == b"hello")
    folder = RunFolder(str(host.root / "runs"), "a.1")
    session = session_of(folder)
    (Path(folder.path) / "relay" / f"up.{session}.1").write_bytes(content)
    other = start(host, engine, "b.1", word="other")
    wait_for(lambda: b"other" in words(host))
    line = next(event["stream"] for event in host.events if event.get("data") == b"other")
    host.ask("relay", b"fine", stream=line, end=True)
    finish(host, "b.1", other)
    assert is_alive(host.pid) and is_alive(started.pid)


# ---- the exchange of files ----


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "a.1").mkdir()
    return RunFolder(str(tmp_path), "a.1")


def ends(folder: RunFolder) -> tuple[Exchange, Exchange]:
    session = begin_session(folder)
    return Exchange(folder, session, "up", "down"), Exchange(folder, session, "down", "up")


def test_frames_arrive_in_order_however_they_are_cut(folder: RunFolder) -> None:
    script, host = ends(folder)
    sent = [({"stream": number}, os.urandom(number * 1009 % (1 << 16))) for number in range(300)]
    heard: list[Any] = []
    for frame in sent:
        script.send(*frame)
    while len(heard) < len(sent):
        script.flush()
        heard += host.receive()
    assert heard == sent
    assert os.listdir(folder.at("relay")) == ["session"]


def test_the_sender_waits_for_the_reader(folder: RunFolder) -> None:
    script, host = ends(folder)
    for _ in range(100):
        script.send({"stream": 1}, b"x" * (1 << 16))
    script.flush()
    script.flush()
    assert len(os.listdir(folder.at("relay"))) == MOST_FILES + 1
    assert script.has_waiting and not script.is_free
    list(host.receive())
    script.flush()
    assert not script.has_waiting


def test_a_new_session_has_nothing_of_the_last(folder: RunFolder) -> None:
    script, host = ends(folder)
    script.send({"stream": 1}, b"old")
    host.send({"stream": 1}, b"old")
    script.flush()
    host.flush()
    script, host = ends(folder)
    assert list(host.receive()) == list(script.receive()) == []


def test_frames_that_are_too_large_are_refused(folder: RunFolder) -> None:
    script, host = ends(folder)
    script.send({"stream": 1}, b"x" * ((1 << 16) + 1))
    script.flush()
    with pytest.raises(BrokenFrame):
        list(host.receive())


def test_links_are_not_followed(folder: RunFolder, tmp_path: Path) -> None:
    _, host = ends(folder)
    (tmp_path / "outside").write_bytes(encode({"stream": 1}))
    os.symlink(tmp_path / "outside", folder.at(f"relay/up.{host.session}.0"))
    with pytest.raises(Exception, match="link"):
        list(host.receive())
