"""Run tokens: valid for one attempt of one run, signed with a key, so that nothing is stored or looked up."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from windlass.core.errors import InternalError
from windlass.server.security import private_file

_PREFIX = "wr1"
_KEY_BYTES = 32


def run_token(key: bytes, run_id: str, attempt: int) -> str:
    return f"{_PREFIX}:{run_id}:{attempt}:{_sign(key, run_id, attempt)}"


def check_run_token(key: bytes, token: str) -> tuple[str, int] | None:
    """The run and attempt that a token stands for, or None if it is not a valid run token."""
    parts = token.split(":")
    if len(parts) != 4 or parts[0] != _PREFIX or not (parts[2].isascii() and parts[2].isdigit()):
        return None
    run_id, attempt = parts[1], int(parts[2])
    if not hmac.compare_digest(_sign(key, run_id, attempt).encode(), parts[3].encode()):
        return None
    return run_id, attempt


def server_id(key: bytes) -> str:
    """An id derived from the key: equal for all servers that accept the same tokens. It does not reveal the key."""
    return hmac.new(key, b"server", hashlib.sha256).hexdigest()[:16]


def load_key(path: Path) -> bytes:
    """The key of this server (or of all servers that share these files), created atomically at first use."""
    if not path.exists():
        private_file.create(path, secrets.token_hex(_KEY_BYTES))
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise InternalError(
            f"The key of run tokens in {path} is damaged.",
            "Remove it: a new one is made, and scripts that run now cannot speak to the server any more.",
        )
    return key


def _sign(key: bytes, run_id: str, attempt: int) -> str:
    return hmac.new(key, f"{run_id}\0{attempt}".encode(), hashlib.sha256).hexdigest()
