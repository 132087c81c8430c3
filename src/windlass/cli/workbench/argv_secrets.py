"""Removal of secrets from argv. Every user of a machine can read the arguments of its processes, and the old command
lines have passwords there. The process executes itself again without them, and gets them through a pipe.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise

# Options whose value is a secret, by command, with the key of the option. -w is a password, or the workspace.
ATTACH = {
    "--password": "password",
    "-w": "either",
    "-p": "password",
    "--private-key-passphrase": "private_key_passphrase",
}
_BY_COMMAND = {
    **{("attach", kind): ATTACH for kind in ("remote", "remotedocker", "cluster", "hdi")},
    ("attach", "databricks"): {"--access-token": "access_token", "-a": "access_token"},
    ("computetarget", "create"): {"--admin-user-password": "admin_user_password"},
    ("compute", "attach"): {"--admin-password": "admin_password"},
    ("compute", "create"): {"--admin-password": "admin_password"},
}
# An option that is shortened to fewer letters could be another one, and is refused.
_SHORTEST = len("--pas")
_PUBLIC = "--private-key-file"
OPTION = "--secrets-from-fd"
_FLAGS = ("-k", "-y", "-h")  # flags that may be joined with the next option in one word


def hide_from_argv(words: Sequence[str]) -> None:
    """Execute this process again without its secrets. Returns if there are none, or if `words` are not its argv."""
    kept, found = split(words, _secrets_of(words))
    whole = sys.orig_argv
    if not found or whole[len(whole) - len(words) :] != list(words):
        return
    reading, writing = os.pipe()
    os.write(writing, json.dumps(found).encode())
    os.close(writing)
    os.set_inheritable(reading, True)
    os.execv(sys.executable, [*whole[: len(whole) - len(words)], *kept, f"{OPTION}={reading}"])


def _secrets_of(words: Sequence[str]) -> dict[str, str]:
    """The secret options of the command in `words`, which may follow other options and `az ml`."""
    pairs = list(pairwise(words))
    if ("computetarget", "attach") in pairs and "--cluster" in words:
        return ATTACH
    return next((_BY_COMMAND[pair] for pair in pairs if pair in _BY_COMMAND), {})


def split(words: Sequence[str], secrets: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Split the words into those without secrets, and the secrets by key."""
    kept: list[str] = []
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        while len(word) > 2 and word.startswith(_FLAGS):  # -kywPASSWORD is -k -y -wPASSWORD
            kept.append(word[:2])
            word = "-" + word[2:]
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        key = _key_of(name, secrets)
        if key is None:
            kept.append(word)
        elif equals or value:
            found[key] = value
        elif rest:
            found[key] = rest.pop(0)
        else:
            kept.append(word)  # the parser says that its value is missing
    return kept, found


def _key_of(name: str, secrets: dict[str, str]) -> str | None:
    """The key of a secret option, whose name may be shortened; None for any other option."""
    if name in secrets or len(name) < _SHORTEST:
        return secrets.get(name)
    meant = [key for spelling, key in secrets.items() if spelling.startswith(name)]
    return meant[0] if len(meant) == 1 and not _PUBLIC.startswith(name) else None


def read_from_pipe(fd: int) -> dict[str, str]:
    """Read what hide_from_argv() wrote into the pipe."""
    try:
        with os.fdopen(fd, "rb") as pipe:
            found = json.loads(pipe.read())
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
