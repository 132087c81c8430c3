"""Settings, and how tokens are stored."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from windlass.store import Store


def test_settings_stand_over_the_defaults(store: Store) -> None:
    defaults = {"slots": 2, "keep": None, "list": [1]}
    assert store.settings.get(defaults) == defaults
    store.settings.set({"slots": 5, "list": {"a": [1.5, None]}, "unknown": 1})
    store.settings.set({"slots": 6})
    assert store.settings.get(defaults) == {"slots": 6, "keep": None, "list": {"a": [1.5, None]}}
    store.settings.set({"slots": None})
    assert store.settings.get(defaults)["slots"] == 2
    store.settings.set({})


def test_a_token_is_found_by_its_secret(store: Store) -> None:
    expires = datetime(2030, 1, 2, 3, 4, 5, 678901, UTC)
    id, secret = store.tokens.create("ann", "admin", "default", expires)
    token = store.tokens.find(secret)
    assert token is not None
    assert (token.id, token.principal, token.role, token.workspace) == (id, "ann", "admin", "default")
    assert (token.expires_at, token.revoked_at) == (expires, None)
    for wrong in ("", secret[:-1], secret + "x", secret.upper(), "\0", "\ud800", "' OR 1=1 --", id):
        assert store.tokens.find(wrong) is None


def test_secrets_are_not_kept(sqlite_store: Store, tmp_path: Path) -> None:
    secrets = {sqlite_store.tokens.create("ann", "user")[1] for _ in range(3)}
    assert len(secrets) == 3
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("db.sqlite*"))
    assert b"ann" in kept and not any(secret.encode() in kept for secret in secrets)
