"""Trains a line by gradient descent, and survives to be stopped: it goes on from its last checkpoint in outputs/."""

import argparse
import json
import os
import signal
import sys
import time

from windlass import Run

CHECKPOINT = os.path.join("outputs", "checkpoint.json")
POINTS = [(x / 10, 3 * x / 10 + 1) for x in range(20)]


def load():
    """The state that the last attempt left; on the first one there is none."""
    if not os.path.exists(CHECKPOINT):
        return {"epoch": 0, "slope": 0.0, "offset": 0.0}
    with open(CHECKPOINT) as file:
        return json.load(file)


def save(state):
    """Replace the checkpoint as a whole: the process may be killed at any moment."""
    os.makedirs("outputs", exist_ok=True)
    with open(CHECKPOINT + ".new", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(CHECKPOINT + ".new", CHECKPOINT)


def train_epoch(state, rate=0.1):
    """One step of gradient descent. Returns the loss before it."""
    errors = [(state["slope"] * x + state["offset"] - y, x) for x, y in POINTS]
    state["slope"] -= rate * sum(2 * error * x for error, x in errors) / len(POINTS)
    state["offset"] -= rate * sum(2 * error for error, _ in errors) / len(POINTS)
    state["epoch"] += 1
    return sum(error * error for error, _ in errors) / len(POINTS)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seconds-per-epoch", type=float, default=0.2)
    arguments = parser.parse_args()

    # SIGTERM is the notice: `grace_seconds` later the processes are killed.
    stopping = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))

    run = Run.get_context()
    state = load()
    print(f"attempt {os.environ.get('WINDLASS_ATTEMPT', '1')} begins at epoch {state['epoch']}", flush=True)
    while state["epoch"] < arguments.epochs:
        epoch = state["epoch"]
        loss = train_epoch(state)
        run.log("loss", loss, step=epoch)
        save(state)
        if stopping:
            print(f"stopped after epoch {epoch}; the checkpoint has it", flush=True)
            sys.exit(1)
        time.sleep(arguments.seconds_per_epoch)
    with open(os.path.join("outputs", "model.json"), "w") as file:
        json.dump({"slope": state["slope"], "offset": state["offset"]}, file)
    print(f"y = {state['slope']:.3f} x + {state['offset']:.3f}", flush=True)


if __name__ == "__main__":
    main()
