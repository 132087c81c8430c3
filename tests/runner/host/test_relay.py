"""Scripts call the server through the machine's host: each byte arrives, in order, and no run blocks another."""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.client.runs.test_submitted_run import oldest_python
from tests.script_calls import ScriptCall
from windlass.runner.host.framing import Pipe
from windlass.runner.host.relay import (
    IDLE_SECONDS,
    MOST_CONNECTIONS,
    MOST_OF_RUN,
    MOST_STREAMS,
    PIECE,
    SILENT_SECONDS,
    WINDOW,
    YIELD_SECONDS,
    Relay,
)

from ..conftest import Hosts
from ..pipe import Host, RequestRefused, is_alive, wait_for

SERVER = "0123456789abcdef"
URL = "http://127.0.0.1:8080"


@pytest.fixture
def listening(host: Host) -> Host:
    host.ask("listen", relay=SERVER, url=URL)
    return host


@pytest.fixture
def call(root: Path) -> Iterator[Any]:
    """Makes calls to the relay."""
    made: list[ScriptCall] = []

    def one() -> ScriptCall:
        made.append(ScriptCall(root, SERVER))
        return made[-1]

    yield one
    for script in made:
        script.close()


def told(host: Host, line: int) -> list[dict[str, Any]]:
    return [event for event in host.events if event["event"] == "relay" and event["stream"] == line]


def said(host: Host, line: int) -> bytes:
    return b"".join(event.get("data", b"") for event in told(host, line))


def is_said(host: Host, line: int, count: int) -> bool:
    return len(said(host, line)) == count


def room(host: Host, line: int) -> int:
    return sum(event.get("credit", 0) for event in told(host, line))


def has_ended(host: Host, line: int) -> bool:
    return any(event.get("end") for event in told(host, line))


def test_bytes_go_both_ways(listening: Host, call: Any) -> None:
    script = call()
    script.say(b"GET / HTTP/1.1\r\n\r\n")
    wait_for(lambda: said(listening, 1) == b"GET / HTTP/1.1\r\n\r\n")
    assert [event.get("new") for event in told(listening, 1)] == [True]
    listening.ask("relay", b"HTTP/1.1 200\r\n", stream=1)
    listening.ask("relay", b"\r\n\x00\xff", stream=1)
    assert script.hear(18) == b"HTTP/1.1 200\r\n\r\n\x00\xff"
    script.say(b"more")
    wait_for(lambda: said(listening, 1).endswith(b"more"))
    assert [event.get("new") for event in told(listening, 1)] == [True, None]


def test_an_old_python_relays_too(hosts: Hosts, call: Any) -> None:
    host = hosts(python=oldest_python())
    host.ask("listen", relay=SERVER, url=URL)
    script = call()
    script.say(b"hello")
    wait_for(lambda: said(host, 1) == b"hello")
    host.ask("relay", b"world", stream=1, end=True)
    assert script.hear(5) == b"world"
    assert script.hears_the_end


def test_the_end_of_a_line_is_told_either_way(listening: Host, call: Any) -> None:
    first, second = call(), call()
    first.say(b"1")
    wait_for(lambda: said(listening, 1))
    first.close()
    wait_for(lambda: has_ended(listening, 1))
    second.say(b"2")
    wait_for(lambda: said(listening, 2))
    listening.ask("relay", b"bye", stream=2, end=True)
    assert second.hear(3) == b"bye"
    assert second.hears_the_end
    assert not has_ended(listening, 2)  # the side that ended it is not notified
    listening.ask("relay", b"too late", stream=2)
    assert listening.ask("check")[0]["ok"]


def test_who_says_nothing_is_not_told_of(listening: Host, call: Any) -> None:
    call().close()
    script = call()
    script.say(b"x")
    wait_for(lambda: said(listening, 2))
    assert told(listening, 1) == []


def test_a_script_that_sends_much_waits_until_it_was_taken(listening: Host, call: Any) -> None:
    script = call()
    payload = os.urandom(4 * WINDOW)
    sender = threading.Thread(target=script.say, args=(payload,))
    sender.start()
    wait_for(lambda: len(said(listening, 1)) == WINDOW)
    assert listening.ask("check")[0]["ok"]
    assert len(said(listening, 1)) == WINDOW  # and not a byte more, however long it takes
    for more, whole in ((1, WINDOW + 1), (WINDOW - 1, 2 * WINDOW), (2 * WINDOW, 4 * WINDOW)):
        listening.ask("relay", stream=1, credit=more)
        wait_for(partial(is_said, listening, 1, whole))
    sender.join()
    assert said(listening, 1) == payload
    assert max(len(event.get("data", b"")) for event in told(listening, 1)) <= PIECE


def test_a_script_that_reads_slowly_keeps_nobody_waiting(listening: Host, call: Any) -> None:
    slow, other = call(), call()
    slow.say(b"1")
    wait_for(lambda: said(listening, 1))
    payload = os.urandom(WINDOW)
    for start in range(0, WINDOW, PIECE):
        listening.ask("relay", payload[start : start + PIECE], stream=1)
    other.say(b"2")
    wait_for(lambda: said(listening, 2))
    listening.ask("relay", b"quick", stream=2)
    assert other.hear(5) == b"quick"
    assert room(listening, 1) < WINDOW  # it has not taken all, so not all is confirmed
    assert slow.hear(WINDOW) == payload
    wait_for(lambda: room(listening, 1) > WINDOW // 2)


def test_many_lines_at_once_and_more_than_there_may_be(listening: Host, call: Any) -> None:
    scripts = [call() for _ in range(MOST_OF_RUN + 20)]
    for number, script in enumerate(scripts, 1):
        script.say(b"I am %2d" % number)
    wait_for(lambda: all(said(listening, line) for line in range(1, MOST_OF_RUN + 1)))
    for script in scripts[:20]:
        script.close()
    wait_for(lambda: all(said(listening, line) for line in range(MOST_OF_RUN + 1, MOST_OF_RUN + 21)))
    assert [said(listening, line) for line in range(1, MOST_OF_RUN + 21)] == [
        b"I am %2d" % line for line in range(1, MOST_OF_RUN + 21)
    ]
    for line in range(21, MOST_OF_RUN + 21):
        listening.send("relay", b"you are %2d" % line, stream=line)
    for line in range(21, MOST_OF_RUN + 21):
        assert scripts[line - 1].hear(10) == b"you are %2d" % line


def test_who_calls_while_the_host_is_busy_is_not_turned_away(listening: Host, call: Any) -> None:
    os.kill(listening.pid, signal.SIGSTOP)
    try:
        scripts = [call() for _ in range(3 * MOST_STREAMS)]
    finally:
        os.kill(listening.pid, signal.SIGCONT)
    scripts[0].say(b"hello")
    wait_for(lambda: said(listening, 1) == b"hello")


CROWD = """
import os, socket, sys, time
os.chdir(os.path.dirname(os.environ["WINDLASS_RELAY"]))
made = []
for number in range(int(sys.argv[1])):
    made.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    made[-1].connect("relay.sock")
    if sys.argv[2]:
        made[-1].send(sys.argv[2].encode())
print("up", flush=True)
time.sleep(600)
"""


def words(host: Host) -> list[bytes]:
    """What each new line began with."""
    return [event["data"] for event in host.events if event["event"] == "relay" and event.get("new")]


@pytest.mark.parametrize("word", ["", "spoken"])
@pytest.mark.parametrize("many", [300, MOST_CONNECTIONS + 100])
def test_a_run_with_many_connections_keeps_no_other_waiting(listening: Host, word: str, many: int) -> None:
    """Whether they are silent, or say something and then nothing more."""
    listening.python("greedy.1", CROWD, str(many), word, relay=SERVER)
    wait_for(lambda: listening.read("greedy.1") == b"up\n")
    listening.python("other.1", CROWD, "3", "hello", relay=SERVER)
    wait_for(lambda: words(listening).count(b"hello") == 3)
    assert words(listening).count(b"spoken") <= MOST_OF_RUN
    for job in ("greedy.1", "other.1"):
        listening.ask("stop", job=job, grace=0)
        listening.wait(job)


def test_a_run_is_heard_although_others_have_all_the_lines(listening: Host) -> None:
    greedy = [f"greedy{number}.1" for number in range(MOST_STREAMS // MOST_OF_RUN)]
    for job in greedy:
        listening.python(job, CROWD, str(MOST_OF_RUN), "spoken", relay=SERVER)
    wait_for(lambda: words(listening).count(b"spoken") == MOST_STREAMS)
    listening.python("other.1", CROWD, "1", "hello", relay=SERVER)
    wait_for(lambda: words(listening).count(b"hello") == 1)
    ended = [event["stream"] for event in listening.events if event["event"] == "relay" and event.get("end")]
    assert len(ended) == 1, "as many as it takes"
    for job in (*greedy, "other.1"):
        listening.ask("stop", job=job, grace=0)
        listening.wait(job)


def test_only_its_owner_may_connect(listening: Host, root: Path) -> None:
    folder = root / "relays" / SERVER
    assert stat.S_IMODE((folder / "relay.sock").stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (root, folder.parent, folder)} == {0o700}
    assert (folder / "url").read_text() == URL
    assert sorted(os.listdir(folder)) == ["relay.sock", "url"]


@pytest.mark.parametrize("name", ["", "../../etc", "0123456789ABCDEF", "0" * 17, None, 7])
def test_a_relay_has_a_servers_id(host: Host, name: object) -> None:
    with pytest.raises(RequestRefused, match="Not a server's id"):
        host.ask("listen", relay=name, url=URL)
    with pytest.raises(RequestRefused, match="Not a server's id"):
        host.python("a.1", "pass", relay=name or "x")


def test_a_folder_deep_down_is_no_obstacle(tmp_path: Path) -> None:
    root = tmp_path / ("deep" * 30) / "down"
    host = Host(root)
    try:
        host.ask("listen", relay=SERVER, url=URL)
        script = ScriptCall(root, SERVER)
        script.say(b"here")
        wait_for(lambda: said(host, 1) == b"here")
        script.close()
    finally:
        host.end()


SAYS_WHERE = """
import os
print(os.environ.get("WINDLASS_RELAY"), os.environ.get("WINDLASS_HOME"))
"""


def test_a_script_is_told_where_the_relay_is_if_it_needs_it(listening: Host, root: Path) -> None:
    listening.python("with.1", SAYS_WHERE, relay=SERVER, env={"WINDLASS_HOME": "/home/of/the/server"})
    listening.python("without.1", SAYS_WHERE, env={"WINDLASS_HOME": "/home/of/the/server"})
    for job in ("with.1", "without.1"):
        listening.wait(job)
    assert listening.read("with.1").split() == [bytes(root / "relays" / SERVER / "relay.sock"), b"None"]
    assert listening.read("without.1").split() == [b"None", b"/home/of/the/server"]


def test_a_run_does_not_hold_the_lines_of_others(listening: Host, call: Any) -> None:
    script = call()
    script.say(b"x")
    wait_for(lambda: said(listening, 1))
    listening.python("a.1", "import time; time.sleep(60)")
    listening.wait_running("a.1")
    listening.ask("relay", stream=1, end=True)
    assert script.hears_the_end
    listening.ask("stop", job="a.1", grace=0)


def test_when_the_pipe_breaks_all_lines_end_and_the_next_host_takes_over(hosts: Hosts, call: Any) -> None:
    first = hosts()
    first.ask("listen", relay=SERVER, url=URL)
    script = call()
    script.say(b"to the first")
    wait_for(lambda: said(first, 1))
    first.close()
    assert script.hears_the_end
    with pytest.raises(ConnectionRefusedError):
        call()
    second = hosts()
    second.ask("listen", relay=SERVER, url="http://127.0.0.1:9999")
    script = call()
    script.say(b"to the second")
    wait_for(lambda: said(second, 1) == b"to the second")
    assert (second.root / "relays" / SERVER / "url").read_text() == "http://127.0.0.1:9999"


def test_a_host_that_was_killed_leaves_nothing_in_the_way(hosts: Hosts, call: Any) -> None:
    first = hosts()
    first.ask("listen", relay=SERVER, url=URL)
    first.kill()
    second = hosts()
    second.ask("listen", relay=SERVER, url=URL)
    call().say(b"x")
    wait_for(lambda: said(second, 1))


def test_each_server_has_a_relay_of_its_own(hosts: Hosts, root: Path, call: Any) -> None:
    first, second = hosts(), hosts()
    first.ask("listen", relay=SERVER, url=URL)
    second.ask("listen", relay="f" * 16, url=URL)
    call().say(b"x")
    wait_for(lambda: said(first, 1))
    assert told(second, 1) == []


# In this process, where a moment need not be waited for.


class World:
    """A relay whose pipe ends here."""

    def __init__(self, folder: Path) -> None:
        self._heard, self._sink = os.pipe()
        source, self._unused = os.pipe()
        os.set_blocking(self._heard, False)
        self.pipe = Pipe(source, self._sink)
        self.relay = Relay(self.pipe)
        self.folder = folder

    def heard(self) -> bytes:
        """All that came through the pipe."""
        found = b""
        while True:
            self.pipe.flush()
            try:
                found += os.read(self._heard, 1 << 16)
            except BlockingIOError:
                return found

    def pump(self) -> None:
        """What the host does, until nothing is left to do."""
        while True:
            poll = select.poll()
            self.relay.register(poll)
            ready = [fd for fd, _ in poll.poll(0)]
            if not ready:
                return
            self.relay.serve(ready)

    def close(self) -> None:
        self.relay.close()
        for fd in (self._heard, self._sink, self._unused, self.pipe.source):
            os.close(fd)


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    made: list[World] = []

    def make() -> World:
        made.append(World(tmp_path / "relays" / SERVER))
        made[-1].relay.listen(str(made[-1].folder), URL)
        return made[-1]

    yield make
    for world in made:
        world.close()


def connect(world: World) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.chdir(world.folder)
    try:
        made.connect("relay.sock")
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


def later(world: World) -> None:
    world.relay.step(world.relay.next_moment())


def test_who_sends_waits_while_the_pipe_is_busy(worlds: Any) -> None:
    world = worlds()
    with connect(world) as script:
        world.pump()
        while world.pipe.is_free:
            world.pipe.send({"event": "file_grew"}, b"x" * PIECE)
        script.send(b"request")
        world.pump()
        assert b"request" not in world.heard()
        world.pump()
        assert world.heard().endswith(b"request")


def test_lines_take_turns_where_there_is_little_room(worlds: Any) -> None:
    world = worlds()
    signs = [bytes([0x80 + number]) for number in range(8)]
    with ExitStack() as stack:
        scripts = [stack.enter_context(connect(world)) for _ in signs]
        world.pump()
        for script, sign in zip(scripts, signs, strict=True):
            script.send(sign * WINDOW)
        heard = b""
        for _ in range(2):
            world.pump()
            heard += world.heard()
        assert all(sign in heard for sign in signs)


def is_ended(script: socket.socket) -> bool:
    try:
        return script.recv(1) == b""
    except BlockingIOError:
        return False


def test_what_is_idle_ends(worlds: Any) -> None:
    world = worlds()
    with connect(world) as silent, connect(world) as spoken, connect(world) as busy:
        now = time.monotonic()
        spoken.send(b"1")
        world.pump()
        while world.pipe.is_free:
            world.pipe.send({"event": "file_grew"}, b"x" * PIECE)
        busy.send(b"2")  # and waits for the pipe
        world.pump()
        world.relay.step(now + SILENT_SECONDS + 60)
        assert [is_ended(each) for each in (silent, spoken, busy)] == [True, False, False]
        world.relay.step(now + IDLE_SECONDS + 60)
        assert [is_ended(each) for each in (spoken, busy)] == [True, False]
        world.heard()
        world.pump()
        assert world.heard().endswith(b"2")


def test_a_line_that_was_idle_gives_way_to_another_of_its_run(worlds: Any) -> None:
    world = worlds()
    with ExitStack() as stack:
        scripts = [stack.enter_context(connect(world)) for _ in range(MOST_OF_RUN + 1)]
        for number, script in enumerate(scripts):
            script.send(b"(%d)" % number)
        world.pump()
        assert b"(31)" in (heard := world.heard()) and b"(32)" not in heard
        assert time.monotonic() < world.relay.next_moment() < float("inf")
        for line in world.relay._streams.values():
            line.moved_at -= YIELD_SECONDS  # as if it were later
        world.pump()
        assert b"(32)" in world.heard()
        assert [is_ended(each) for each in scripts] == [True] + [False] * MOST_OF_RUN


def test_an_older_host_gives_way_to_a_newer_one(worlds: Any) -> None:
    first = worlds()
    with connect(first) as script:
        script.send(b"1")
        first.pump()
        second = worlds()
        later(first)
        assert script.recv(1) == b""  # it may ask again, and then asks the newer one
    with connect(first) as script:
        script.send(b"2")
        second.pump()
        assert second.heard().endswith(b"2")


def test_an_older_host_comes_back_when_the_newer_one_is_gone(worlds: Any) -> None:
    first, second = worlds(), worlds()
    later(first)
    second.relay.close()
    with pytest.raises(ConnectionRefusedError):
        connect(first)
    later(first)
    with connect(first) as script:
        script.send(b"again")
        first.pump()
        assert first.heard().endswith(b"again")


def test_what_a_script_removed_is_made_again(worlds: Any) -> None:
    world = worlds()
    for name in ("relay.sock", "url"):
        (world.folder / name).unlink()
    world.folder.rmdir()
    later(world)
    with connect(world) as script:
        script.send(b"x")
        world.pump()
        assert world.heard().endswith(b"x")


def test_a_host_ends_although_scripts_are_connected(listening: Host, call: Any) -> None:
    script = call()
    script.say(b"x")
    wait_for(lambda: said(listening, 1))
    pid = listening.pid
    assert listening.close() == 0
    assert not is_alive(pid)
