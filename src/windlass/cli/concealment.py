"""Secrets on a command line are seen by everybody on the machine. The old command lines have them there, so they are
taken out of it at once: the same process begins again without them, and gets them through a pipe.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

# Options of `computetarget attach` whose value is a secret, and what it is.
SECRETS = {
    "--password": "password",
    "-w": "password",
    "-p": "password",
    "--private-key-passphrase": "passphrase",
}
OPTION = "--secrets-from-fd"
_FLAGS = ("-k", "-y", "-h")  # which may stand before another letter, in one word


def conceal(words: Sequence[str]) -> None:
    """Returns only if there is nothing to be concealed, or if the command line is not this process's own."""
    kept, found = split(words) if _is_attach(words) else ([], {})
    whole = sys.orig_argv
    if not found or whole[len(whole) - len(words) :] != list(words):
        return
    reading, writing = os.pipe()
    os.write(writing, json.dumps(found).encode())
    os.close(writing)
    os.set_inheritable(reading, True)
    os.execv(sys.executable, [*whole[: len(whole) - len(words)], *kept, f"{OPTION}={reading}"])


def _is_attach(words: Sequence[str]) -> bool:
    """Options of every command may stand before it."""
    at = words.index("computetarget") if "computetarget" in words else len(words)
    return list(words[at + 1 : at + 2]) == ["attach"]


def split(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words without secrets, and these."""
    kept: list[str] = []
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        while len(word) > 2 and word.startswith(_FLAGS):  # -kywPASSWORD is -k -y -wPASSWORD
            kept.append(word[:2])
            word = "-" + word[2:]
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        if name not in SECRETS:
            kept.append(word)
        elif equals or value:
            found[SECRETS[name]] = value
        elif rest:
            found[SECRETS[name]] = rest.pop(0)
        else:
            kept.append(word)  # whoever reads the options says that its value is missing
    return kept, found


def received(fd: int) -> dict[str, str]:
    """What conceal() put into the pipe."""
    try:
        with os.fdopen(fd, "rb") as pipe:
            found = json.loads(pipe.read())
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
