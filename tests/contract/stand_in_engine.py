"""A stand-in for an engine (a queue, a cluster): a process that starts the jobs of a queue folder.

Started as a program, it has a process tree, a network, a host name and a boot id of its own (Linux namespaces), so that
it shares nothing with the host of the runner but the file system. What is in its folder:

    queue/<id>       a job that was submitted: {"name", "argv"}
    jobs/<id>        what became of it: {"name", "state": "queued" | "running" | "ended", "ended_at"}
    cancel/<id>      a request to cancel it
    again/<id>       a request to start a second instance of it, as schedulers do after what they take for a failure
    hold             while it is there, nothing is started

Below is its client, and the driver of a kind that uses it.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BOOT_ID = "00000000-0000-4000-8000-00000000e001"


class StandInEngine:
    """The process. `slots` jobs run at a time."""

    def __init__(self, folder: Path, slots: int) -> None:
        self._folder = folder
        self._slots = slots
        self._running: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._waiting: list[str] = []

    def run(self) -> None:
        while True:
            self._take_queue()
            self._take_requests()
            self._reap()
            while self._waiting and len(self._running) < self._slots and not (self._folder / "hold").exists():
                self._start(self._waiting.pop(0))
            time.sleep(0.01)

    def _take_queue(self) -> None:
        submitted = [path for path in (self._folder / "queue").iterdir() if path.suffix != ".tmp"]
        for path in sorted(submitted, key=lambda each: each.stat().st_mtime_ns):
            if not (self._folder / "jobs" / path.name).exists():
                self._note(path.name, "queued")
                self._waiting.append(path.name)

    def _take_requests(self) -> None:
        for path in (self._folder / "cancel").iterdir():
            path.unlink()
            if path.name in self._waiting:
                self._waiting.remove(path.name)
                self._note(path.name, "ended")
            for process in self._running.get(path.name, ()):
                process.terminate()
        for path in (self._folder / "again").iterdir():
            path.unlink()
            self._start(path.name)

    def _start(self, job: str) -> None:
        order = json.loads((self._folder / "queue" / job).read_text())
        instances = self._running.setdefault(job, [])
        env = {"PATH": os.environ["PATH"], "WINDLASS_INSTANCE": f"{job}.{len(instances)}"}
        with (self._folder / "output" / job).open("ab") as output:
            instances.append(
                subprocess.Popen(
                    [sys.executable, "-I", "-S", *order["argv"]],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=env,
                    start_new_session=True,
                    cwd="/",
                )
            )
        self._note(job, "running", pids=[process.pid for process in instances])

    def _reap(self) -> None:
        for job, processes in list(self._running.items()):
            if all(process.poll() is not None for process in processes):
                del self._running[job]
                self._note(job, "ended")

    def _note(self, job: str, state: str, **more: Any) -> None:
        order = json.loads((self._folder / "queue" / job).read_text())
        ended = {"ended_at": time.time()} if state == "ended" else {}
        text = json.dumps({"name": order["name"], "state": state, **ended, **more})
        put(self._folder / "jobs" / job, text)


def put(path: Path, text: str) -> None:
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    aside.write_text(text)
    aside.rename(path)


class EngineClient:
    """What a kind's driver has of an engine: submit, find, cancel, and one question for many states."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def submit(self, name: str, argv: Sequence[str]) -> str:
        job = secrets.token_hex(6)
        put(self._folder / "queue" / job, json.dumps({"name": name, "argv": list(argv)}))
        return job

    def find(self, name: str) -> str | None:
        for path in (self._folder / "queue").iterdir():
            if path.suffix != ".tmp" and json.loads(path.read_text())["name"] == name:
                return path.name
        return None

    def cancel(self, job: str) -> None:
        if (self._folder / "queue" / job).exists():
            (self._folder / "cancel" / job).touch()

    def states(self, jobs: Sequence[str]) -> list[dict[str, Any]]:
        with (self._folder / "asked").open("ab") as asked:
            asked.write(b".")
        return [self.state(job) for job in jobs]

    def state(self, job: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._folder / "jobs" / job).read_text())
        except FileNotFoundError:
            return {"state": "queued"} if (self._folder / "queue" / job).exists() else {"state": "unknown"}
        return found


class EngineProcess:
    """Starts the engine, and ends it with all that it has started: a machine that is switched off."""

    def __init__(self, folder: Path, slots: int = 8) -> None:
        self.folder = folder
        for name in ("", "queue", "jobs", "cancel", "again", "output"):
            (folder / name).mkdir(exist_ok=True)
        self._slots = slots
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        namespaces = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--net"]
        argv = [sys.executable, str(Path(__file__)), str(self.folder), str(self._slots)]
        return subprocess.Popen([*namespaces, *argv], start_new_session=True)

    def start_again(self, job: str) -> None:
        (self.folder / "again" / job).touch()

    def hold(self) -> None:
        (self.folder / "hold").touch()

    def go_on(self) -> None:
        (self.folder / "hold").unlink()

    def output(self, job: str) -> str:
        path = self.folder / "output" / job
        return path.read_text() if path.exists() else ""

    def switch_off(self) -> None:
        """All of its processes are killed. What it says of them afterwards is that they have ended."""
        self.close()
        for path in (self.folder / "jobs").iterdir():
            known = json.loads(path.read_text())
            if known["state"] == "running":
                put(path, json.dumps({**known, "state": "ended", "ended_at": time.time()}))

    def close(self) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)  # --kill-child: the namespace's first process, and so all in it
        self._process.wait()


def become_another_machine(folder: Path) -> None:
    """Another name, and another boot id: what a supervisor writes of itself means nothing to processes elsewhere."""
    subprocess.run(["hostname", "stand-in-node"], check=True)
    (folder / "boot_id").write_text(BOOT_ID + "\n")
    subprocess.run(["mount", "--bind", str(folder / "boot_id"), "/proc/sys/kernel/random/boot_id"], check=True)


if __name__ == "__main__":
    become_another_machine(Path(sys.argv[1]))
    StandInEngine(Path(sys.argv[1]), int(sys.argv[2])).run()
