"""Askpass: gives ssh a password without a terminal. ssh starts a helper, which reads it from a private Unix socket."""

from __future__ import annotations

import os
import shlex
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

_MAX_QUESTIONS = 4

_HELPER = """\
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["WINDLASS_ASK"])
connection.sendall(" ".join(sys.argv[1:]).encode("utf-8", "replace") + b"\\n")
connection.shutdown(socket.SHUT_WR)
answer = b""
while True:
    more = connection.recv(4096)
    if not more:
        break
    answer += more
sys.stdout.buffer.write(answer)
sys.exit(0 if answer else 1)
"""


@contextmanager
def serve_password(path: Path, host: str, password: SecretStr) -> Iterator[dict[str, str]]:
    """Serve the password until the context ends. Yields the environment variables that make ssh use the helper.

    Only a prompt for the password at `host` is answered: a jump host on the way there must not get it.
    """
    program = path.with_suffix(".py")
    program.write_text(_HELPER, encoding="utf-8")
    helper = path.with_suffix(".sh")
    words = shlex.join([sys.executable, "-I", "-S", str(program)])
    helper.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    helper.chmod(0o700)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    path.chmod(0o600)
    listening.listen(4)
    answering = threading.Thread(target=_answer, args=(listening, host, password), name="askpass", daemon=True)
    answering.start()
    try:
        yield {
            "SSH_ASKPASS": str(helper),
            "SSH_ASKPASS_REQUIRE": "force",
            "WINDLASS_ASK": str(path),
            "DISPLAY": os.environ.get("DISPLAY", "none"),  # clients before OpenSSH 8.4 ask for one
        }
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        answering.join()
        listening.close()


def _answer(listening: socket.socket, host: str, password: SecretStr) -> None:
    for _ in range(_MAX_QUESTIONS):
        try:
            connection, _ = listening.accept()
        except OSError:
            return  # closed: the context has ended
        with connection:
            connection.settimeout(5)
            try:
                if _is_same_user(connection) and _asks_for_password(connection.recv(4096), host):
                    connection.sendall(password.get_secret_value().encode() + b"\n")
            except OSError:
                continue


def _is_same_user(connection: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder is private in any case
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", data)
    return int(uid) == os.getuid()


def _asks_for_password(prompt: bytes, host: str) -> bool:
    """ "ann@host's password:" and "(ann@host) Password:"; not a one-time code, nor whether to trust a key."""
    text = prompt.decode("utf-8", "replace")
    return f"@{host}" in text and text.rstrip().lower().endswith("password:")
