"""Run tokens: valid for one attempt of one run, signed with a key, so that nothing is stored or looked up.

A run is its id and the time of its creation: a new run may have the id of a deleted one, in another workspace too. The
tokens of earlier versions, whose runs may be under way, are without that time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from windlass.core.errors import InternalError
from windlass.server.security import private_file

_PREFIX, _EARLIER_PREFIX = "wr2", "wr1"
_KEY_BYTES = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TokenOfRun:
    """What a valid token stands for."""

    run_id: str
    attempt: int
    created: int | None  # when its run was created, in microseconds since 1970; None in tokens of earlier versions

    def is_of(self, attempt: int, created_at: datetime) -> bool:
        """Whether it is the token of that attempt of the run with its id, which was created then."""
        return self.attempt == attempt and self.created in (None, _microseconds(created_at))


def run_token(key: bytes, run_id: str, attempt: int, created_at: datetime | None = None) -> str:
    """Without the time of creation, a token as earlier versions made them."""
    if created_at is None:
        return f"{_EARLIER_PREFIX}:{run_id}:{attempt}:{_sign(key, run_id, attempt)}"
    created = _microseconds(created_at)
    return f"{_PREFIX}:{run_id}:{attempt}:{created}:{_sign(key, run_id, attempt, created)}"


def check_run_token(key: bytes, token: str) -> TokenOfRun | None:
    """What a token stands for, or None if it is not a valid run token."""
    parts = token.split(":")
    if len(parts) != {_PREFIX: 5, _EARLIER_PREFIX: 4}.get(parts[0]):
        return None
    _, run_id, *numbers, signature = parts
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    signed = [int(number) for number in numbers]
    if not hmac.compare_digest(_sign(key, run_id, *signed).encode(), signature.encode()):
        return None
    return TokenOfRun(run_id, signed[0], signed[1] if len(signed) > 1 else None)


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


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _sign(key: bytes, run_id: str, *numbers: int) -> str:
    return hmac.new(key, "\0".join([run_id, *map(str, numbers)]).encode(), hashlib.sha256).hexdigest()
