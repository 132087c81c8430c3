"""The key that run tokens are made from: made once, whole or not at all, the same for all who share it."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from windlass.core.errors import InternalError
from windlass.server.security.run_tokens import check_run_token, load_key, run_token

CREATED = datetime(2026, 11, 20, 0, 30, 0, 123456, UTC)


def test_a_token_stands_for_its_run_and_attempt_only(tmp_path: Path) -> None:
    key = load_key(tmp_path / "key")
    token = run_token(key, "demo_1_ab", 2, CREATED)
    found = check_run_token(key, token)
    assert found is not None and found.run_id == "demo_1_ab"
    assert found.is_of(2, CREATED)
    assert not found.is_of(1, CREATED)
    assert not found.is_of(2, CREATED + timedelta(microseconds=1))
    assert check_run_token(key, token.replace(":2:", ":1:")) is None
    assert check_run_token(key, token.replace("123456:", "123457:")) is None
    assert check_run_token(load_key(tmp_path / "another"), token) is None


def test_a_token_of_an_earlier_version_is_accepted(tmp_path: Path) -> None:
    """Runs that it has started go on while the server is updated."""
    key = bytes(range(32))
    sign = hmac.new(key, b"demo_1_ab\x002", hashlib.sha256).hexdigest()
    found = check_run_token(key, f"wr1:demo_1_ab:2:{sign}")
    assert found is not None and found.is_of(2, CREATED) and not found.is_of(1, CREATED)
    assert check_run_token(key, f"wr2:demo_1_ab:2:{sign}") is None
    assert check_run_token(key, f"wr1:demo_1_ab:1:{sign}") is None
    for wrong in ("", "wr1", "wr1:", "wr2:a:1:1", "wr2:a:1:x:y", f"wr1:a:1:1:{sign}"):
        assert check_run_token(key, wrong) is None


def test_servers_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def load(_: int) -> bytes:
        together.wait()
        return load_key(tmp_path / "key")

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(load, range(8)))
    assert [len(key) for key in keys] == [32]
    assert load_key(tmp_path / "key") in keys
    assert os.listdir(tmp_path) == ["key"]
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "ab", "x" * 64, "ab" * 31])
def test_a_damaged_key_opens_nothing(tmp_path: Path, text: str) -> None:
    """A crash or a full disk left it short: with an empty key everybody could make tokens."""
    (tmp_path / "key").write_text(text)
    with pytest.raises(InternalError, match="damaged"):
        load_key(tmp_path / "key")
