"""Fits a line to points, with the points spread over several processes.

Each process has a part of the points and computes the gradient of its part. In every step the processes add their
gradients by an all-reduce, and so all of them have the same model. PyTorch's DistributedDataParallel does the same;
here it is done with the standard library, so that nothing needs to be installed. Alone, it is one process of one.
"""

from __future__ import annotations

import operator
import os
import random
import socket
import struct
import time

try:
    from windlass import Run
except ImportError:  # without Windlass the script works as well
    Run = None

RANK = int(os.environ.get("RANK", "0"))
SIZE = int(os.environ.get("WORLD_SIZE", "1"))
STEPS = 200
RATE = 0.5


class AllReduce:
    """Adds numbers of all processes: rank 0 listens at MASTER_ADDR:MASTER_PORT, and tells each the sum."""

    def __init__(self) -> None:
        self.peers: list[socket.socket] = []
        if SIZE > 1:
            place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
            self.peers = accept(place) if RANK == 0 else [connect(place)]

    def add(self, numbers: list[float]) -> list[float]:
        form = struct.Struct(f"{len(numbers)}d")
        if RANK == 0:
            for peer in self.peers:
                theirs = form.unpack(peer.recv(form.size, socket.MSG_WAITALL))
                numbers = list(map(operator.add, numbers, theirs))
            for peer in self.peers:
                peer.sendall(form.pack(*numbers))
            return numbers
        self.peers[0].sendall(form.pack(*numbers))
        return list(form.unpack(self.peers[0].recv(form.size, socket.MSG_WAITALL)))


def accept(place: tuple[str, int]) -> list[socket.socket]:
    with socket.create_server(place) as server:
        return [server.accept()[0] for _ in range(SIZE - 1)]


def connect(place: tuple[str, int]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(place, timeout=60)
        except ConnectionRefusedError:
            time.sleep(0.05)  # rank 0 is still being started


def points() -> list[tuple[float, float]]:
    """The part of this process, of points on the line y = 3 x + 2."""
    random.seed(7)
    everything = [(x, 3 * x + 2 + random.gauss(0, 0.1)) for x in (random.uniform(-1, 1) for _ in range(2000))]
    return everything[RANK::SIZE]


def main() -> None:
    run = Run.get_context() if Run is not None and RANK == 0 else None  # one process logs, and writes the model
    reduce, own = AllReduce(), points()
    print(f"rank {RANK} of {SIZE} has {len(own)} points", flush=True)
    slope = offset = 0.0
    for step in range(STEPS):
        errors = [(slope * x + offset - y, x) for x, y in own]
        gradient = [sum(e * x for e, x in errors), sum(e for e, _ in errors), sum(e * e for e, _ in errors)]
        by_slope, by_offset, loss = (total / 2000 for total in reduce.add(gradient))
        slope, offset = slope - RATE * by_slope, offset - RATE * by_offset
        if run is not None and step % 20 == 0:
            run.log("loss", loss)
    print(f"rank {RANK}: y = {slope:.2f} x + {offset:.2f}", flush=True)
    if RANK == 0:
        os.makedirs("outputs", exist_ok=True)
        with open("outputs/line.txt", "w", encoding="utf-8") as file:
            file.write(f"{slope:.4f} {offset:.4f}\n")


if __name__ == "__main__":
    main()
