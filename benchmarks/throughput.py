"""Benchmark of throughput: many short runs through two slots, and durable submits per second."""

from __future__ import annotations

import json
import secrets
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.home import API, Api, Home, run_body, temporary_home
from benchmarks.rounds import Effort, median, milliseconds, take_turns
from benchmarks.row import Row, at_least, times_bare

CLIENTS = 16
MEMORY_DISK = Path("/dev/shm")


def slots(effort: Effort) -> Iterator[Row]:
    """100 runs of 50 ms on two slots, each with record and logs; the bare side writes nothing to any disk."""
    count = effort.times(100, 10)
    what, bare = f"{count} runs of 50 ms on two slots", "`xargs -P 2`"
    times = _slots(count, effort.times(3, 1))
    yield Row(what, times[1], "ms", times[0], bare, times_bare(1.3))
    if MEMORY_DISK.is_dir():
        times = _slots(count, effort.times(3, 1), MEMORY_DISK)
        yield Row("the same, the home on a disk in memory", times[1], "ms", times[0], bare, times_bare(1.3))


def _slots(count: int, rounds: int, disk: Path | None = None) -> list[float]:
    from windlass import Experiment, ScriptRunConfig, Workspace

    with temporary_home(disk=disk) as home, tempfile.TemporaryDirectory(dir=disk) as folder:
        Path(folder, "nap.py").write_text("import time; time.sleep(0.05); print('slept')\n", encoding="utf-8")
        home.api().set_slots(2)
        experiment = Experiment(Workspace.from_config(), "benchmark")
        config = ScriptRunConfig(source_directory=folder, script="nap.py")

        def ours() -> None:
            runs = [experiment.submit(config) for _ in range(count)]
            for run in runs:
                run.wait_for_completion()

        xargs = ["xargs", "-P", "2", "-n", "1", sys.executable, "nap.py"]
        numbers = "\n".join(map(str, range(count))).encode()

        def bare() -> None:
            subprocess.run(xargs, cwd=folder, input=numbers, stdout=subprocess.DEVNULL, check=True)

        sides = take_turns(rounds, lambda: milliseconds(bare), lambda: milliseconds(ours))
    return [median(side) for side in sides]


def submits(effort: Effort) -> Iterator[Row]:
    """Durable submits a second, from several clients at once."""
    count = effort.times(2000, 200)
    with temporary_home() as home:
        api = home.api()
        api.set_slots(1)
        api.submit(["sleep", "600"])  # holds the only slot, so that submits are all that happens
        sides = take_turns(3, lambda: _commits(home, count), lambda: submits_a_second(api, count))
    rates = [median(side) for side in sides]
    note = f"{CLIENTS} clients; FULL sync on both sides, one commit a row on the bare side."
    yield Row("durable submits a second", rates[1], "/s", rates[0], "SQLite commits", at_least(500), note)


def _commits(home: Home, count: int) -> float:
    """The baseline: rows of a run's size, each in a transaction of its own."""
    path = home.folder / f"bare-{secrets.token_hex(4)}.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE runs (id TEXT PRIMARY KEY, spec TEXT)"
    )
    spec = "x" * 1000
    start = time.perf_counter()
    for number in range(count):
        database.execute("INSERT INTO runs VALUES (?, ?)", (f"run_{number}", spec))
    rate = count / (time.perf_counter() - start)
    database.close()
    return rate


def submits_a_second(api: Api, count: int, target: str = "local") -> float:
    requests = [_request(api, target) for _ in range(count)]
    shares = [requests[number::CLIENTS] for number in range(CLIENTS)]
    failures: list[bytes] = []
    threads = [threading.Thread(target=_send_all, args=(api, share, failures)) for share in shares]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = count / (time.perf_counter() - start)
    if failures:
        raise RuntimeError(failures[0].decode(errors="replace"))
    return rate


def _send_all(api: Api, requests: list[bytes], failures: list[bytes]) -> None:
    """One client with one connection. Raw sockets: the two cores are for the server."""
    host, _, port = api.netloc.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request in requests:
            connection.sendall(request)
            answer = _receive(connection)
            if not answer.startswith(b"HTTP/1.1 201"):
                failures.append(answer)
                return


def _receive(connection: socket.socket) -> bytes:
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += _more(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += _more(connection)
    return head + b"\r\n\r\n" + body


def _more(connection: socket.socket) -> bytes:
    if not (chunk := connection.recv(65536)):
        raise RuntimeError("the server closed the connection")
    return chunk


def _request(api: Api, target: str) -> bytes:
    body = json.dumps(run_body(["true"], target)).encode()
    head = (
        f"POST {API}{api.workspace}/runs HTTP/1.1\r\nHost: {api.netloc}\r\nContent-Type: application/json\r\n"
        f"Authorization: {api.headers['Authorization']}\r\nIdempotency-Key: {secrets.token_hex(16)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


MEASURES = (slots, submits)
