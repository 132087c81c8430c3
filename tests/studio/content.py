"""What a workspace has after some use, so that each page has something to show."""

from __future__ import annotations

import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.studio.browser import Studio

W = "/workspaces/default"
FINAL = ("Completed", "Failed", "Canceled")
_PATIENCE_SECONDS = 60

TRAINING = r"""
import argparse, json, math, os
from windlass import Run

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=40)
options = parser.parse_args()
run = Run.get_context()
print("\033[1mtraining\033[0m with alpha", options.alpha)
for epoch in range(options.epochs):
    loss = math.exp(-epoch * options.alpha) + 0.02 * math.sin(epoch)
    run.log("loss", loss)
    run.log("accuracy", 1 - loss / 1.2)
    print(f"\033[32mepoch {epoch:3}\033[0m loss {loss:.4f}")
run.log_table("classes", {"name": ["cat", "dog"], "found": [12, 34]})
run.log_list("folds", [0.91, 0.93, 0.92])
run.log_confusion_matrix("confusion", {"schema_type": "confusion_matrix", "schema_version": "v1", "data": {
    "class_labels": ["cat", "dog"], "matrix": [[12, 1], [2, 32]]}})
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.json", "w") as file:
    json.dump({"alpha": options.alpha, "weights": [1.5, -0.25, 3.0]}, file)
with open("outputs/predictions.csv", "w") as file:
    file.write("id,found\n" + "".join(f"{i},{i % 2}\n" for i in range(50)))
with open("outputs/curve.png", "wb") as file:
    file.write(bytes.fromhex("%s"))
"""
FAILING = """
print("reading data")
raise ValueError("no column 'age' in people.csv")
"""


@dataclass(frozen=True)
class Content:
    """The ids and names that were made."""

    good: str
    other: str
    failed: str
    model: str = "ridge"
    environment: str = "science"
    member: str = "ann"
    cluster: str = "cpu-cluster"

    def pages(self) -> dict[str, str]:
        """The paths of all pages, by a name for each."""
        return {
            "home": W,
            "runs": f"{W}/runs",
            "experiments": f"{W}/experiments",
            "experiment": f"{W}/experiments/alphas",
            "compare": f"{W}/compare?run={self.good}&run={self.other}",
            "run": f"{W}/runs/{self.good}",
            "run-logs": f"{W}/runs/{self.good}?tab=logs",
            "run-metrics": f"{W}/runs/{self.good}?tab=metrics",
            "run-files": f"{W}/runs/{self.good}?tab=files",
            "run-failed": f"{W}/runs/{self.failed}",
            "submit": f"{W}/submit",
            "rerun": f"{W}/submit?from={self.good}",
            "compute": f"{W}/compute",
            "new-compute": f"{W}/new-compute?kind=cluster",
            "target": f"{W}/compute/{self.cluster}",
            "quotas": f"{W}/quotas",
            "models": f"{W}/models",
            "model": f"{W}/models/{self.model}",
            "environments": f"{W}/environments",
            "environment": f"{W}/environments/{self.environment}",
            "secrets": f"{W}/secrets",
            "members": f"{W}/members",
            "connections": f"{W}/connections",
            "audit": f"{W}/audit",
            "settings": f"{W}/settings",
        }


def fill(studio: Studio, folder: Path) -> Content:
    """Run a few scripts to their ends, and make one of each other thing."""
    folder.mkdir()
    script = TRAINING.replace("%s", _png().hex())
    good = submit(studio, folder, script, "--alpha", "0.1", options=("-n", "slow and steady", "--tag", "team=vision"))
    other = submit(studio, folder, script, "--alpha", "0.5", options=("-n", "fast"))
    failed = submit(studio, folder, FAILING, experiment="people")
    made = studio("model", "register", "ridge", "outputs/model.json", "--run", good["id"], cwd=folder)
    assert made.code == 0, made.err
    dependencies = ["python=3.11", {"pip": ["numpy==2.1.0", "scikit-learn"]}]
    definition = {"python": {"condaDependencies": {"dependencies": dependencies}, "userManagedDependencies": False}}
    studio.call("POST", f"{W}/environments", {"name": "science", "definition": definition})
    studio.call("PUT", f"{W}/secrets/warehouse-password", {"value": "correct horse battery"})
    studio.call("POST", f"{W}/tokens", {"name": "ann", "role": "contributor", "days": 90})
    cluster = {"vm_size": "STANDARD_D2_V2", "max_nodes": 4, "idle_seconds_before_scaledown": 2400}
    studio.call("POST", f"{W}/targets", {"name": "cpu-cluster", "kind": "cluster", "config": cluster})
    wait_for_target(studio, "cpu-cluster")
    return Content(good["id"], other["id"], failed["id"])


def submit(
    studio: Studio,
    folder: Path,
    script: str,
    *arguments: str,
    experiment: str = "alphas",
    options: tuple[str, ...] = (),
    detach: bool = False,
) -> dict[str, Any]:
    """Write a script, submit it, and return the run: at its end, or at once with `detach`."""
    (folder / "train.py").write_text(script)
    waiting = ("--detach",) if detach else ()
    done = studio("submit", "--json", "-e", experiment, *waiting, *options, "train.py", *arguments, cwd=folder)
    assert done.out, done.err
    run: dict[str, Any] = done.json
    return run


def wait_for_target(studio: Studio, name: str, state: str = "Succeeded") -> dict[str, Any]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        found: dict[str, Any] = studio.call("GET", f"{W}/targets/{name}")
        if found["provisioning_state"] == state:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def wait_for_run(studio: Studio, run_id: str, states: tuple[str, ...] = FINAL) -> dict[str, Any]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        found: dict[str, Any] = studio.call("GET", f"{W}/runs/{run_id}")
        if found["state"] in states:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def _png(size: int = 64) -> bytes:
    """A small picture: a diagonal line on white."""
    rows = b"".join(
        b"\0" + b"".join(b"\x00\x75\x87" if x == y else b"\xff\xff\xff" for x in range(size)) for y in range(size)
    )
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
