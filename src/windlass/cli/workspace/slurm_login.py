"""Login options of `windlass connection add batch`: how to log in to a Slurm cluster, and the credentials."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any

from windlass.cli.compute.credentials import ask_secret, can_ask, content, first_line, require
from windlass.core.errors import InvalidRequest
from windlass.core.sanitize import escape

_MAGIC = b"openssh-key-v1\0"


def read(values: Mapping[str, Any], account: str, is_remote: bool) -> tuple[str, dict[str, str]]:
    """Read login and credentials from the options. Without any: the agent or the keys in ~/.ssh if the server is
    private and there are some, else a prompt for the password.
    """
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
    """Whether ssh would have a key to offer: from an agent or from ~/.ssh."""
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
            f"The private key {escape(path)} has a passphrase.", "Add --passphrase-file FILE or --passphrase-stdin"
        )
    return {"private_key": key, "passphrase": require(ask_secret(f"Passphrase of {escape(path)}: "), "passphrase")}


def is_locked(key: str) -> bool:
    """Whether a private key has a passphrase."""
    lines = key.strip().splitlines()
    if not lines or "OPENSSH" not in lines[0]:
        return "ENCRYPTED" in key
    try:
        decoded = base64.b64decode("".join(lines[1:-1]))
    except binascii.Error:
        return False
    return decoded.startswith(_MAGIC) and decoded[len(_MAGIC) + 4 :][:4] != b"none"
