"""What lets us in, as a person gives it: from a file, from standard input or by a prompt, never on a command line."""

from __future__ import annotations

import base64
import binascii
import os
import sys
from typing import NamedTuple

from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import shown

_MAGIC = b"openssh-key-v1\0"
_LARGEST = 1 << 16


class Given(NamedTuple):
    """How the machine lets us in (`login` of its configuration), and what the server gets for that, once."""

    login: str
    credentials: dict[str, str]


class Wanted(NamedTuple):
    """What the command line says."""

    account: str  # whose password it is, for the prompt
    password_file: str | None = None
    password_stdin: bool = False
    ask_password: bool = False
    private_key_file: str | None = None
    passphrase_file: str | None = None
    passphrase_stdin: bool = False
    use_workspace_key: bool = False
    use_agent: bool = False


def read(wanted: Wanted, is_remote: bool) -> Given:
    """Refuses what contradicts itself. With nothing given, the keys that ssh itself would use, or a prompt."""
    given = _choose(wanted, is_remote)
    for name, value in given.credentials.items():
        if not value:
            raise InvalidRequest(f"The {name.replace('_', ' ')} is empty.", "Was it the right file, or the right line?")
    return given


def _choose(wanted: Wanted, is_remote: bool) -> Given:
    by_password = [wanted.password_file is not None, wanted.password_stdin, wanted.ask_password]
    by_key = wanted.private_key_file is not None
    if sum(by_password) + by_key + wanted.use_agent > 1:
        raise InvalidRequest(
            "There are several ways to log in here; one is enough.",
            "--password-file, --password-stdin, --ask-password, --private-key-file or --use-agent",
        )
    if any(by_password):
        return Given("workspace-key" if wanted.use_workspace_key else "password", {"password": _password(wanted)})
    if by_key:
        return Given("workspace-key" if wanted.use_workspace_key else "key", _private_key(wanted))
    if wanted.use_workspace_key:
        return Given("workspace-key", {})
    if wanted.use_agent or (not is_remote and has_keys()):
        return Given("agent", {})
    if not can_ask():
        raise InvalidRequest(
            "There is no agent and no key in ~/.ssh, and no password was given.",
            "Add --password-file FILE, --password-stdin, --private-key-file FILE or -k",
        )
    return Given("password", {"password": ask_secret(f"Password of {wanted.account}: ")})


def will_ask(wanted: Wanted, is_remote: bool) -> bool:
    """Whether `read` puts a question to the person at the terminal."""
    if not can_ask():
        return False
    if wanted.private_key_file is not None:
        has_passphrase = wanted.passphrase_stdin or wanted.passphrase_file is not None
        return not has_passphrase and is_locked(content(wanted.private_key_file, "private key"))
    is_given = wanted.password_stdin or wanted.password_file is not None
    is_by_key = wanted.use_agent or wanted.use_workspace_key or (not is_remote and has_keys())
    return wanted.ask_password or not (is_given or is_by_key)


def has_keys() -> bool:
    """Whether ssh, called as it is, would have a key to offer."""
    if os.environ.get("SSH_AUTH_SOCK"):
        return True
    try:
        there = os.listdir(os.path.expanduser("~/.ssh"))
    except OSError:
        return False
    return any(name.startswith("id_") and not name.endswith(".pub") for name in there)


def can_ask() -> bool:
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def ask_secret(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)


def confirm(question: str) -> bool:
    """Yes only if somebody says so."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def first_line(path: str, what: str) -> str:
    """A secret that stands alone in a file."""
    return content(path, what).split("\n", 1)[0].rstrip("\r")


def one_secret(what: str, option: str, path: str | None, is_stdin: bool) -> str:
    """A secret from the file or the standard input that OPTION-file and OPTION-stdin name, or by a prompt."""
    if path is not None and is_stdin:
        raise InvalidRequest(f"The {what} comes from two places; one is enough.", f"{option}-file or {option}-stdin")
    if path is not None:
        found = first_line(path, what)
    elif is_stdin:
        found = sys.stdin.readline().rstrip("\r\n")
    elif can_ask():
        found = ask_secret(f"The {what}: ")
    else:
        raise InvalidRequest(f"No {what} was given.", f"Add {option}-file FILE or {option}-stdin")
    if not found:
        raise InvalidRequest(f"The {what} is empty.", "Was it the right file, or the right line?")
    return found


def _password(wanted: Wanted) -> str:
    if wanted.password_file is not None:
        return first_line(wanted.password_file, "password")
    if wanted.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    return ask_secret(f"Password of {wanted.account}: ")


def _private_key(wanted: Wanted) -> dict[str, str]:
    path = wanted.private_key_file or ""
    key = content(path, "private key")
    if wanted.passphrase_file is not None:
        return {"private_key": key, "passphrase": first_line(wanted.passphrase_file, "passphrase")}
    if wanted.passphrase_stdin:
        return {"private_key": key, "passphrase": sys.stdin.readline().rstrip("\r\n")}
    if is_locked(key):
        if not can_ask():
            raise InvalidRequest(
                f"The private key {shown(path)} has a passphrase.", "Add --passphrase-file FILE or --passphrase-stdin"
            )
        return {"private_key": key, "passphrase": ask_secret(f"Passphrase of {shown(path)}: ")}
    return {"private_key": key}


def is_locked(key: str) -> bool:
    """Whether a private key has a passphrase: so that one is asked for only then."""
    lines = key.strip().splitlines()
    if not lines or "OPENSSH" not in lines[0]:
        return "ENCRYPTED" in key
    try:
        content = base64.b64decode("".join(lines[1:-1]))
    except binascii.Error:
        return False
    return content.startswith(_MAGIC) and content[len(_MAGIC) + 4 :][:4] != b"none"


def content(path: str, what: str) -> str:
    whole = os.path.expanduser(path)
    try:
        with open(whole, encoding="utf-8") as file:
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise NotFound(f"There is no file {shown(path)} with the {what}.") from None
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text"
        raise InvalidRequest(f"The {what} in {shown(path)} cannot be read: {why}.") from None
    if len(text) > _LARGEST:
        raise InvalidRequest(f"{shown(path)} is too large for a {what}.")
    return text
