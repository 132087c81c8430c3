"""A machine that lies: put in the place of the runner's host behind a real sshd (`ForceCommand`).

It speaks the protocol of docs/dev/runner.md. The first argument of a run's script says which lie is told about it.
What it writes into `names` of other files is a canary: a server must not make a file of that name anywhere.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

SIN, OUT = sys.stdin.buffer, sys.stdout.buffer
CANARY = "windlass-hostile-canary"
ESCAPES = "\x1b]52;c;aGk=\x07\r\n\x00\u202e WARNING forged line "
GIANT = 1 << 50
LOG = 900 << 20
RUNNING = {"phase": "running", "stage": "Running"}
DIGEST = "ab" * 32
EMPTY = hashlib.sha256().hexdigest()

STATE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/dev/null")  # its jobs, for the next connection
jobs: dict[str, str] = {}  # lie by job
nonces: dict[str, str] = {}  # by job
ended: set[str] = set()


def send(body: dict[str, Any], data: bytes = b"") -> None:
    text = json.dumps(body).encode()
    OUT.write(struct.pack(">II", len(text), len(data)) + text + data)
    OUT.flush()


def tell(event: str, job: str, **more: Any) -> None:
    send({"event": event, "job": job, "nonce": nonces.get(job, ""), **more})


def receive() -> tuple[dict[str, Any], bytes] | None:
    lengths = SIN.read(8)
    if len(lengths) < 8:
        return None
    text, data = struct.unpack(">II", lengths)
    return json.loads(SIN.read(text)), SIN.read(data)


def end(**more: Any) -> dict[str, Any]:
    return {"phase": "ended", "reason": "exited", "exit_code": 0, **more}


BAD_NAMES = [f"../../../../../../etc/cron.d/{CANARY}", f"/tmp/{CANARY}", f"source/outputs/../../{CANARY}", "a\nb", ""]
FILES: dict[str, list[list[Any]]] = {
    "sizes": [["source/outputs/giant", GIANT, None]],
    "digests": [["source/outputs/model", 1000, DIGEST]],
    "paths": [[name, 3, None] for name in BAD_NAMES]
    + [["source/outputs/a", 3, None], ["source/outputs/a/inner", 3, None]],
    "names": [[ESCAPES + str(number) * 50, 3, None] for number in range(20_000)],
    "logs": [[f"source/logs/l{number}.txt", LOG, None] for number in range(6)],
    "uploads": [["calls/zz.jsonl", 300, None], ["uploads/ab", 200 << 30, None]],
    "metrics": [["metrics/a.jsonl", 1 << 20, None]],
    "texts": [["user_logs/std_log.txt", 5, None]],
}
CALLS = json.dumps({"do": "upload", "path": "outputs/x", "file": "uploads/ab", "size": 3}) + "\n"
METRICS = b'{"n": "loss", "v": [[[[[[1]]]]]], "t": 1.0}\n' * 5000


def seen(job: str) -> dict[str, Any]:
    lie = jobs.get(job, "")
    if job not in ended:
        return {**RUNNING, "message": ESCAPES * 10_000 if lie == "texts" else ""}
    if lie == "counts":
        return end(files=[[f"source/outputs/{number:06}", 0, EMPTY] for number in range(60_000)])
    if lie == "texts":
        return end(message=ESCAPES * 10_000, usage={ESCAPES * 100: 1}, files=FILES[lie], exit_code=10**400)
    return end(files=FILES.get(lie, [["user_logs/std_log.txt", 5, None]]))


def read(job: str, path: str, offset: int, limit: int) -> bytes:
    lie = jobs.get(job, "")
    sizes: dict[str, int] = {name: size for name, size, _ in FILES.get(lie, []) if name == path}
    if path == "calls/zz.jsonl":
        return CALLS.encode()[offset : offset + limit]
    if path.startswith("metrics/"):
        return (METRICS + METRICS)[offset % len(METRICS) :][:limit]
    if lie == "digests":
        return b"x" * 10 if offset == 0 else b""
    return b"x" * max(0, min(limit, sizes.get(path, 5) - offset))


def begin(job: str, lie: str) -> None:
    """What it says of a run that has just been started."""
    if lie == "growth":
        for number in range(5_000):
            tell("file_grew", job, path=f"source/logs/{number:06}" + "/x" * 200, size=1)
    if lie == "repeats":
        for _ in range(200):
            tell("job_changed", job, seen=RUNNING)
            send({"id": 1, "ok": True, "said": "x" * 1000})
            send({"event": "relay", "stream": 7, "credit": -(10**18), "more": "x" * 10_000})
            tell("job_changed", "somebody-elses.1", seen=end())
    for path, size, _ in FILES.get(lie, []):
        if lie in ("logs", "uploads", "metrics"):
            tell("file_grew", job, path=path, size=size)
    if lie not in ("logs", "uploads", "metrics", "texts", "frames"):
        ended.add(job)
        tell("job_changed", job)


def answer(body: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    match body["do"]:
        case "check":
            return {"inventory": {"cores": 10**30, "python": ESCAPES, "os": ESCAPES * 100}}, b""
        case "start":
            run = body["run"]
            job, lie = run["job"], run["command"][-1]
            if lie == "missing":
                return {"missing": [DIGEST] * 3000, "sdk": False}, b""
            if job not in jobs:
                jobs[job], nonces[job] = lie, run["nonce"]
                with STATE.open("a") as file:
                    file.write(f"{job} {lie} {run['nonce']}\n")
            return {"job": job, "claimed": True}, b""
        case "observe":
            is_giant = any(jobs.get(job) == "frames" and job not in ended for job, _ in body["jobs"])
            return {"jobs": [seen(job) for job, _ in body["jobs"]], "more": "x" * ((15 << 20) if is_giant else 0)}, b""
        case "read" if jobs.get(body["job"]) == "texts":
            return {"error": {"code": "failed", "message": ESCAPES * 5000}}, b""
        case "read":
            return {}, read(body["job"], body["path"], body["offset"], body["limit"])
        case "files":
            return {"files": FILES.get(jobs.get(body["job"], ""), [])}, b""
        case "stop":
            ended.add(body["job"])
            tell("job_changed", body["job"])
    return {}, b""


def main() -> None:
    SIN.readline()
    SIN.read(json.loads(SIN.readline())["size"])
    OUT.write(b"windlass-pipe 1\n")
    send({"event": "hello", "version": 1, "boot_id": "b" * 900_000, "now": 10**400, "root": ESCAPES})
    for line in STATE.read_text().splitlines():
        job, jobs[job], nonces[job] = line.split()
    begun = set(jobs)
    while (request := receive()) is not None:
        found, data = answer(request[0])
        send({"id": request[0]["id"], "ok": "error" not in found, **found}, data)
        for job, lie in jobs.items():
            if job not in begun:
                begun.add(job)
                begin(job, lie)


if __name__ == "__main__":
    main()
