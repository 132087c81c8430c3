"""The far end of a pipe, as tests need it: it does what a request says, well or badly. Started as a program."""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from typing import Any

OUT = sys.stdout.buffer
HOSTS = {"greedy", "forgetful", "evasive", "boastful", "gossip"}
ENDED = {"phase": "ended", "reason": "exited", "exit_code": 0}
BOASTS = {
    "cores": float("nan"),
    "memory_mb": "plenty",
    "disk_free_mb": float("inf"),
    "gpus": 10**30,
    "gpu_names": ["x" * 1000, 7] * 100,
    "os": "\ud800\0 Linux \U0001f427" * 1000,
    "machine": ["x86_64"],
    "python": "3.11.2",
    "boot_id": None,
    "docker": {"version": "27" * 1000, "missing": 7, "joke": "x"},
    **{f"more {number}": "x" * 1000 for number in range(50)},
}


def send(body: Any, data: bytes = b"") -> None:
    text = json.dumps(body).encode()
    OUT.write(struct.pack(">II", len(text), len(data)) + text + data)
    OUT.flush()


def receive() -> tuple[dict[str, Any], bytes] | None:
    lengths = sys.stdin.buffer.read(8)
    if len(lengths) < 8:
        return None
    text, data = struct.unpack(">II", lengths)
    return json.loads(sys.stdin.buffer.read(text)), sys.stdin.buffer.read(data)


def play_host(manners: list[str], body: dict[str, Any]) -> dict[str, Any]:
    """The answers of a runner's host that is not what it should be."""
    match body["do"]:
        case "start" if "greedy" in manners:
            return {"missing": ["f" * 64], "sdk": False}
        case "start" if "forgetful" in manners:
            return {"missing": [file[1] for file in body["run"]["files"]], "sdk": True}
        case "observe" if "evasive" in manners:
            return {"jobs": [ENDED]}
        case "check" if "boastful" in manners:
            return {"inventory": BOASTS}
        case "start" if "gossip" in manners:
            job, nonce = body["run"]["job"], body["run"]["nonce"]
            named = (
                ("somebody-elses.1", nonce),
                (["not", "a", "job"], nonce),
                (job, "another"),
                (job, None),
                (job, nonce),
            )
            for job, nonce in named:
                send({"event": "file_grew", "job": job, "nonce": nonce, "path": "x", "size": 5})
                send({"event": "job_changed", "job": job, "nonce": nonce, "seen": ENDED})
                send({"event": "job_changed", "job": job, "nonce": nonce})
            return {"claimed": True}
    return {}


def obey(body: dict[str, Any], data: bytes) -> None:
    match body["do"]:
        case "echo":
            send({"id": body["id"], "ok": True, "said": body.get("say")}, data)
        case "die":
            print("the disk caught fire", file=sys.stderr, flush=True)
            os._exit(3)
        case "half":
            OUT.write(struct.pack(">II", 100, 0) + b'{"id": ')
            OUT.flush()
            os._exit(0)
        case "giant":
            OUT.write(struct.pack(">II", 10, 1 << 31))
            OUT.flush()
        case "garbage":
            OUT.write(struct.pack(">II", 4, 0) + b"oops")
            OUT.flush()
        case "news":
            send({"event": "file_grew", "job": "a.1", "path": "x", "size": 5})
            send({"id": body["id"], "ok": True})
        case "long":
            send({"id": body["id"], "ok": True, "said": "x" * body["size"]})
        case "boast":
            send({"event": "job_changed", "job": "a.1", "seen": {"phase": "running", "message": "x" * body["size"]}})
            send({"id": body["id"], "ok": True})
        case "slowly":
            time.sleep(body["pause"])
            send({"id": body["id"], "ok": True})
        case "deaf":
            time.sleep(3600)


def main(manners: list[str]) -> None:
    if "noise" in manners:
        OUT.write(b"Welcome to windlass-pipe 1\nLast login: today\n\xff\xfe\n")
    if "mute" in manners:
        time.sleep(3600)
    if "refuses" in manners:
        print("Permission denied (publickey).", file=sys.stderr)
        sys.exit(255)
    if "chatters" in manners:
        for _ in range(40):
            OUT.write(b"la " * 20_000)
    OUT.write(b"windlass-pipe 1\n")
    send({"event": "hello", "version": 1})
    while (request := receive()) is not None:
        if HOSTS & set(manners):
            send({"id": request[0]["id"], "ok": True, **play_host(manners, request[0])})
        else:
            obey(*request)


if __name__ == "__main__":
    main(sys.argv[1:])
