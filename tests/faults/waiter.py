"""A script that is up, waits for a word, and ends: for faults that happen meanwhile, or while it ends.

Its starts are counted in the ledger, where no fault can undo it.
"""

from __future__ import annotations

import hashlib
import secrets

from tests.faults.world import World, wait_for
from windlass.core.codec import to_wire
from windlass.core.entities import EnvironmentSpec, RunSpec

CODE = rb"""
import os, sys, time
ledger, name = sys.argv[1:]
with open(os.path.join(ledger, "starts-" + name), "a") as file:
    file.write("start\n")
for i in range(200):
    os.write(1, b"before %d \xff\x00\n" % i)
while not os.path.exists(os.path.join(ledger, "go-" + name)):
    time.sleep(0.02)
for i in range(200):
    os.write(2, b"after %d\n" % i)
os.makedirs("outputs", exist_ok=True)
with open("outputs/done", "w") as file:
    file.write("yes")
sys.exit(7)
"""
BEFORE = b"".join(b"before %d \xff\x00\n" % i for i in range(200))
SAID = BEFORE + b"".join(b"after %d\n" % i for i in range(200))


class Waiter:
    """One run of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._name = secrets.token_hex(4)
        self._submit()

    @classmethod
    def up(cls, world: World) -> Waiter:
        """One that is up, and the server knows it."""
        waiter = cls(world)
        wait_for("the script to be up", lambda: waiter.starts() > 0, 60)
        wait_for("the server to know", lambda: waiter.state() == "Running")
        return waiter

    def _submit(self) -> None:
        digest = hashlib.sha256(CODE).hexdigest()
        spec = RunSpec(
            script="waiter.py",
            target=self.world.target,
            arguments=(str(self.world.ledger), self._name),
            environment=EnvironmentSpec(interpreter=self.world.python),
            grace_seconds=1,
        )
        file = {"path": "waiter.py", "digest": digest, "size": len(CODE), "executable": False}
        body = {"experiment": "faults", "spec": to_wire(spec), "files": [file]}
        self.world.ask("PUT", f"/workspaces/default/blobs/{digest}", CODE)
        run = self.world.ask("POST", "/workspaces/default/runs", body, {"Idempotency-Key": self._name})
        self.id: str = run["id"]

    def starts(self) -> int:
        path = self.world.ledger / f"starts-{self._name}"
        return path.read_text().count("start") if path.exists() else 0

    def state(self) -> str:
        state: str = self.world.run(self.id)["state"]
        return state

    def let_go(self) -> None:
        (self.world.ledger / f"go-{self._name}").touch()

    def end_there(self) -> None:
        """Let it come to its end on the machine, whoever hears of that."""
        self.let_go()
        wait_for("its end there", lambda: (self.world.folder(self.id) / "status.json").exists(), 60)

    def check_end(self, seconds: float = 30.0) -> None:
        """Within that time: the true exit status, the whole log and the output are there; it was started once."""
        run = self.world.wait_final(self.id, seconds)
        assert (run["state"], run["reason"], run["exit_code"]) == ("Failed", "exited", 7), run
        assert self.world.file(self.id, "user_logs/std_log.txt") == SAID
        assert self.world.file(self.id, "outputs/done") == b"yes"
        assert self.starts() == 1
