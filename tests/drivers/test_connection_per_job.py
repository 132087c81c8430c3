"""A kind whose jobs have a host each, and so a connection each: operations, events and the relay find theirs."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.harnesses import LocalHarness
from tests.drivers.machine.test_relay import Server, echo
from windlass import drivers
from windlass.core.states import Phase
from windlass.drivers.base import Driver, Event, Features, Handle, JobChanged
from windlass.drivers.kinds.local import LocalDriver
from windlass.drivers.machine import runner_package
from windlass.drivers.machine.host_client import HostClient
from windlass.drivers.machine.subscriptions import Feed
from windlass.drivers.machine.transport import ChildProcess
from windlass.testing.harness import PATIENCE, wait_until
from windlass.testing.programs import SLEEPS, Program, exits

SECOND = timedelta(seconds=1)

CALLS = Program(
    """
import os, socket
made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
os.chdir(os.path.dirname(os.environ["WINDLASS_RELAY"]))
made.connect("relay.sock")
made.sendall(b"hello")
print(made.recv(5).decode(), flush=True)
"""
)


class HostPerJob(LocalDriver):
    """This computer, with a folder and a host for each job, as a pod has them."""

    features = Features()

    def connection_key(self, handle: Handle | None = None) -> str:
        return self._key() if handle is None else f"{self._key()} {handle.native_id}"

    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        root = self._root() / (handle.native_id if handle is not None else "target")
        runner = runner_package.compiled_runner().place(root / "runner.pyz")
        argv = [sys.executable, "-I", "-S", str(runner), "host", "--root", str(root)]
        return HostClient(ChildProcess(self.name, argv), on_event=feed.publish, on_break=feed.publish_all)


class PerJobHarness(LocalHarness):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = Server(echo)
        self.connections = drivers.open_pool(self.server.address())

    def driver(self) -> Driver[Any]:
        return HostPerJob("box", HostPerJob.config_model(**self.config()), self.secrets, self.connections)

    def client_of(self, handle: Handle) -> HostClient:
        driver = self.driver()
        assert isinstance(driver, HostPerJob)
        return driver._client(handle)

    def heal(self) -> None:
        """Its Python is never taken away."""

    def close(self) -> None:
        super().close()
        self.server.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[PerJobHarness]:
    made = PerJobHarness(tmp_path)
    yield made
    made.close()


def watched(box: PerJobHarness) -> queue.SimpleQueue[tuple[str, Event]]:
    events: queue.SimpleQueue[tuple[str, Event]] = queue.SimpleQueue()
    driver = box.driver()
    assert isinstance(driver, HostPerJob)
    driver.watch(lambda job, event: events.put((job, event)))
    return events


def wait_for_end(events: queue.SimpleQueue[tuple[str, Event]], ended: set[str]) -> None:
    while ended:
        job, event = events.get(timeout=PATIENCE)
        if isinstance(event, JobChanged) and event.observation and event.observation.phase is Phase.ENDED:
            ended.discard(job)


def test_jobs_are_grouped_by_their_connections(box: PerJobHarness) -> None:
    handles = [box.start(exits(number)) for number in range(3)]
    assert len({box.client_of(handle).transport.pid for handle in handles}) == 3
    for handle in handles:
        box.wait(handle)
    unknown = [Handle("local", handle.native_id, "of another server") for handle in handles]
    before = [box.client_of(handle).sent for handle in handles]
    seen = box.driver().observe([handles[2], *unknown, handles[0], handles[1]])
    assert [each.exit_code for each in seen] == [2, None, None, None, 0, 1]
    assert [box.client_of(handle).sent for handle in handles] == [sent + 1 for sent in before]


def test_events_come_from_each_connection_also_after_one_broke(box: PerJobHarness) -> None:
    events = watched(box)
    handles = [box.start(SLEEPS), box.start(SLEEPS)]
    for handle in handles:
        box.wait_for_line(handle)
    broken = box.client_of(handles[0])
    assert broken.transport.pid is not None
    os.kill(broken.transport.pid, signal.SIGKILL)
    wait_until(lambda: not broken.is_open, "the connection breaks")
    assert [seen.phase for seen in box.driver().observe(handles)] == [Phase.RUNNING, Phase.RUNNING]
    for handle in handles:
        box.driver().stop(handle, SECOND)
    wait_for_end(events, {handle.native_id for handle in handles})


def test_the_connection_of_a_job_goes_with_it(box: PerJobHarness) -> None:
    watched(box)
    kept, cleaned = box.start(SLEEPS), box.start(exits(0))
    box.wait(cleaned)
    clients = [box.client_of(handle) for handle in (kept, cleaned)]
    box.driver().clean(cleaned)
    assert [client.is_open for client in clients] == [True, False]
    box.driver().stop(kept, SECOND)
    box.wait(kept)
    box.driver().leave()
    assert [client.is_open for client in clients] == [False, False]


def test_scripts_call_the_server_through_the_relay_of_their_host(box: PerJobHarness) -> None:
    handles = [box.start(CALLS), box.start(CALLS)]
    assert [box.wait(handle).exit_code for handle in handles] == [0, 0]
    assert [box.log(handle) for handle in handles] == [b"hello\n", b"hello\n"]
    assert len(box.server.calls) == 2
