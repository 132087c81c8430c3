"""A small client for the runner's pipe, written for the tests: it shares no code with the runner or the drivers."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).resolve().parents[2] / "src" / "windlass" / "runner"
PATIENCE = 30.0

Files = dict[str, bytes] | None


class RequestRefused(Exception):
    def __init__(self, error: dict[str, str]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


def wait_for(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
        time.sleep(0.005)


# The nonces of jobs by root and job, as the store of their server has them: also for another host of the same test.
NONCES: dict[tuple[Path, str], str] = {}


class Host:
    """A runner host as a child process. `close` ends it by ending its stdin."""

    def __init__(
        self,
        root: Path,
        python: str = sys.executable,
        program: Path = RUNNER,
        env: dict[str, str] | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.root = root
        self._process = subprocess.Popen(
            [python, "-I", "-S", str(program), "host", *options, "--root", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        self._answers: dict[int, queue.Queue[tuple[dict[str, Any], bytes]]] = {}
        self._last = 0
        self._guard = threading.Lock()
        self.events: list[dict[str, Any]] = []
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        assert self._stdout.readline() == b"windlass-pipe 1\n"
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_for(lambda: self.events)
        self.hello = self.events[0]

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        while lengths := self._stdout.read(8):
            text, body = struct.unpack(">II", lengths)
            head, data = json.loads(self._stdout.read(text)), self._stdout.read(body)
            if "event" in head:
                self.events.append({**head, "data": data} if data else head)
            else:
                self._answers[head["id"]].put((head, data))

    def send_raw(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def send(self, do: str, body: bytes = b"", **more: Any) -> int:
        """Ask without waiting; `answer` takes the number. Jobs are named with the nonces that they began with."""
        if do in ("start", "place") and isinstance(more.get("run"), dict):
            NONCES.setdefault((self.root, str(more["run"].get("job"))), str(more["run"].get("nonce")))
        if "job" in more:
            more.setdefault("nonce", self.nonce(more["job"]))
        if isinstance(more.get("jobs"), list):
            more["jobs"] = [[job, self.nonce(job)] if isinstance(job, str) else job for job in more["jobs"]]
        with self._guard:
            self._last += 1
            number = self._last
            self._answers[number] = queue.Queue()
            text = json.dumps({"id": number, "do": do, **more}).encode()
            self.send_raw(struct.pack(">II", len(text), len(body)) + text + body)
            return number

    def answer(self, number: int) -> tuple[dict[str, Any], bytes]:
        return self._answers[number].get(timeout=PATIENCE)

    def ask(self, do: str, body: bytes = b"", **more: Any) -> tuple[dict[str, Any], bytes]:
        head, data = self.answer(self.send(do, body, **more))
        if "error" in head:
            raise RequestRefused(head["error"])
        assert head["ok"] is True
        return head, data

    def insist(self, do: str, **more: Any) -> dict[str, Any]:
        """Repeat a request while the host says "try again", as a server does: a killed process takes a moment."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ask(do, **more)[0]
            except RequestRefused as e:
                if "try again" not in str(e) or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def nonce(self, job: object) -> str:
        return NONCES.get((self.root, str(job)), f"cookie-{job}-{os.getpid()}")

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.ask("put", data, digest=digest, offset=0, last=True)
        return digest

    def observe(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("observe", jobs=[job])[0]["jobs"][0]
        return found

    def wait(self, job: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """Until it has ended."""
        found: dict[str, Any] = wait_for(lambda: (o := self.observe(job))["phase"] == "ended" and o, seconds)
        return found

    def wait_running(self, job: str) -> dict[str, Any]:
        """Until its script is there; what claim/process.json says."""
        wait_for(lambda: self.observe(job).get("stage") == "Running" and "running" in self.event_names(job))
        return self.file(job, "claim/process.json")

    def file(self, job: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder(job) / name).read_text())
        return found

    def read(self, job: str, path: str = "user_logs/std_log.txt", offset: int = 0, limit: int = 1 << 20) -> bytes:
        return self.ask("read", job=job, path=path, offset=offset, limit=limit)[1]

    def properties(self, job: str) -> dict[str, str]:
        """The properties that the supervisor records: replaced packages of the environment."""
        path = self.folder(job) / "calls" / "environment.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return {key: value for line in lines for key, value in json.loads(line)["values"].items()}

    def folder(self, job: str) -> Path:
        return self.root / "runs" / job

    def event_names(self, job: str) -> list[str]:
        path = self.folder(job) / "events.jsonl"
        *lines, _ = path.read_text().split("\n") if path.exists() else [""]  # the last one may be half written
        return [json.loads(line)["event"] for line in lines]

    def kill_supervisor(self, job: str) -> None:
        """Before its script has begun, and until it is dead: a host that looks at the job in that moment goes on with
        it by itself, which it may.
        """
        os.kill(self.file(job, "claim/supervisor.json")["pid"], signal.SIGKILL)
        self.wait_free(job)

    def wait_free(self, job: str) -> None:
        """Until its lock is free: the process that waited to become the script ends a moment after the supervisor."""

        def is_free() -> bool:
            with open(self.folder(job) / "claim/lock") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                return True

        wait_for(is_free)

    def run_json(self, job: str, command: list[str], files: Files = None, **more: Any) -> dict[str, Any]:
        listed = []
        for path, data in (files or {}).items():
            listed.append([path, self.put(data), len(data), path.endswith(".sh")])
        run = {
            "version": 1, "job": job, "run": job.rpartition(".")[0], "attempt": 1, "fence": 1,
            "nonce": f"cookie-{job}-{os.getpid()}", "command": command, "env": {},
            "environment": {"interpreter": sys.executable}, "time_limit": None, "grace": 30.0, "watch": ["logs"],
            "log_cap": 1 << 30, "files": listed,
        }  # fmt: skip
        return {**run, **more}

    def start(self, job: str, command: list[str], files: Files = None, **more: Any) -> dict[str, Any]:
        return self.insist("start", run=self.run_json(job, command, files, **more))

    def python(self, job: str, script: str, *arguments: str, **more: Any) -> dict[str, Any]:
        """Start a script that is given as text."""
        return self.start(job, ["{python}", "train.py", *arguments], {"train.py": script.encode()}, **more)

    def clean(self, job: str) -> None:
        """Until nothing of it is left."""
        self.insist("clean", job=job)
        wait_for(lambda: not os.listdir(self.root / "trash"))

    def hang_up(self) -> None:
        """End its stdin, and do not wait for it."""
        self._stdin.close()

    def close(self) -> int:
        self.hang_up()
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self._stdout.close()
        return code

    def wait_end(self) -> int:
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        try:
            self._stdin.close()
        except BrokenPipeError:
            pass
        self._stdout.close()

    def end(self) -> None:
        """Close the host, or reap it if it has ended."""
        if self._process.poll() is None:
            self.close()
        elif not self._stdout.closed:
            self.kill()


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def make_zip(path: Path) -> Path:
    """The runner as it travels: its folder as `runner/`, and a `__main__.py` beside it."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(RUNNER.rglob("*.py")):
            archive.write(file, f"runner/{file.relative_to(RUNNER)}")
        archive.writestr("__main__.py", "from runner.__main__ import main\n\nraise SystemExit(main())\n")
    return path


def zip_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()
