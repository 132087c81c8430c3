"""How `windlass connection add batch` logs in to a Slurm cluster: the login, and the credentials for it."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any

from windlass.cli.compute.credentials import ask_secret, can_ask, content, first_line, require
from windlass.core.errors import InvalidRequest
from windlass.core.sanitize import shown

_MAGIC = b"openssh-key-v1\0"


def read(values: Mapping[str, Any], account: str, is_remote: bool) -> tuple[str, dict[str, str]]:
    """What the options say. Without any, the keys that ssh itself would use on a private server, or a prompt."""
    by_password = [values["password_file"] is not None, values["password_stdin"], values["ask_password"]]
    by_key = values["private_key_file"] is not None
    if sum(by_password) + by_key + values["use_agent"] > 1:
        raise InvalidRequest(
            "There are several ways to log in here; one is enough.",
            "--password-file, --password-stdin, --ask-password, --private-key-file or --use-agent",
        )
    if by_key:
        return "key", _private_key(values)
    if values["password_file"] is not None or values["password_stdin"]:
        return "password", {"password": first_line("password", values["password_file"])}
    if values["use_agent"] or (not values["ask_password"] and not is_remote and has_keys()):
        return "agent", {}
    if not can_ask():
        raise InvalidRequest(
            "There is no agent and no key in ~/.ssh, and no password was given.",
            "Add --password-file FILE, --password-stdin or --private-key-file FILE",
        )
    return "password", {"password": require(ask_secret(f"Password of {account}: "), "password")}


def has_keys() -> bool:
    """Whether ssh, called as it is, would have a key to offer."""
    if os.environ.get("SSH_AUTH_SOCK"):
        return True
    try:
        there = os.listdir(os.path.expanduser("~/.ssh"))
    except OSError:
        return False
    return any(name.startswith("id_") and not name.endswith(".pub") for name in there)


def _private_key(values: Mapping[str, Any]) -> dict[str, str]:
    path = values["private_key_file"]
    key = require(content(path, "private key"), "private key")
    if values["passphrase_file"] is not None or values["passphrase_stdin"]:
        return {"private_key": key, "passphrase": first_line("passphrase", values["passphrase_file"])}
    if not is_locked(key):
        return {"private_key": key}
    if not can_ask():
        raise InvalidRequest(
            f"The private key {shown(path)} has a passphrase.", "Add --passphrase-file FILE or --passphrase-stdin"
        )
    return {"private_key": key, "passphrase": require(ask_secret(f"Passphrase of {shown(path)}: "), "passphrase")}


def is_locked(key: str) -> bool:
    """Whether a private key has a passphrase: so that one is asked for only then."""
    lines = key.strip().splitlines()
    if not lines or "OPENSSH" not in lines[0]:
        return "ENCRYPTED" in key
    try:
        decoded = base64.b64decode("".join(lines[1:-1]))
    except binascii.Error:
        return False
    return decoded.startswith(_MAGIC) and decoded[len(_MAGIC) + 4 :][:4] != b"none"
