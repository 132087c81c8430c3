"""How ssh gets a password without a terminal: it starts a helper, which asks us over a socket that only we can use."""

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

_MOST_ASKED = 4

_HELPER = """\
import os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["WINDLASS_ASK"])
line.sendall(" ".join(sys.argv[1:]).encode("utf-8", "replace") + b"\\n")
line.shutdown(socket.SHUT_WR)
answer = b""
while True:
    more = line.recv(4096)
    if not more:
        break
    answer += more
sys.stdout.buffer.write(answer)
sys.exit(0 if answer else 1)
"""


@contextmanager
def asking(path: Path, host: str, password: SecretStr) -> Iterator[dict[str, str]]:
    """The variables by which ssh finds the helper; it is answered until the context ends.

    Only who asks for the password at that host: a jump host on the way there must not get it.
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
    for _ in range(_MOST_ASKED):
        try:
            line, _ = listening.accept()
        except OSError:
            return  # nobody will ask any more
        with line:
            line.settimeout(5)
            try:
                if _is_ours(line) and _asks_for_password(line.recv(4096), host):
                    line.sendall(password.get_secret_value().encode() + b"\n")
            except OSError:
                continue


def _is_ours(line: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder is ours alone in any case
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid) == os.getuid()


def _asks_for_password(prompt: bytes, host: str) -> bool:
    """ "ann@host's password:" and "(ann@host) Password:"; not a one-time code, nor whether to trust a key."""
    text = prompt.decode("utf-8", "replace")
    return f"@{host}" in text and text.rstrip().lower().endswith("password:")
