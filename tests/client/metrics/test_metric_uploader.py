"""Metrics are sent in batches, each line exactly once, also after lost requests and responses."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from windlass.client.metrics.metric_uploader import MetricUploader
from windlass.core.errors import NotFound, ServerUnavailable


class FakeStore:
    """Takes batches as the server does: by writer and offset. Loses some answers, and some requests."""

    def __init__(self, *troubles: str) -> None:
        self.troubles = list(troubles)
        self.lines: dict[str, list[dict[str, Any]]] = {}
        self.batches = 0
        self.gate = threading.Event()
        self.gate.set()

    def post(self, batch: dict[str, Any]) -> None:
        assert self.gate.wait(60)
        trouble = self.troubles.pop(0) if self.troubles else ""
        if trouble == "lost":
            raise ServerUnavailable("lost")
        if trouble == "gone":
            raise NotFound("There is no run.")
        known = self.lines.setdefault(batch["writer"], [])
        assert batch["offset"] <= len(known)
        known += batch["lines"][len(known) - batch["offset"] :]
        self.batches += 1
        if trouble == "answer lost":
            raise ServerUnavailable("answer lost")

    def all(self) -> list[int]:
        (lines,) = self.lines.values()
        return [line["v"] for line in lines]


@pytest.mark.parametrize("troubles", [(), ("lost",), ("answer lost",), ("lost", "answer lost", "answer lost")])
def test_each_line_arrives_once_and_in_order(troubles: tuple[str, ...]) -> None:
    store = FakeStore(*troubles)
    uploader = MetricUploader(store.post)
    for i in range(100):
        uploader.add({"v": i})
    uploader.flush(60)
    uploader.close()
    assert store.all() == list(range(100))


def test_lines_that_wait_go_together() -> None:
    store = FakeStore()
    store.gate.clear()
    uploader = MetricUploader(store.post)
    for i in range(1000):
        uploader.add({"v": i})
    store.gate.set()
    uploader.flush(60)
    uploader.close()
    assert store.all() == list(range(1000))
    assert store.batches <= 3


def test_what_cannot_be_sent_is_raised() -> None:
    uploader = MetricUploader(FakeStore("gone", "gone").post)
    with pytest.raises(NotFound):
        uploader.add({"v": 1})
        uploader.flush(60)
    uploader.close()


def test_a_flush_does_not_wait_for_ever() -> None:
    store = FakeStore(*["lost"] * 1000)
    uploader = MetricUploader(store.post)
    uploader.add({"v": 1})
    with pytest.raises(ServerUnavailable):
        uploader.flush(0.05)
    store.troubles.clear()
    uploader.flush(60)
    uploader.close()
    assert store.all() == [1]


def test_heartbeats_are_sent_until_close() -> None:
    beats = threading.Semaphore(0)
    uploader = MetricUploader(FakeStore().post, beats.release, heartbeat_seconds=0.01)
    uploader.start()
    for _ in range(3):
        assert beats.acquire(timeout=60)
    thread = uploader._thread
    assert thread is not None
    uploader.close()
    thread.join(60)
    assert not thread.is_alive()


def test_a_forked_process_is_another_writer() -> None:
    store = FakeStore()
    uploader = MetricUploader(store.post)
    uploader.add({"v": 1})
    uploader.flush(60)
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        uploader.add({"v": 2})
        uploader.flush(60)
        os.write(say, repr(sorted(len(lines) for lines in store.lines.values())).encode())
        os._exit(0)
    os.close(say)
    with open(hear) as said:
        assert said.read() == "[1, 1]"
    os.waitpid(child, 0)
    uploader.add({"v": 3})
    uploader.flush(60)
    uploader.close()
    assert store.all() == [1, 3]


def test_what_waits_is_sent_when_the_program_ends() -> None:
    program = """
import time
from windlass.client.metrics.metric_uploader import MetricUploader
def post(batch):
    time.sleep(0.05)
    print(len(batch["lines"]), flush=True)
uploader = MetricUploader(post)
for i in range(50):
    uploader.add({"v": i})
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], stdout=subprocess.PIPE, check=True)
    assert sum(int(count) for count in done.stdout.split()) == 50
