"""A server with one attached machine, as `windlass compute` sees it."""

from __future__ import annotations

from typing import Any

from tests.cli.fake import FakeSession, W

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx5"
PRINT = "SHA256:abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
SEEN = {"host_key": KEY, "fingerprint": PRINT, "accepts": ["publickey", "password"]}
PUBLIC = {"public_key": "ssh-ed25519 AAAAworkspace windlass-default"}
CONFIG = {"address": "10.0.0.7", "port": None, "username": "jane", "login": "password", "host_key": KEY,
          "host_key_confirmed": False, "python": "python3", "root": "~/.windlass/ssh", "docker": False}  # fmt: skip
BOX: dict[str, Any] = {
    "name": "box",
    "kind": "ssh",
    "config": CONFIG,
    "created_at": "2026-01-31T12:00:00.000000Z",
    "is_attached": True,
    "slots": 8,
    "attached_by": "owner",
    "quarantine": None,
    "fingerprint": PRINT,
    "inventory": {
        "cores": 8,
        "memory_mb": 16000,
        "gpus": ["A100", "A100"],
        "python": "3.11.2",
        "docker": {"missing": "Docker is not installed"},
        "missing": [{"what": "Docker is not installed on this machine.", "fix": "sudo apt-get install docker.io"}],
    },
    "active_runs": 1,
    "queued_runs": 2,
}


def server(**more: Any) -> FakeSession:
    answers = {
        f"POST {W}/identify": SEEN,
        f"POST {W}/targets/box/identify": SEEN,
        f"POST {W}/targets": BOX,
        f"GET {W}/public-key": PUBLIC,
        f"GET {W}/targets/box": BOX,
        f"GET {W}/targets": {"targets": [BOX, {**BOX, "name": "local", "kind": "local", "config": {}, "slots": 4}]},
    }
    return FakeSession({**answers, **more})


def sent(session: FakeSession, what: str = f"POST {W}/targets") -> Any:
    [body] = [body for asked, body, _ in session.asked if asked == what]
    return body
